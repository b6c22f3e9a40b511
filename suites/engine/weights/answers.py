"""What a network gives for a drawn input, compared with what its record says: the check that it is the right network.

Names and shapes of tensors are the same in networks that pad, pool or activate in other ways. A layer that has
`answers()` gives a few numbers by name for an input from `drawn`; a record keeps them.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from framework.autograd.tape import no_grad
from framework.errors import CheckpointError
from framework.nn import Layer
from framework.tensors import tensor
from suites.engine.weights.records import Record, find_record, zoo_folder

_SHOWN = 8  # numbers that are kept of an answer
_ROUNDING = 2.0**-23  # of float32, relative
_log = logging.getLogger(__name__)


def drawn(count: int, below: int) -> np.ndarray:
    """int64 [count], the same numbers everywhere, from 0 to `below` - 1 (Knuth's multiplicative hash)."""
    return (np.arange(1, count + 1, dtype=np.int64) * 2654435761 % (1 << 32) >> 8) % below


def given(model: Layer, loaded: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """The answers of a model's parts by name, float64 [8] or fewer each.

    Args:
        model: itself and its layers are asked for `answers()`.
        loaded: names of its tensors that count; parts that have others are not asked. All count by default.
    """
    found: dict[str, np.ndarray] = {}
    with _evaluating(model), no_grad():
        for path, part in model.named_layers():
            if hasattr(part, "answers") and _all_in(part, path, loaded):
                found |= {name: _few(values) for name, values in part.answers().items() if name not in found}
    return found


def check_answers(model: Layer, record: Record | None, loaded: Collection[str]) -> None:
    """Raise CheckpointError where a model gives other answers than the record of its weights.

    Args:
        model: with the record's weights.
        record: None where the weights are of no record.
        loaded: names of the model's tensors that are the record's.
    """
    if record is None or not record.answers:
        return
    found = given(model, loaded)
    common = [name for name in record.answers if name in found]
    if not common:
        _log.info("%s: this model has other parts, so its answers are not compared with the record's", record.name)
    bound = tolerance(model)
    for name in common:
        wanted = np.asarray(record.answers[name], np.float64)
        got = found[name]
        largest = float(np.abs(wanted).max(initial=0.0))
        off = float(np.abs(got - wanted).max(initial=0.0)) if got.shape == wanted.shape else math.inf
        if not off <= bound * largest:
            raise CheckpointError(
                f"{record.name}: this {type(model).__name__} is not the network of these weights: for a drawn input "
                f"its '{name}' is {_numbers(got)} and the record says {_numbers(wanted)}. It wants {record.model}"
            )


@contextmanager
def unchanged_if_refused(model: Layer, record: Record | None) -> Iterator[None]:
    """Gives a model the numbers back that it had, where what is done inside raises CheckpointError.

    Copies are made only for records with answers; other errors come before a model is changed.
    """
    before = {n: t.numpy().copy() for n, t in model.state_dict().items()} if record and record.answers else {}
    try:
        yield
    except CheckpointError:
        own = model.state_dict()
        for name, array in before.items():
            own[name].set(tensor(array, dtype=own[name].dtype))
        raise


def record_at(path: Path) -> Record | None:
    """The record whose file, or folder, in the zoo's folder a path is."""
    folder = path if path.is_dir() else path.parent
    if folder.resolve().parent != zoo_folder().resolve():
        return None
    return find_record(folder.name)


def tolerance(model: Layer) -> float:
    """The share of the largest number by which float32 may differ between machines, which add up in other orders.

    A sum of K products is off by about sqrt(K) roundings, and one layer's error goes through the next: L layers, of K
    products at most, give L * sqrt(K) roundings. Wrong networks are off by thousands of that.
    """
    weights = [t for t in model.state_dict().values() if len(t.shape) > 1]
    widest = max((math.prod(t.shape[1:]) for t in weights), default=1)
    return _ROUNDING * max(1, len(weights)) * math.sqrt(widest)


def _few(values: object) -> np.ndarray:
    return np.asarray(values, np.float64).reshape(-1)[:_SHOWN]


def _numbers(values: np.ndarray) -> str:
    return "[" + ", ".join(f"{value:.5g}" for value in values[:4]) + ", ...]"


def _all_in(part: Layer, path: str, loaded: Collection[str] | None) -> bool:
    names = part.state_dict()
    return loaded is None or all((f"{path}.{name}" if path else name) in loaded for name in names)


@contextmanager
def _evaluating(model: Layer) -> Iterator[None]:
    """In evaluation mode inside, and as each layer was afterwards."""
    before = [(part, part.mode_now()) for _, part in model.named_layers()]  # outer ones first
    model.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.train(training)
