"""The example of docs/howto/quantization.md runs."""

import re
from pathlib import Path

import numpy as np

import framework

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "howto" / "quantization.md").read_text()


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    (source,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    exec(compile(source, "docs/howto/quantization.md", "exec"), scope)
    assert capsys.readouterr().out.count("dynamic") == 2
    whole = scope["model"](framework.from_numpy(scope["x"])).numpy()
    assert np.abs(scope["y"] - whole).max() < 0.05 * np.abs(whole).max()
