"""What a trained model says of texts, for another to learn. Letters: N texts or pairs, D numbers of a vector."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from framework.errors import ConfigError
from suites.engine.predict.inference import Model, open_model
from suites.engine.predict.items import embed_items
from suites.engine.slim.teachers import expect_teacher, undisturbed
from suites.nlp.datasets import Labelled
from suites.nlp.matching.groups import Lesson
from suites.nlp.processor import TextProcessor

_KEY = "problem.loss.teacher"


def answers(lesson: Lesson, width: int | None) -> np.ndarray:
    """What the teacher of a lesson says: float32 [N, D] or [N].

    Args:
        lesson: what is asked.
        width: D of the model that learns; None where it is not known.

    Raises CheckpointError where there is no model, ConfigError for one that gives other things than are wanted, or
    vectors of another width.
    """
    model, processor = _opened(lesson.teacher)
    of_batch = _vectors if lesson.kind == "vectors" else _scores
    size = processor.batch_size
    order = sorted(range(len(lesson.items)), key=lambda i: len(lesson.items[i].text))  # batches of like lengths
    parts = [order[i : i + size] for i in range(0, len(order), size)]
    found = np.concatenate([of_batch(lesson.teacher, model, processor, [lesson.items[i] for i in p]) for p in parts])
    if lesson.kind == "vectors" and width not in (None, found.shape[1]):
        raise ConfigError(
            f"{_KEY}: {lesson.teacher} gives vectors of {found.shape[1]} numbers but the model of {width}; take a "
            "teacher of the same width, or learn a reranker's scores by MarginError"
        )
    return np.asarray(found[np.argsort(order, kind="stable")], np.float32)


def _vectors(path: str, model: Model, processor: TextProcessor, texts: Sequence[Labelled]) -> np.ndarray:
    """[n, D]: the vectors of a run of SentenceVectors or of an embedder's export."""
    if not processor.poolings or isinstance(processor.example(), list):
        raise ConfigError(
            f"{_KEY}: {path} gives no vectors of single texts; a run of SentenceVectors does, and what "
            "`paddock embedder --alone` writes"
        )
    return embed_items(processor, model.inputs, model.predict, list(texts), processor.poolings[0])


def _scores(path: str, model: Model, processor: TextProcessor, pairs: Sequence[Labelled]) -> np.ndarray:
    """[n]: the scores of a run or an exported model of Reranking."""
    if processor.metadata()["problem"].get("type") != "Reranking":
        raise ConfigError(f"{_KEY}: {path} gives no scores of pairs; a run of Reranking does")
    batch = processor.prepare(list(pairs))
    return model.predict({name: batch[name] for name in model.inputs})["scores"]


def _opened(path: str) -> tuple[Model, TextProcessor]:
    expect_teacher(path, _KEY, "FOLDER")
    with undisturbed():
        model = open_model(Path(path))
    processor = model.processor
    if not isinstance(processor, TextProcessor):
        raise ConfigError(f"{_KEY}: {path} is no model of texts")
    return model, processor
