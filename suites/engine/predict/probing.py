"""Probes: how good the features of a frozen network are for a set of classes, without training it.

A linear probe is a logistic regression on the features; its C is chosen on a part of the training set. The classifier
of nearest neighbours is DINO's (Caron et al. 2021, arXiv:2104.14294, appendix F.1): cosine similarity s, votes of
exp(s / 0.07) of the k nearest. Letters: N samples, D features, K classes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from framework.errors import ConfigError, DataError, NotSupportedError
from suites.engine.config.building import build_runtime, limited
from suites.engine.contract.capabilities import GivesFeatures, class_names, parts_of
from suites.engine.contract.resources import load_deployed
from suites.engine.hosts.devices import placed
from suites.engine.predict.evaluation import predict_of
from suites.engine.run.folder import RunFolder, best_weights
from suites.engine.run.reopening import read_task
from suites.engine.weights import load_wanted
from suites.engine.weights.matching import loaded_tensors
from suites.engine.weights.starting import start_task

if TYPE_CHECKING:
    from suites.engine.config.settings import Runtime
    from suites.engine.contract.task import Task

_log = logging.getLogger(__name__)
NEIGHBOURS = (10, 20, 100, 200)
TEMPERATURE = 0.07
_STRENGTHS = tuple(10.0**power for power in range(-5, 5))  # C of the logistic regression
_HELD_BACK = 0.2  # share of the training set on which C is chosen
_ROUNDS = 1000  # of L-BFGS at most
_ROWS = 1024  # of similarities at a time


@dataclass(frozen=True)
class Features:
    """What a network sees of a set.

    Attributes:
        vectors: float32 [N, D].
        classes: int64 [N].
    """

    vectors: np.ndarray
    classes: np.ndarray


def probe(source: Path, overrides: Sequence[str] = (), *, device: str | None = None, seed: int = 0) -> dict[str, float]:
    """Figures of the probes on the evaluation set: `linear/accuracy`, `linear/C`, `knn20/accuracy` and so on.

    Args:
        source: a config, or the folder of a run, whose best weights are taken.
        overrides: `path=value` texts.
        device: what computes the features; None for the config's own.
        seed: of the part of the training set on which C is chosen.

    Raises:
        ConfigError, DataError, CheckpointError: what is wrong, in one message.
        NotSupportedError: the task is no classification, or its model gives no features.
    """
    run = RunFolder(source) if source.is_dir() else None
    config, task = read_task(source, overrides)
    runtime = build_runtime(config)
    if not isinstance(task, GivesFeatures):
        raise NotSupportedError(
            f"{type(task).__name__}: a probe is for classes of images, clips and texts; this task gives no features"
        )
    if run is not None:
        load_deployed(task, best_weights(run))
    else:
        _start(task, runtime)
    with placed(device, runtime, None):
        first = features_of(task.on_training_set(), runtime)
        second = features_of(task, runtime)
    _log.info("features: %d of %d numbers to learn from, %d to evaluate", *first.vectors.shape, len(second.classes))
    return linear(first, second, seed=seed) | neighbours(first, second)


def _start(task: Task, runtime: Runtime) -> None:
    for line in load_wanted(task.model, class_names(task)):
        _log.info("%s", line)
    if runtime.weights is not None:
        for line in start_task(task, runtime.weights):
            _log.info("%s", line)
    if not loaded_tensors(task.model):
        raise ConfigError("probe: no weights are loaded; name some with runtime.weights or `pretrained`, or give a run")


def features_of(task: Task, runtime: Runtime) -> Features:
    """The features of the task's evaluation set, the model frozen.

    Raises DataError for a set without a sample that can be used.
    """
    assert isinstance(task, GivesFeatures)
    how = {"eager": runtime.eager, "conv_algorithm": runtime.conv_algorithm}
    predict = predict_of(task, **how, step=lambda inputs: {"features": task.features(inputs)})  # type: ignore[arg-type]
    vectors, classes = [], []
    with limited(task.eval_loader(workers=runtime.workers), runtime.data, "nothing") as loader:
        for batch in loader:
            for part in parts_of(task, batch):
                vectors.append(predict({name: part[name] for name in task.eval_inputs})["features"])
                classes.append(task.truth(part))
    if not vectors:
        raise DataError("probe: a set has no sample that can be used")
    return Features(np.concatenate(vectors).astype(np.float32), np.concatenate(classes).astype(np.int64))


def linear(first: Features, second: Features, *, seed: int = 0) -> dict[str, float]:
    """Fit a logistic regression on `first`, and its accuracy on `second`.

    Features have mean 0 and deviation 1 over `first`. C is the best of powers of ten on a fifth of `first`; the
    regression is then fitted on all of it.

    Raises DataError for fewer than two classes.
    """
    from sklearn.model_selection import train_test_split

    counts = np.bincount(first.classes)
    if np.count_nonzero(counts) < 2:
        raise DataError("probe: the training set has one class only; a linear probe needs two")
    mean, deviation = first.vectors.mean(axis=0), first.vectors.std(axis=0)
    scaled = [(each.vectors - mean) / np.where(deviation > 0, deviation, 1) for each in (first, second)]
    even = counts[counts > 0].min() > 1 and round(len(first.classes) * _HELD_BACK) >= np.count_nonzero(counts)
    fit, held = train_test_split(
        np.arange(len(first.classes)),
        test_size=_HELD_BACK,
        random_state=seed,
        stratify=first.classes if even else None,
    )
    if len(np.unique(first.classes[fit])) < 2:
        raise DataError("probe: too few samples of a second class to choose C on a part of them")
    scores = [
        float(np.mean(guess == first.classes[held]))
        for guess in _fitted(scaled[0][fit], first.classes[fit], scaled[0][held], _STRENGTHS)
    ]
    best = _STRENGTHS[int(np.argmax(scores))]
    (guess,) = _fitted(scaled[0], first.classes, scaled[1], (best,))
    return {"linear/accuracy": float(np.mean(guess == second.classes)), "linear/C": best}


def _fitted(x: np.ndarray, y: np.ndarray, unseen: np.ndarray, strengths: Sequence[float]) -> Iterator[np.ndarray]:
    """The classes of `unseen` by a regression of each C, each begun where the last one ended."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=_ROUNDS, warm_start=True)
    for strength in strengths:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a large C that does not converge is not chosen
            yield model.set_params(C=strength).fit(x, y).predict(unseen)


def neighbours(first: Features, second: Features, counts: Sequence[int] = NEIGHBOURS) -> dict[str, float]:
    """The accuracy on `second` by votes of the k nearest of `first`, for each k that `first` is large enough for."""
    known, asked = (_unit(each.vectors) for each in (first, second))
    ks = [k for k in counts if k <= len(known)] or [len(known)]
    right = dict.fromkeys(ks, 0)
    columns = int(first.classes.max()) + 1
    for start in range(0, len(asked), _ROWS):
        similar = asked[start : start + _ROWS] @ known.T
        nearest = np.argsort(-similar, axis=1, kind="stable")[:, : ks[-1]]
        weights = np.exp(np.take_along_axis(similar, nearest, axis=1).astype(np.float64) / TEMPERATURE)
        rows = np.arange(len(similar))[:, None]
        for k in ks:
            votes = np.zeros((len(similar), columns))
            np.add.at(votes, (rows, first.classes[nearest[:, :k]]), weights[:, :k])
            right[k] += int(np.sum(votes.argmax(axis=1) == second.classes[start : start + _ROWS]))
    return {f"knn{k}/accuracy": count / len(asked) for k, count in right.items()}


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors at length 1; a zero vector stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: np.ndarray = vectors / np.where(lengths > 0, lengths, 1)
    return found
