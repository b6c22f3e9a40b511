"""The example of control flow in docs/explanation/programs.md runs and gives what it says."""

import re
from pathlib import Path

import numpy as np

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "explanation" / "programs.md").read_text()


def test_the_example_runs():
    (source,) = (s for s in re.findall(r"```python\n(.*?)```", TEXT, re.S) if "clipped_sums" in s)
    scope: dict = {}
    exec(compile(source, "docs/explanation/programs.md", "exec"), scope)
    norms = np.linalg.norm(scope["sums"].numpy(), axis=1)
    np.testing.assert_allclose(norms, [2**0.5, 2, 2, 2, 2], rtol=1e-6)
    assert 0.05 < np.abs(scope["small"].numpy()).max() <= 0.1
    scope["clipped_sums"](np.ones((9, 3), np.float32), scope["framework"].tensor(1.0))
    assert scope["clipped_sums"].traces_made == 1
