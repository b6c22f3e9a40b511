"""Key paths such as ``data.train.transforms[resize].size``: their grammar, printing and lookup.

A step is a key, or ``[index]`` or ``[id]`` into a list. A key with a dot or bracket is quoted:
``lr_mult["a.b"]``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from framework.errors import ConfigError


@dataclass(frozen=True)
class Item:
    """A step into a list, by position and, where the item carries one, by its id."""

    index: int
    id: str | None = None


Step = str | Item
Path = tuple[Step, ...]

_PLAIN_KEY = re.compile(r"[^\s.\[\]\"'{}=]+")
_STEP = re.compile(
    r"""(?:^|\.)(?P<key>[^\s.\[\]"'${}=]+)   # name, or .name
      | \["(?P<quoted>[^"]*)"\]              # ["any.key"]
      | \[(?P<item>[^\s.\[\]"'${}=]+)\]      # [0] or [resize]""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Selector:
    """A step ``[text]`` as written, before it is known whether it selects by index or by id."""

    text: str


def parse_path(text: str) -> tuple[str | Selector, ...]:
    """Split a written path into keys and selectors.

    Raises:
        ConfigError: The text is not a path.
    """
    steps: list[str | Selector] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            break
        key = match["key"] if match["key"] is not None else match["quoted"]
        steps.append(key if key is not None else Selector(match["item"]))
        position = match.end()
    if not steps or position < len(text):
        raise ConfigError(f"'{text}' is not a key path; write it like data.train.transforms[resize].size")
    return tuple(steps)


def format_path(path: Path) -> str:
    """The path as a user writes it; items are named by id where they have one."""
    text = ""
    for step in path:
        if isinstance(step, Item):
            text += f"[{step.index if step.id is None else step.id}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text
