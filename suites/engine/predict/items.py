"""The one way from items to results: batches, the network's outputs on them, what they say together.

`paddock infer`, `engine.load` and the server walk it, so views, windows and their bounds of memory act alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from suites.engine.contract.batch import POSITIONS, Batch, Found, in_place
from suites.engine.contract.capabilities import ManyBatches
from suites.engine.contract.processor import Processor, ServedProcessor

Predict: TypeAlias = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


def batches_of(processor: Processor, items: Sequence[Any]) -> Iterable[Batch]:
    """The batches that are predicted on for these items, one after the other."""
    return processor.batches(items) if isinstance(processor, ManyBatches) else [processor.prepare(items)]


def joined(processor: Processor, found: Iterable[Found]) -> list[Any]:
    """The results of the items, out of the outputs on all of their batches."""
    if isinstance(processor, ManyBatches):
        return processor.joined(found)
    return [result for outputs, batch in found for result in processor.results(outputs, batch)]


def predict_items(processor: Processor, inputs: tuple[str, ...], predict: Predict, items: list[Any]) -> list[Any]:
    """The results for a few items."""
    batches = batches_of(processor, items)
    return joined(processor, ((predict({name: batch[name] for name in inputs}), batch) for batch in batches))


def embed_items(
    processor: ServedProcessor, inputs: tuple[str, ...], predict: Predict, items: list[Any], pooling: str
) -> np.ndarray:
    """A vector for each of a few items, float32 [N, D]; `pooling` is one of the processor's."""
    found = []
    for batch in batches_of(processor, items):
        vectors = processor.embeddings(predict({name: batch[name] for name in inputs}), batch, pooling)
        found.append((vectors, batch))
    if all(POSITIONS in batch for _, batch in found):
        return np.stack(in_place(found))
    return np.concatenate([vectors for vectors, _ in found])
