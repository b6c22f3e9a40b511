"""What is wrong with a set of labelled texts, for `paddock data check`: copies, other labels, rare classes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from framework.errors import NotSupportedError
from suites.engine.contract.inspection import Finding, Inspected, Inspector, class_findings, copies_within
from suites.engine.registry import register
from suites.nlp.datasets.base import Labelled, Tagged, TextDataset

_RARE = 10  # texts of a class below which its figures are chance


@register("inspector", "nlp")
class TextInspector(Inspector):
    """Looks at every example; texts are copies where they are equal but for space around them."""

    def inspect(self, dataset: TextDataset[Any]) -> Inspected:
        """What `dataset` holds, and what is wrong with it."""
        names = [dataset.name_of(at) for at in range(len(dataset))]
        digests, labels = [], []
        for example in dataset.examples:
            content, label = _content(example)
            digests.append(hashlib.sha256(repr(content).encode("utf-8", "surrogatepass")).hexdigest())
            labels.append(label)
        findings = [*_left_out(dataset), *copies_within(names, digests, labels)]
        counts: dict[str, int] = {}
        if dataset.example_type is Labelled and any(labels):
            counts = dict(sorted(Counter(labels).items()))
            findings += class_findings(counts, "texts", _RARE)
        width = max(map(len, counts), default=0)
        summary = [f"{len(dataset)} examples", *(f"  {name:<{width}} {count:>7}" for name, count in counts.items())]
        return Inspected(summary, findings, digests, names)

    def item(self, dataset: TextDataset[Any], at: int) -> str:
        """The text, of a pair both; NotSupportedError for examples of another kind."""
        example = dataset.examples[at]
        if not isinstance(example, Labelled):
            raise NotSupportedError("data check: near copies are found among labelled texts only")
        return example.text if example.pair is None else f"{example.text} {example.pair}"

    def picture(self, sample: Any, class_names: Sequence[str]) -> np.ndarray:
        """Texts are not drawn."""
        raise NotSupportedError("data: texts are not drawn")

    def augmented(self, config: Any, name: str, dataset: Any) -> Any:
        """Texts are not drawn."""
        raise NotSupportedError("data: texts are not drawn")

    def write_picture(self, path: Path, picture: np.ndarray) -> None:
        """Texts are not drawn."""
        raise NotSupportedError("data: texts are not drawn")


def _content(example: Any) -> tuple[object, str]:
    """What is equal for copies of an example, and its truth."""
    if isinstance(example, Labelled):
        return (example.text.strip(), example.pair, example.group), example.label
    if isinstance(example, Tagged):
        return example.words, " ".join(example.tags)
    return repr(example), ""


def _left_out(dataset: TextDataset[Any]) -> list[Finding]:
    left_out = dataset.left_out
    if not left_out.skipped:
        return []
    places = tuple(why for _, why in left_out.reasons)
    return [
        Finding("error", f"{left_out.skipped} rows could not be used and were left out", places, advice="mend them")
    ]
