"""`tools/config.py` answers on the command line; errors are one line of text and exit status 2."""

import runpy
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "config.py"


@dataclass
class Result:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with two small configs."""
    (tmp_path / "base.yml").write_text("suite: detection\nmodel: {type: A, size: 3}\n")
    (tmp_path / "x.yml").write_text("extends: base.yml\nmodel:\n  size: 5e-1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tool(folder, capsys):
    """Call the tool's main function with the words of a command line."""
    main = runpy.run_path(str(TOOL))["main"]

    def run(*words: str) -> Result:
        try:
            status = main(list(words))
        except SystemExit as exit_:
            status = exit_.code
        return Result(status, *capsys.readouterr())

    return run


def test_it_runs_from_any_folder_without_being_installed(folder):
    command = [sys.executable, str(TOOL), "explain", "x.yml", "model.size"]
    shown = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert shown.stdout == "model.size = 0.5\n  set by x.yml:3\n  overrode 3 from base.yml:2\n"


def test_show_prints_yaml_that_can_be_loaded_again(tool, folder):
    shown = tool("show", "x.yml", "-o", "model.name=a b")
    assert shown.returncode == 0
    assert shown.stdout.startswith("suite: detection\nmodel: {type: A, size: 0.5, name: a b}\n# digest ")
    (folder / "again.yml").write_text(shown.stdout)
    assert tool("show", "again.yml").stdout == shown.stdout


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
