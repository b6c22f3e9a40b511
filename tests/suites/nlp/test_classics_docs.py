"""The example of docs/howto/nlp_classics.md runs."""

import re
from pathlib import Path

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "howto" / "nlp_classics.md").read_text()


def test_the_example_runs():
    (source,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    scope: dict = {}
    exec(compile(source, "docs/howto/nlp_classics.md", "exec"), scope)
    assert 3 < float(scope["loss"].numpy()) < 7  # about log(80) before training
    assert 1 <= len(scope["results"][0]) <= 4 and all(word < 80 for word in scope["best"].ids)


def test_what_the_page_names_is_there():
    root = Path(__file__).resolve().parents[3]
    for name in re.findall(r"`(\w+\.yml)`", TEXT):
        assert (root / "configs" / "nlp" / name).exists(), name
    for path in re.findall(r"(?:python |`)((?:benchmarks|suites|tools)/[\w/]+\.py)", TEXT):
        assert (root / path).exists(), path
