"""Teachers: trained runs or exported models whose answers a student learns. Letters: N texts, K classes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from framework import Tensor
from framework.errors import ConfigError
from framework.graph.files import is_export, program_files
from framework.io import sha256
from suites.engine.names import listing
from suites.engine.predict.inference import Model, open_model, open_run
from suites.engine.run.folder import RunFolder, best_weights
from suites.engine.slim.teachers import expect_running_teacher, expect_teacher, undisturbed
from suites.nlp.datasets import Labelled
from suites.nlp.processor import TextProcessor
from suites.nlp.sequences import Sequencer

_BATCH = 64  # texts a run of the teacher


class Teachers:
    """Classifiers that answer together: the mean of their probabilities.

    Args:
        paths: run folders, or folders of exported models.
        classes: the student's classes, in the order of the answers.

    Raises:
        CheckpointError: there is no such run or model.
        ConfigError: it is no classifier of texts, or of other classes.
    """

    def __init__(self, paths: Sequence[str], classes: Sequence[str]) -> None:
        self._models, self._orders = [], []
        for path in paths:
            expect_teacher(path)
            with undisturbed():
                model = open_model(Path(path))
            self._orders.append(class_order(path, model.processor, classes))
            self._models.append(model)
        self.digest = _digest(paths)

    @property
    def sequencers(self) -> list[Sequencer]:
        """What makes sequences of texts for each of them."""
        return [cast("TextProcessor", model.processor).sequencer for model in self._models]

    def probabilities(self, examples: Sequence[Labelled]) -> np.ndarray:
        """float32 [N, K]: what the teachers say of each example."""
        parts = [self._of_batch(examples[i : i + _BATCH]) for i in range(0, len(examples), _BATCH)]
        return np.concatenate(parts)

    def _of_batch(self, examples: Sequence[Labelled]) -> np.ndarray:
        total = sum(_scores(m, examples)[:, order] for m, order in zip(self._models, self._orders, strict=True))
        return np.asarray(total / len(self._models), np.float32)


class Online(Protocol):
    """A text task inside a training step: of a teacher, or of the student."""

    @property
    def model(self) -> Any:
        """The network."""

    def outputs(self, inputs: Mapping[str, Tensor], *, states: bool = False) -> Any:
        """What the network gives; with `states` also what its layers give."""


def open_online(path: str, classes: Sequence[str]) -> tuple[Online, TextProcessor, np.ndarray]:
    """A teacher to run inside a training step: its task and processor, and the places of `classes` in its answers.

    Raises:
        CheckpointError: there is no such run; an exported model is none.
        ConfigError: it is no classifier of texts, or of other classes.
    """
    expect_running_teacher(path, ", or set distil.online: false")
    with undisturbed():
        task = open_run(Path(path))
    processor = task.processor()
    order = class_order(path, processor, classes)
    assert isinstance(processor, TextProcessor)
    return cast("Online", task), processor, order


def class_order(path: str, processor: object, classes: Sequence[str]) -> np.ndarray:
    """The place of each of `classes` in a teacher's answers, int64 [K]; ConfigError where it has others."""
    if not isinstance(processor, TextProcessor) or processor.metadata()["problem"].get("type") != "Classification":
        raise ConfigError(f"distil.teachers: {path} is no classifier of texts; a student learns from one")
    theirs = processor.classes
    if sorted(theirs) != sorted(classes):
        raise ConfigError(
            f"distil.teachers: {path} tells {listing(theirs)} apart but the student's classes are {listing(classes)}; "
            "both need the same labels: train one on the other's data, or name them in data.classes"
        )
    return np.array([theirs.index(name) for name in classes], np.int64)


def _scores(model: Model, examples: Sequence[Labelled]) -> np.ndarray:
    batch = model.processor.prepare(list(examples))
    return model.predict({name: batch[name] for name in model.inputs})["scores"]


def _digest(paths: Sequence[str]) -> bytes:
    """SHA-256 of the teachers' weights and of what stands around them, 32 bytes."""
    total = hashlib.sha256()
    for path in map(Path, paths):
        run = RunFolder(path)
        files = program_files(path) if is_export(path) else [best_weights(run), run.processor]
        for file in files:
            total.update(bytes.fromhex(sha256(file)))
    return total.digest()
