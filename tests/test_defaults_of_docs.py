"""Defaults that tables of the docs state are those of the code: options of commands, limits, keys of `runtime`."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from framework.limits import Limits
from suites.engine.config.sections import EightBitsSettings
from suites.engine.config.settings import Runtime
from suites.ocr.rendering.look import Look
from tests.test_commands_of_docs import parsed

HOWTO = Path(__file__).resolve().parents[1] / "docs" / "howto"
SIZES = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
WORDS = {"off": False, "false": False, "true": True, "null": None}
OPTIONS = [("serving.md", "paddock serve mine"), ("ocr.md", "paddock data render words.txt --output drawn")]


def rows(page: str) -> Iterator[tuple[list[str], str]]:
    """Of each row of a table with a column "default": the names in backticks at its left, and what that column says."""
    head: list[str] | None = None
    for line in (HOWTO / page).read_text().splitlines():
        if not line.startswith("|"):
            head = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if head is None:
            head = cells
        elif "default" in head and not set(cells[0]) <= {"-", " ", ":"}:
            yield re.findall(r"`([^`]+)`", cells[0]), cells[head.index("default")]


def values(said: str) -> list[Any]:
    """What a cell states, one behind the other: numbers with their size, and words."""
    found: list[Any] = []
    for each in re.split(r",(?!\d{3}\b)\s*", said):
        number = re.match(r"([\d,.]+)(?: (KB|MB|GB))?", each)
        if number is None:
            found.append(WORDS.get(each, each))
        else:
            found.append(float(number[1].replace(",", "")) * SIZES.get(number[2] or "", 1))
    return found


def at(settings: Any, key: str) -> Any:
    """The default of `checkpoint.every` of the sections of `runtime`."""
    for part in key.split("."):
        settings = getattr(settings, part)
    return settings


@pytest.mark.parametrize(("page", "command"), OPTIONS)
def test_options_have_the_defaults_that_their_tables_state(page, command, monkeypatch):
    ours = vars(Look()) | {key: value for key, value in vars(parsed(command, monkeypatch)).items() if value is not None}
    seen = 0
    for names, said in rows(page):
        if not names or not all(name.startswith("--") for name in names):
            continue
        stated = values(said)
        stated = stated * len(names) if len(stated) == 1 else stated
        for name, value in zip(names, stated, strict=True):
            default = ours.get(name.strip("-").replace("-", "_"))
            if default is None:
                assert isinstance(value, str), name  # told in words
                continue
            assert default == value, f"{page}: {name} is {default} and the page says {value}"
            seen += 1
    assert seen > 7


def test_the_table_of_limits_has_all_of_them_as_they_are():
    stated = {}
    names = {field.name for field in fields(Limits)}
    for keys, said in rows("serving.md"):
        if keys and set(keys) <= names:
            stated |= dict(zip(keys, values(said), strict=True))
    assert stated == {name: getattr(Limits(), name) for name in names}


def test_the_tables_of_runtime_state_its_defaults():
    runtime, seen = Runtime(epochs=1), 0
    for keys, said in rows("training.md"):
        for at_, name in enumerate(keys):
            key = keys[0].rpartition(".")[0] + name if name.startswith(".") else name
            key = f"data.{key}" if hasattr(runtime.data, key) else key
            if not said or said == "the task's":
                continue
            stated = said.split()[at_] if len(keys) > 1 else said
            assert at(runtime, key) == values(stated)[0], key
            seen += 1
    assert seen >= 9


def test_the_table_of_eight_bits_states_its_defaults():
    lines = re.findall(r"^\| `(\w+): (\S+)` \|", (HOWTO / "quantization.md").read_text(), re.M)
    ours = EightBitsSettings()
    assert {key: str(getattr(ours, key)) for key, _ in lines} == dict(lines) and len(lines) == len(fields(ours))


def test_another_default_would_be_found():
    assert values("1,024, 2 MB, off, all cores") == [1024, 2 << 20, False, "all cores"]
