"""The example of docs/explanation/performance.md runs."""

import re
from pathlib import Path

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "explanation" / "performance.md").read_text()


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    (source,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    monkeypatch.chdir(tmp_path)
    exec(compile(source, "docs/explanation/performance.md", "exec"), {})
    out = capsys.readouterr().out
    assert "conv2d 3x3" in out and "MB planned" in out
    assert (tmp_path / "trace.json").is_file()
