"""Decoding of a Transformer in Python, without a config: ids of sources to ids of results."""

from __future__ import annotations

import itertools

import numpy as np

import framework
from framework.errors import DataError
from suites.nlp.models.transformer import Transformer
from suites.nlp.writing import Hypothesis, Limits, Prompt, Search, Writer


def decode(
    model: Transformer, source: np.ndarray, offsets: np.ndarray, search: Search | None = None
) -> list[list[Hypothesis]]:
    """The best results of each source, best first.

    Args:
        model: is put into evaluation mode while it decodes.
        source: int64 [S], the words of all sources.
        offsets: int64 [B + 1], where each begins and ends; none may be empty.
        search: how; greedily if left out.

    Raises:
        DataError: a source is empty, or longer than the model's places.
    """
    offsets = np.asarray(offsets)
    _check(model, offsets)
    prompts = [Prompt(source=np.asarray(source[a:b])) for a, b in itertools.pairwise(offsets)]
    limits = Limits(model.start, model.stop, model.past_width, model.memory_width, length=model.max_length)
    how = search or Search()
    writer = Writer(prompts, limits, how)
    training = model.mode_now()
    model.eval()
    try:
        with framework.no_grad():
            while (arrays := writer.batch()) is not None:
                given = {name: framework.from_numpy(array) for name, array in arrays.items()}
                found = model.step(**given, attention=how.coverage_penalty > 0)
                writer.take({name: tensor.numpy() for name, tensor in found.items()})
    finally:
        model.train(training)
    return writer.results()


def _check(model: Transformer, offsets: np.ndarray) -> None:
    lengths = np.diff(offsets)
    if len(lengths) and not (lengths.min() >= 1 and lengths.max() <= model.max_length):
        b = int(np.argmax((lengths < 1) | (lengths > model.max_length)))
        raise DataError(f"decode: source {b} has {lengths[b]} words; it must have 1 ... {model.max_length}")
