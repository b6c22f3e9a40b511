"""The example of docs/explanation/tables.md runs, learns, and makes rows."""

import re
from pathlib import Path

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "explanation" / "tables.md").read_text()


def test_the_example_runs():
    (source,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    scope: dict = {}
    exec(compile(source, "docs/explanation/tables.md", "exec"), scope)
    assert float(scope["loss"]) < 0.5  # ln 2 before it learns
    assert scope["stats"].rows + scope["went"] == scope["stats"].admitted > 900
    assert set(scope["stats"].slots) == {0, 1, 2}
    assert scope["step"].traces_made == 1
