"""Every benchmark answers --help: what it imports is there, and its options are sound."""

import ast
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py"))
PEERS = (  # run in a peer's Python
    "ctr_peers.py",
    "face_networks.py",
    "segmentation_networks.py",
    "video_networks.py",
    "writing_networks.py",
)


def imports_torch(path):
    """Whether a file needs PyTorch before it can say anything."""
    body = ast.parse(path.read_text()).body
    found = {name.name for node in body if isinstance(node, ast.Import) for name in node.names}
    return "torch" in found


def test_only_what_runs_in_a_peers_interpreter_needs_torch_to_be_imported():
    assert tuple(name for name in SCRIPTS if imports_torch(FOLDER / name)) == PEERS


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name not in PEERS])
def test_a_benchmark_answers_help(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    if "__main__" not in (FOLDER / name).read_text():  # a module of several benchmarks
        runpy.run_path(str(FOLDER / name))
        return
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(FOLDER / name), run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {name} [-h]")
