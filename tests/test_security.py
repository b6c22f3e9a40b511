"""Each line of the threat model names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "security.md"


def test_every_test_that_the_threat_model_names_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 15
    for file, name in named:
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), f"{file}::{name}"


def test_every_line_of_the_threat_model_has_a_test():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 12
    for row in rows:
        assert "::test_" in row, row
