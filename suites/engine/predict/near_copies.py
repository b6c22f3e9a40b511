"""Near copies in data sets, found by a model's vectors: frames of one film, a picture saved again, cut or mirrored.

`paddock data check CONFIG --alike MODEL` tells them; exact copies it finds without a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from framework.errors import AttributeValueError, ConfigError, DataError
from suites.engine.contract.inspection import Finding, Inspected, Inspector
from suites.engine.neighbours.items import ItemIndex
from suites.engine.predict.gallery import Embedder, alike_pairs

_SEPARATOR = "\0"  # between a set's name and a sample's number: no name holds it


def near_copies(
    embedder: Embedder, inspector: Inspector, sets: Mapping[str, Any], seen: Mapping[str, Inspected], least: float
) -> list[Finding]:
    """A warning for each set, and for each two sets, whose samples are nearly the same: the nearest first.

    Exact copies are left out. All samples are read and each becomes a vector: 4 D bytes are kept of it. Of
    those that are like a sample, exact copies among them, the nearest 20 are looked at.

    Args:
        embedder: gives the vectors.
        inspector: says what of a sample it gets one of.
        sets: data sets by name.
        seen: what is known of these sets: names and digests of their samples.
        least: cosine from which on two samples are nearly the same.

    Raises:
        AttributeValueError: `least` is no cosine above -1.
        ConfigError: the model takes texts, and the samples are pictures, or the other way round.
        DataError: no sample has a vector, or more than a million pairs are alike.
        NotSupportedError: samples of this kind have no vectors.
    """
    if not -1 < least <= 1:
        raise AttributeValueError(f"data check: --least is {least}; it lies above -1 and is 1 at most")
    skipped: list[str] = []
    rows = dict(embedder.of_items(_items(embedder, inspector, sets), skipped))
    if not rows:
        raise DataError(f"data check: no sample has a vector; the first: {next(iter(skipped), 'there is none')}")
    found: dict[tuple[str, str], list[tuple[int, int, float]]] = {}
    for first, second, cosine in alike_pairs(ItemIndex.build(list(rows), np.stack(list(rows.values()))), least):
        (one, a), (two, b) = (_place(name) for name in (first, second))
        if _digest(seen[one], a) is None or _digest(seen[one], a) != _digest(seen[two], b):
            found.setdefault((one, two), []).append((a, b, cosine))
    return [_finding(one, two, pairs, seen, least) for (one, two), pairs in found.items()]


def _items(embedder: Embedder, inspector: Inspector, sets: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, dataset in sets.items():
        for at in range(len(dataset)):
            try:
                item = inspector.item(dataset, at)
            except (DataError, OSError):  # `inspect` has told of it
                continue
            if isinstance(item, str) != embedder.takes_texts:
                kinds = ("texts", "pictures") if embedder.takes_texts else ("pictures", "texts")
                raise ConfigError(f"data check: the model of --alike takes {kinds[0]}, and the data are {kinds[1]}")
            yield f"{name}{_SEPARATOR}{at}", item


def _place(name: str) -> tuple[str, int]:
    whole, at = name.split(_SEPARATOR)
    return whole, int(at)


def _digest(seen: Inspected, at: int) -> str | None:
    return (seen.digests[at] or None) if seen.digests else None


def _finding(
    one: str, two: str, pairs: list[tuple[int, int, float]], seen: Mapping[str, Inspected], least: float
) -> Finding:
    places = tuple(f"{cosine:.3f}  {seen[one].names[a]} ~ {seen[two].names[b]}" for a, b, cosine in pairs)
    if one == two:
        samples = tuple(dict.fromkeys(at for a, b, _ in pairs for at in (a, b)))
        text = f"{len(samples)} samples of {one} are nearly copies of others of it (cosine {least:g} or more)"
        return Finding("warning", text, places, samples, "keep them in one part of a split")
    count = len({b for _, b, _ in pairs})
    text = f"{count} samples of {two} are nearly copies of samples of {one} (cosine {least:g} or more)"
    return Finding("warning", text, places, advice="look at them; if they are, its figures are too good")
