"""examples/ten_lines.ipynb runs from its first cell to its last, and its predictions show as pictures."""

import os
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="the package nbformat is not installed")
nbclient = pytest.importorskip("nbclient", reason="the package nbclient is not installed")

ROOT = Path(__file__).resolve().parents[2]


def text_of(output):
    return output.get("text", "") or output.get("data", {}).get("text/plain", "")


def test_the_notebook_trains_loads_and_shows_a_picture(tmp_path):
    notebook = nbformat.read(ROOT / "examples" / "ten_lines.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    home = {name: str(tmp_path / name) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR")}
    client.execute(env={**os.environ, **home, "PYTHONPATH": str(ROOT)})
    training, shown, written = (cell for cell in notebook.cells if cell.cell_type == "code")
    assert "done: 16 steps" in "".join(map(text_of, training.outputs))
    assert any("image/png" in output.get("data", {}) for output in shown.outputs)
    assert written.outputs[0]["data"]["text/plain"].startswith("[")
    assert (tmp_path / "runs" / "mine" / "config.yml").is_file()
