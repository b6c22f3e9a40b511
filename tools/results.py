"""Write docs/results/configs.md from the configs' status lines: `python tools/results.py [--check]`.

Each config that comes with Paddock says in its first comment what is known of it, in one line:

    # Status: trained here (METRIC FIGURE on DATA, DATE).
    # Status: published by others (METRIC FIGURE on DATA by WHOM).
    # Status: checked only.

The first two may stand together, with "; " between them.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
PAGE = "docs/results/configs.md"

_TRAINED, _PUBLISHED = "trained here (", "published by others ("
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_NO_SOURCE = "source not noted"
# What else than `paddock train NAME` makes figures again, by how their data begin.
_COMMANDS = {
    "10 folds of": "python benchmarks/ctr_folds.py {name}",
    "5 folds of fight": "python benchmarks/video_folds.py {name}",
    "5 folds of 200 raccoons": "python benchmarks/detection_folds.py {name} --data detection/raccoon/raccoon.zip",
}
_HEAD = """# Results of the shipped configs

Written by `make docs` from the line `# Status: ...` of each config. "Published" is what others report of the recipe, or
of the weights that the config reads; it was not measured here. "checked only": the config is built, takes two steps on
drawn data, is evaluated and exported by `tests/configs`, and was not trained to its end.

| config | data | metric | ours | published | command | date |
| --- | --- | --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True)
class Figure:
    """One figure: its name, its value, what it is of, and since when or by whom it is known."""

    metric: str
    value: str
    data: str
    source: str


@dataclass(frozen=True)
class Status:
    """What is known of a config; None where it was not trained here, or nothing is published."""

    ours: Figure | None
    theirs: Figure | None


def read_status(text: str) -> Status:
    """What the first comment of a config's text says.

    Raises ValueError if there is not one status line, or it is not of the form above.
    """
    found = [line for line in _comment(text) if line.startswith("# Status:")]
    if len(found) != 1:
        raise ValueError(f"the first comment has {len(found)} lines that begin with '# Status:'; it must have one")
    said = found[0].removeprefix("# Status:").strip()
    if said == "checked only.":
        return Status(None, None)
    ours, both, theirs = said.removesuffix(").").partition(f"); {_PUBLISHED}")
    if not both and ours.startswith(_PUBLISHED):
        ours, theirs = "", ours.removeprefix(_PUBLISHED)
    elif not ours.startswith(_TRAINED):
        raise ValueError(f"'{found[0]}' is none of the forms in tools/results.py")
    return Status(
        _figure(*_dated(ours.removeprefix(_TRAINED))) if ours else None, _figure(*_sourced(theirs)) if theirs else None
    )


def _comment(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if not line.startswith("#"):
            return
        yield line


def _dated(text: str) -> tuple[str, str]:
    said, _, date = text.rpartition(", ")
    return said, date if _DATE.fullmatch(date) else ""


def _sourced(text: str) -> tuple[str, str]:
    said, _, who = text.partition(" by ")
    if text.endswith(f", {_NO_SOURCE}"):
        return text.removesuffix(f", {_NO_SOURCE}"), _NO_SOURCE
    return said, who


def _figure(text: str, source: str) -> Figure:
    """The figure in "METRIC FIGURE on DATA"; the FIGURE begins with the first word that begins with a digit."""
    words = text.split(" ")
    first = next((at for at, word in enumerate(words) if at > 0 and word[:1].isdigit()), len(words))
    value, _, data = " ".join(words[first:]).partition(" on ")
    if not (source and value and data):
        raise ValueError(f"'{text}' is not 'METRIC FIGURE on DATA' with a date or a source")
    return Figure(" ".join(words[:first]), value, data, source)


def page() -> str:
    """The page of all configs."""
    from suites.engine.config.tree.shipped import configs_folder, shipped_configs

    rows = []
    for name in shipped_configs():
        status = read_status((configs_folder() / f"{name}.yml").read_text(encoding="utf-8"))
        rows.append(f"| {' | '.join(_cells(name, status))} |\n")
    return _HEAD + "".join(rows)


def _cells(name: str, status: Status) -> tuple[str, ...]:
    shown = status.ours or status.theirs
    if shown is None:
        return f"`{name}`", "", "", "checked only", "", f"`paddock train {name}`", ""
    command = "paddock train {name}" + (" --seeds 3" if shown.data.endswith("mean of 3 seeds") else "")
    command = next((each for begin, each in _COMMANDS.items() if shown.data.startswith(begin)), command)
    theirs = f"{status.theirs.value} ({status.theirs.source})" if status.theirs else ""
    ours, date = (status.ours.value, status.ours.source) if status.ours else ("", "")
    return f"`{name}`", shown.data, shown.metric, ours, theirs, f"`{command.format(name=name)}`", date


def main(words: list[str] | None = None) -> int:
    """Write the page, or with `--check` say whether it is out of date; return the exit status."""
    parser = argparse.ArgumentParser(description="Write the table of the shipped configs' results.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    check = parser.parse_args(words).check
    path, text = ROOT / PAGE, page()
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    if check:
        print(f"{PAGE}: out of date; run `make docs`")
        return 1
    path.write_text(text, encoding="utf-8")
    print(f"{PAGE}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
