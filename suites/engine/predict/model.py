"""Something that predicts: a network and what stands around it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from framework.errors import DataError
from framework.graph.memory import ITEM_SIZE
from framework.nn.layer import Layer
from suites.engine.contract.capabilities import require_input
from suites.engine.contract.capabilities.generating import CacheSettings, TextGenerator
from suites.engine.contract.feeding import Feed
from suites.engine.contract.prediction import Prediction
from suites.engine.contract.processor import Processor
from suites.engine.predict.items import Predict, predict_items
from suites.engine.predict.origin import Origin

T = TypeVar("T")


class Memory(NamedTuple):
    """Bytes of the host that a model takes.

    Attributes:
        weights: shared by all replicas; those of an export are mapped from its file.
        kept: from run to run: arenas, and what kernels prepared from weights. They grow with the largest batch.
    """

    weights: int
    kept: int


@dataclass(frozen=True)
class Model:
    """Something that predicts: a network and what stands around it.

    Attributes:
        processor: what stands around it.
        inputs: names of the arrays that `predict` takes.
        predict: the network.
        replica: makes another `predict` on the same weights, to run at the same time in another thread.
        types: element type and shape of inputs and outputs by name, where they are known: of an exported model.
        feed: what makes the Program's inputs of a batch's arrays, of an exported model that has one.
        memory: what it takes now, where that is known.
        generator: what makes a `TextGenerator` of it, of a run whose model writes token by token.
        origin: tells whose weights it has; it reads the files, so it is asked only where that is needed.
    """

    processor: Processor
    inputs: tuple[str, ...]
    predict: Predict
    replica: Callable[[], Predict]
    types: Mapping[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    feed: Feed | None = None
    generator: Callable[[CacheSettings], TextGenerator] | None = None
    memory: Callable[[], Memory] | None = None
    origin: Callable[[], Origin] | None = None

    def __call__(self, inputs: Any) -> list[Prediction]:
        """What the model says of each item.

        Args:
            inputs: an item as the processor takes it, such as an image uint8 RGB [H, W, 3], an image of Pillow, or a
                row as a dict; a path of a file or of a folder of them; a text, where the model is about text; or a
                list, a tuple or an iterator of these.

        Raises:
            DataError: a file that is missing or damaged, named; an object that is no item, with its place in a list.
        """
        given = inputs if isinstance(inputs, (list, tuple, Iterator)) else [inputs]
        items = itertools.chain.from_iterable(itertools.starmap(self._items, enumerate(given)))
        found: list[Prediction] = []
        for chunk in chunks(items, self.processor.batch_size):
            values = predict_items(self.processor, self.inputs, self.predict, chunk)
            found += [Prediction(item, value, self.processor) for item, value in zip(chunk, values, strict=True)]
        return found

    def _items(self, place: int, given: Any) -> Iterator[Any]:
        if isinstance(given, (str, Path)):
            require_input(self.processor, str(given))
            yield from (read() for _, read in self.processor.inputs(str(given)))
            return
        try:
            item = self.processor.item(given)
        except DataError as error:
            raise DataError(f"input {place}: {error}") from None
        yield item


def bytes_of(network: Layer) -> int:
    """Bytes of a network's weights."""
    held = [tensor for _, tensor in (*network.named_parameters(), *network.named_buffers())]
    return sum(tensor.size * ITEM_SIZE[tensor.dtype] for tensor in held)


def chunks(items: Iterator[T], size: int) -> Iterator[list[T]]:
    """So many of them at a time."""
    while chunk := list(itertools.islice(items, size)):
        yield chunk


def in_turns(predict: Predict) -> tuple[Predict, Callable[[], Predict]]:
    """A function and what makes replicas of it, which take turns.

    A traced function cannot be called by two threads at once, as either call may trace.
    """
    lock = threading.Lock()

    def alone(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        with lock:
            return predict(arrays)

    return alone, lambda: alone
