"""The console command `paddock`: its help is there at once, each command is found and says what it takes."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from framework import limits
from suites.engine import cli

ROOT = Path(__file__).resolve().parents[4]
COMMANDS = [
    *("train", "eval", "infer", "export", "serve", "config", "zoo"),
    *(
        "anchors",
        "average",
        "bench",
        "data",
        "embedder",
        "features",
        "index",
        "probe",
        "render",
        "report",
        "slim",
        "vocab",
    ),
]


def test_the_wheel_has_the_command():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"paddock": "suites.engine.cli:main"}


def test_help_names_every_command_with_what_it_does(capsys):
    assert cli.main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == COMMANDS
    assert "  train     Train what a config describes" in lines


def test_help_imports_nothing_of_the_core_or_of_other_packages():
    code = "import sys; from suites.engine.cli import main; main(['--help']); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    imported = out.splitlines()[-1].split()
    assert "suites.engine.cli" in imported
    assert not {"framework._core", "framework.ops", "numpy", "yaml", "rich"} & {*imported}


def test_no_command_shows_the_help_and_fails(capsys):
    assert cli.main([]) == 2 and "usage: paddock COMMAND" in capsys.readouterr().out


def test_an_unknown_command_is_one_error_with_the_nearest(capsys):
    assert cli.main(["trian"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: paddock has no command 'trian'; did you mean 'train'? Commands: train, eval, ")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_says_what_it_takes_under_its_own_name(name, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([name, "--help"])
    assert end.value.code == 0 and capsys.readouterr().out.startswith(f"usage: paddock {name} ")


def test_every_command_takes_limits_of_files(monkeypatch):
    from suites.engine.cli import config

    seen = []
    monkeypatch.setattr(config, "main", lambda words, prog: seen.append((words, limits.current().pixels)) or 0)
    for words in (["--limit", "pixels=7", "list"], ["list", "--limit=pixels=7", "--limit", "nodes=9"]):
        assert cli.main(["config", *words]) == 0
    assert seen == [(["list"], 7)] * 2 and limits.current().pixels > 7


@pytest.mark.parametrize("given", [[], ["pixels"], ["pixels=-1"], ["pixel=5"]])
def test_a_wrong_limit_is_one_error(given, capsys):
    assert cli.main(["config", "list", "--limit", *given]) == 2
    said = capsys.readouterr().err
    assert said.startswith(("error: --limit: takes NAME=N", "error: limits: there is no 'pixel'"))
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_each_tool_is_a_door_to_the_command(name):
    assert f".cli.{name} import main" in (ROOT / "tools" / f"{name}.py").read_text()


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("config", "zoo", "data", "slim", "index")])
def test_each_command_imports_plug_ins(name, capsys):
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    assert "--import NAME" in capsys.readouterr().out
