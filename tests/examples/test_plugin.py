"""examples/plugin: a backbone, a loss, a data set and a hook in one module outside of the tree, by the command."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
IMPORT = ("--import", "shapes_plugin")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A user's folder with the plug-in and a trained run."""
    path = tmp_path_factory.mktemp("user")
    for file in (ROOT / "examples" / "plugin").glob("shapes*"):
        shutil.copy(file, path)
    assert paddock(path, "train", "shapes.yml", "-o", "runtime.workers=1")[0] == 0
    return path


def paddock(folder, *words):
    command = [sys.executable, "-P", "-m", "suites.engine.cli", *words]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300
    )
    return done.returncode, done.stdout, done.stderr


def test_it_learns_and_its_hook_writes_into_the_run(folder):
    figures = json.loads((folder / "runs/shapes/metrics.json").read_text())
    assert figures["top1"] > 0.8
    rows = (folder / "runs/shapes/figures.csv").read_text().split()
    assert [row.split(",")[0] for row in rows] == ["64", "128"] and float(rows[-1].split(",")[1]) == figures["top1"]


def test_the_run_remembers_the_plug_in_but_imports_it_only_when_told(folder):
    assert "imports: [shapes_plugin]\n" in (folder / "runs/shapes/config.yml").read_text()
    for words in ("eval runs/shapes", "export runs/shapes --output no", "train runs/shapes --resume"):
        status, _, said = paddock(folder, *words.split())
        assert status == 2 and said.count("\n") == 1
        assert said.startswith("error: runs/shapes/config.yml: imports: it needs shapes_plugin, which is not imported")
        assert "add --import shapes_plugin to the command" in said
    status, out, _ = paddock(folder, "eval", "runs/shapes", *IMPORT)
    assert status == 0 and json.loads(out) == json.loads((folder / "runs/shapes/metrics.json").read_text())
    status, out, _ = paddock(folder, "train", "runs/shapes", "--resume", *IMPORT)
    assert status == 0 and "resumed at step 128" in out


def test_what_it_exports_predicts_without_the_plug_in(folder):
    assert paddock(folder, "export", "runs/shapes", "--output", "exported", *IMPORT)[0] == 0
    assert json.loads((folder / "exported/program.json").read_text())["extra"]["imports"] == ["shapes_plugin"]
    found = []
    for words in (["exported", "runs/shapes/pictures"], ["runs/shapes", "runs/shapes/pictures", *IMPORT]):
        status, out, said = paddock(folder, "infer", *words, "--output", "out")
        assert status == 0 and "2 pictures" in out, said
        found.append(json.loads((folder / "out/predictions.json").read_text()))
    assert found[0].keys() == found[1].keys()


def test_the_command_knows_the_components_of_the_plug_in(folder):
    status, out, _ = paddock(folder, "config", "help", "Focal", *IMPORT)
    assert status == 0 and "Focal (loss of classification), shapes_plugin.Focal" in out and "gamma: float = 2.0" in out
    status, out, _ = paddock(folder, "config", "check", "shapes.yml")
    assert status == 0 and "both steps ran on one batch" in out
