"""What people read stays readable: lines of prose have at most 120 characters, as in code."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GENERATED = ROOT / "docs" / "reference" / "operators"
CHINESE = ROOT / "docs" / "zh"  # a line break between two of its characters would be shown as a space
PAGES = [
    p for p in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]) if p.parent not in (GENERATED, CHINESE)
]
NOT_PROSE = re.compile(r"\s{4}|\s*(?:\||<|\[[^\]]+\]:|#)")  # code, tables, links and headings


def prose(text):
    fenced = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and not NOT_PROSE.match(line):
            yield number, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_line_of_prose_has_at_most_120_characters_unless_it_is_one_word(page):
    long = [number for number, line in prose(page.read_text(encoding="utf-8")) if len(line) > 120]
    assert long == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_number_that_ends_a_sentence_begins_a_line_where_it_would_make_a_list(page):
    lines = dict(prose(page.read_text(encoding="utf-8")))
    made = [at for at, line in lines.items() if re.match(r"\d\d+[.)] ", line) and lines.get(at - 1, "").strip()]
    assert made == []


def test_there_are_pages_with_prose():
    assert len(PAGES) > 40 and sum(1 for page in PAGES for _ in prose(page.read_text(encoding="utf-8"))) > 1000
