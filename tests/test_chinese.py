"""The Chinese pages keep step with the English ones: headings, code, lists, tables, links and options."""

import os
import re
from importlib import import_module
from itertools import groupby
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CHINESE = ROOT / "docs" / "zh"
TWINS = {
    "README.md": "README.md",
    "docs/tutorial/photos.md": "photos.md",
    "docs/tutorial/library.md": "library.md",
    "docs/tutorial/clicks.md": "clicks.md",
}
COMMANDS = ("train", "eval", "infer", "export", "serve")


def kinds(text):
    """Of each line what it is: code with its text, a heading with its level, an item, a row of a table, or words."""
    fenced = False
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
            yield "code", line
        elif fenced or line.startswith("    "):
            yield "code", line
        elif heading := re.match("#+", line):
            yield "heading", len(heading[0])
        elif line.startswith("- "):
            yield "item", ""
        elif line.startswith("|"):
            yield "row", line.count(" | ")


def targets(page):
    """Where a page's links lead, from the root; a page that has a Chinese twin is that twin."""
    found = set()
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target or target.startswith("#"):
            continue
        path = os.path.relpath((page.parent / target.partition("#")[0]).resolve(), ROOT)
        found.add(f"docs/zh/{TWINS[path]}" if path in TWINS else path)
    return found


@pytest.mark.parametrize(("english", "chinese"), TWINS.items())
def test_a_chinese_page_has_the_headings_code_items_and_rows_of_the_english_one(english, chinese):
    ours, theirs = (list(kinds(p.read_text(encoding="utf-8"))) for p in (CHINESE / chinese, ROOT / english))
    assert len(theirs) > 10
    for (kind, mine), (other, yours) in zip(
        groupby(ours, lambda x: x[0]), groupby(theirs, lambda x: x[0]), strict=True
    ):
        assert (kind, list(mine)) == (other, list(yours))


@pytest.mark.parametrize(("english", "chinese"), TWINS.items())
def test_a_chinese_page_leads_where_the_english_one_leads(english, chinese):
    mine = targets(CHINESE / chinese)
    assert targets(ROOT / english) - {f"docs/zh/{chinese}"} <= mine
    assert all((ROOT / path).exists() for path in mine)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_chinese_page_of_commands_lists_each_option_and_argument_in_the_order_of_help(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    with pytest.raises(SystemExit):
        import_module(f"suites.engine.cli.{command}").main(["--help"], f"paddock {command}")
    # Words of a group's description have one space behind them, arguments more.
    listed = re.findall(r"^  (-\w(?= |,)|--[\w-]+(?= |$)|\w+(?=  |$))", capsys.readouterr().out, re.MULTILINE)
    options = [name for name in listed if name != "-h"]
    (section,) = re.findall(
        rf"^## paddock {command}\n(.*?)(?=^## |\Z)", (CHINESE / "commands.md").read_text(encoding="utf-8"), re.M | re.S
    )
    assert len(options) >= 6
    assert re.findall(r"^\| `([^ `]+)", section, re.MULTILINE) == options
