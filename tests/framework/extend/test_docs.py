"""The Python of docs/howto/custom_operators.md runs and gives what it says."""

import re
from pathlib import Path

import numpy as np

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "howto" / "custom_operators.md").read_text()


def test_the_examples_run():
    scope: dict = {}
    for source in re.findall(r"```python\n(.*?)```", TEXT, re.S):
        exec(compile(source, "docs/howto/custom_operators.md", "exec"), scope)
    assert scope["ordered"].tolist() == [1.0, 2.0, 3.0]
    assert scope["best"].item() == 3.0 and scope["order"].tolist() == [1, 2, 0]
    assert scope["doubled"].tolist() == [2.0, 4.0, 6.0]
    x = np.array([0.4, 1.6])
    s = 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(scope["slope"].numpy(), s + np.round(x) * s * (1 - s), rtol=1e-6)
