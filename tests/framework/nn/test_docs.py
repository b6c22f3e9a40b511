"""The example of docs/explanation/layers.md runs and learns."""

import re
from pathlib import Path

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "explanation" / "layers.md").read_text()


def test_the_example_runs():
    (source,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    scope: dict = {}
    exec(compile(source, "docs/explanation/layers.md", "exec"), scope)
    assert 0 < float(scope["loss"]) < 10
    assert scope["step"].traces_made == 1
    assert "stem.conv.weight" in scope["state"]
