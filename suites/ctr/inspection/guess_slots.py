"""A first declaration of a slot log, guessed from a sample of its lines."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from suites.engine.data.skipping import OtherKindError

_PAIR = re.compile(r"^[^:,;|]+:[^:,;|]+$")  # a line of a CSV with times of day has no pairs
_BARE = re.compile(r"^-?[0-9.]+$")
_MOST = 100  # numbers of a slot that are declared one by one
_HEADS = {0: (), 1: ("click",), 2: ("show", "click")}


def is_slot_log(lines: Sequence[str]) -> bool:
    """Whether lines are a few numbers and then pairs with a colon between them, cut at spaces."""
    found = [line.split() for line in lines[:200]]
    heads = [len(_bare(row)) for row in found]
    fits = [h <= 2 and all(map(_PAIR.match, row[h:])) for h, row in zip(heads, found, strict=True)]
    pairs = sum(len(row) - h for h, row in zip(heads, found, strict=True))
    return pairs >= len(found) / 2 and sum(fits) >= 0.95 * len(found)


def _bare(tokens: Sequence[str]) -> list[str]:
    """The values before the first pair."""
    count = next((i for i, token in enumerate(tokens) if not _BARE.match(token)), len(tokens))
    return list(tokens[:count])


def _label_of(path: Path, most: Counter[str], values: dict[str, set[str]]) -> str:
    """The slot that says whether there was a click."""
    found = [slot for slot in most if most[slot] == 1 and values[slot] == {"0", "1"}]
    named = [slot for slot in found if slot.lower() in ("label", "click")]
    if not found:
        raise OtherKindError(f"{path}: no slot is 0 or 1 once a row, so none can be a click; write the schema by hand")
    return (named or found)[0]


def guess_slots(path: Path, lines: Sequence[str]) -> str:
    """The YAML text of a schema.

    Raises:
        DataError: the lines begin with different numbers of values.
    """
    rows = [line.split() for line in lines]
    heads = Counter(len(_bare(row)) for row in rows)
    count, often = heads.most_common(1)[0]
    if often < 0.9 * len(rows):
        counts = ", ".join(map(str, sorted(heads)))
        raise OtherKindError(f"{path}: its lines begin with {counts} values; write the schema by hand")
    rows = [row for row in rows if len(_bare(row)) == count]
    sides: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for row in rows:
        for token in row[count:]:
            for side, text in zip(sides, token.split(":", 1), strict=False):
                side[text] += 1
    first = len(sides[0]) <= len(sides[1])  # there are fewer slots than signs
    most: Counter[str] = Counter()
    values: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        own: Counter[str] = Counter()
        for token in row[count:]:
            slot, value = token.split(":", 1)[:: 1 if first else -1]
            own[slot] += 1
            values[slot].add(value)
        for slot, times in own.items():
            most[slot] = max(most[slot], times)
    said = sides[0 if first else 1]
    order = "slot:sign" if first else "sign:slot"
    head = _HEADS[count]
    found = [
        f"# Guessed by `paddock data schema` from {len(rows)} rows of {path.name}. Look at each line, then train with",
        "# `paddock train ctr/deepfm_csv -o data.root=FILE -o data.schema=THIS`.",
        "format:",
        "  kind: slot",
        f"  head: [{', '.join(head)}]  # the values before the pairs",
        f"  order: {order}  # there are {len(sides[0])} different texts before the colon, {len(sides[1])} behind it",
        "features:",
    ]
    label = None if head else _label_of(path, most, values)
    for slot in sorted(most, key=lambda name: (len(name), name)):
        why = f"in {said[slot]} pairs, at most {most[slot]} in a row"
        if slot == label:
            continue
        if all(map(str.isdigit, values[slot])):
            found.append(f"  '{slot}': {{type: {'Sparse' if most[slot] == 1 else 'MultiValued'}}}  # {why}")
            continue
        found.append(f"  # '{slot}': {why}, not all of them whole numbers")
        found += [
            f"  '{slot}_{k}': {{type: Dense, column: '{slot}', place: {k}}}" for k in range(min(most[slot], _MOST))
        ]
    found += ["labels:", f"  click: {f'{{column: {label!r}}}' if label else '{}'}"]
    if "show" in head:
        found.append("weight: show")
    return "\n".join(found) + "\n"
