"""The examples of docs/howto/nlp_models.md run, one after the other."""

import re
from pathlib import Path

TEXT = (Path(__file__).resolve().parents[4] / "docs" / "howto" / "nlp_models.md").read_text()


def test_the_examples_run(capsys):
    scope: dict = {}
    for source in re.findall(r"```python\n(.*?)```", TEXT, re.S):
        exec(compile(source, "docs/howto/nlp_models.md", "exec"), scope)
    assert scope["logits"].shape == (2, 2) and scope["sequence"].shape == (7, 128)
    assert capsys.readouterr().out.strip() == re.search(r"print\(report\)  # (.*)", TEXT)[1]
