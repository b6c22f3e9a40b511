"""The README is short and leads somewhere; the example of the core's tutorial runs as it stands."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"


def test_the_example_of_the_core_trains(capsys):
    page = ROOT / "docs" / "tutorial" / "core.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(compile(example, str(page), "exec"), {"__name__": "core"})
    # y = x1 * x2 has variance 1; a network that learned nothing has that loss.
    assert float(capsys.readouterr().out) < 0.3


def test_it_fits_two_screens():
    assert len(README.read_text().splitlines()) <= 80


def test_every_link_to_a_file_leads_somewhere():
    for target in re.findall(r"\]\((?!http)([^)#]+)[)#]", README.read_text()):
        assert (README.parent / target).exists(), target


def test_every_config_that_it_names_comes_with_paddock():
    named = re.findall(r"paddock train (?!runs/)(\w+/\w+)", README.read_text())
    assert named and all((ROOT / "configs" / f"{name}.yml").is_file() for name in named)
