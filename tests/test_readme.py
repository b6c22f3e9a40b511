"""The README's example runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).resolve().parents[1] / "README.md"


def test_the_example_trains(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    exec(compile(example, str(README), "exec"), {"__name__": "readme"})
    # y = x1 * x2 has variance 1; a network that learned nothing has that loss.
    assert float(capsys.readouterr().out) < 0.3


def test_every_link_to_a_file_leads_somewhere():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
