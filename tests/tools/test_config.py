"""`tools/config.py` answers on the command line; errors are one line of text and exit status 2."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool(tmp_path):
    """Run the tool as a user does, in a folder with two small configs."""
    (tmp_path / "base.yml").write_text("suite: detection\nmodel: {type: A, size: 3}\n")
    (tmp_path / "x.yml").write_text("extends: base.yml\nmodel:\n  size: 5e-1\n")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "tools" / "config.py"), *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    return run


def test_show_prints_yaml_that_can_be_loaded_again(tool, tmp_path):
    shown = tool("show", "x.yml", "-o", "model.name=a b")
    assert shown.returncode == 0
    assert shown.stdout.startswith("suite: detection\nmodel: {type: A, size: 0.5, name: a b}\n# digest ")
    (tmp_path / "again.yml").write_text(shown.stdout)
    assert tool("show", "again.yml").stdout == shown.stdout


def test_explain_prints_file_and_line(tool):
    shown = tool("explain", "x.yml", "model.size")
    assert shown.stdout == "model.size = 0.5\n  set by x.yml:3\n  overrode 3 from base.yml:2\n"


def test_diff_prints_changes_and_tells_by_its_exit_status(tool):
    differing = tool("diff", "base.yml", "x.yml")
    assert (differing.returncode, differing.stdout) == (1, "~ model.size: 3 -> 0.5\n")
    same = tool("diff", "x.yml", "x.yml")
    assert (same.returncode, same.stdout) == (0, "no difference\n")


def test_errors_are_text_and_not_a_traceback(tool):
    missing = tool("show", "bse.yml")
    assert missing.returncode == 2 and missing.stdout == ""
    assert missing.stderr == "error: bse.yml: there is no such config file; did you mean 'base.yml'?\n"
    unknown = tool("check", "x.yml", "-o", "suite=detecton")
    assert unknown.returncode == 2
    assert "suite: no suite is called 'detecton'; did you mean 'detection'?" in unknown.stderr


def test_list_and_help_know_the_components_of_all_suites(tool):
    assert tool("list").returncode == 0
    unknown = tool("help", "NoSuchThing")
    assert unknown.returncode == 2 and "no component is called 'NoSuchThing'" in unknown.stderr


def test_a_wrong_command_line_shows_the_usage(tool):
    wrong = tool("explian")
    assert wrong.returncode == 2 and "usage: config.py" in wrong.stderr
