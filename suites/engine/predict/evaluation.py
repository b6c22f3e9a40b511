"""Evaluation: the model over a whole data set, through the metric of its task."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import framework
from framework import from_numpy, no_grad, program
from framework.atomic import write_text
from framework.data import DataLoader
from framework.devices import placement
from framework.errors import ConfigError
from framework.random import own_stream
from suites.engine.contract.capabilities import count_batch, count_set, parts_of, write_picture
from suites.engine.contract.fitting import StepsOnHost, fitting_here
from suites.engine.contract.losses import Loss
from suites.engine.predict.items import Predict, predict_items
from suites.engine.reporting.tally import Tally, add_skipped

if TYPE_CHECKING:
    from suites.engine.contract.batch import Batch, Found
    from suites.engine.contract.metric import Metric
    from suites.engine.contract.task import Task

_log = logging.getLogger(__name__)
LossesOf = Callable[["Batch"], dict[str, tuple[float, float]]]  # of a batch: mean and weight of each term


class Interrupted(Exception):
    """Ctrl-C came in the middle of an evaluation."""


def predict_of(
    task: Task, *, eager: bool = False, conv_algorithm: str = "auto", step: Callable[..., Any] | None = None
) -> Predict:
    """Return a function from the arrays of `task.eval_inputs` to those of `eval_step`, run as a Program.

    `step` is computed in place of `eval_step`.
    """
    step = step or task.eval_step
    return predict_with(task, _as_tensors(step) if eager else program(step), conv_algorithm)


def predict_with(task: Task, run: Callable[..., Any], conv_algorithm: str = "auto") -> Predict:
    """The same with what computes `eval_step`."""
    where = placement()  # of this thread; a server's threads call the function

    def predict(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        task.model.eval()
        at = ("cpu",) if isinstance(task, StepsOnHost) and task.on_host(arrays) else where
        with no_grad(), framework.device(*at), framework.conv_algorithm(conv_algorithm):
            fitting = fitting_here(task)
            outputs = run(fitting.fill(arrays) if fitting else arrays)
            found = {name: tensor.numpy() for name, tensor in outputs.items()}
            return fitting.cut(found, arrays) if fitting else found

    return predict


def losses_of(task: Task, *, eager: bool = False, conv_algorithm: str = "auto") -> LossesOf:
    """Return a function from a batch to mean and weight of each loss term, the model in evaluation mode."""

    def compute(inputs: dict[str, Any]) -> dict[str, Any]:
        terms = {name: term for name, term in task.train_step(inputs).items() if isinstance(term, Loss)}
        means = {f"mean/{name}": term.mean for name, term in terms.items()}
        return means | {f"weight/{name}": term.weight for name, term in terms.items()}

    run = _as_tensors(compute) if eager else program(compute)

    def losses(batch: Batch) -> dict[str, tuple[float, float]]:
        if missing := [name for name in task.train_inputs if name not in batch]:
            raise ConfigError(
                f"evaluation: its batches hold no {', '.join(missing)}, which the loss takes; set "
                "runtime.evaluation.loss to false"
            )
        task.model.eval()
        with no_grad(), framework.conv_algorithm(conv_algorithm):
            arrays, fitting = {name: batch[name] for name in task.train_inputs}, fitting_here(task)
            found = {name: float(t) for name, t in run(fitting.fill(arrays) if fitting else arrays).items()}
        names = [name.removeprefix("mean/") for name in found if name.startswith("mean/")]
        return {name: (found[f"mean/{name}"], found[f"weight/{name}"]) for name in names}

    return losses


def _means(parts: list[dict[str, tuple[float, float]]]) -> dict[str, float]:
    """`loss` and, of several terms, `loss/TERM`: means over what the terms weigh."""
    terms = {}
    for name in parts[0] if parts else ():
        total = sum(part[name][1] for part in parts)
        terms[name] = sum(mean * weight for mean, weight in (part[name] for part in parts)) / (total or 1.0)
    if not terms:
        return {}
    return {"loss": sum(terms.values())} | ({f"loss/{n}": v for n, v in terms.items()} if len(terms) > 1 else {})


def _as_tensors(step: Callable[..., Any]) -> Callable[..., Any]:
    return lambda arrays: step({name: from_numpy(array) for name, array in arrays.items()})


def found_on(task: Task, predict: Predict, batch: Batch, note: Callable[[Batch], object]) -> Iterator[Found]:
    """Yield the outputs on each part that a batch of evaluation is predicted on by; `note` is called with each.

    Raises ConfigError where a part lacks what the model reads.
    """
    for part in parts_of(task, batch):
        if missing := [name for name in task.eval_inputs if name not in part]:
            held, lacks = ", ".join(part), ", ".join(missing)
            raise ConfigError(f"evaluation: its batches hold {held} but the model reads {lacks} too")
        note(part)
        yield predict({name: part[name] for name in task.eval_inputs}), part


def evaluate(
    task: Task,
    predict: Predict,
    loader: DataLoader,
    *,
    after_batch: Callable[[int], None] = lambda done: None,
    losses: LossesOf | None = None,
    look: Callable[[Metric], object] = lambda metric: None,
    tally: Tally | None = None,
) -> dict[str, float]:
    """Return the metric's figures over one pass of `loader`, and `skipped` where samples could not be used.

    Losses that draw, such as those of a sampled softmax, draw the same each time, and training draws on as without it.

    Args:
        task: gives the metric and names the inputs.
        predict: see `predict_of`.
        loader: the evaluation set.
        after_batch: called with the number of batches done; may raise `Interrupted`.
        losses: see `losses_of`; None for no figure `loss`.
        look: takes the metric at the end, to ask it for its report, its plots and its worst samples.
        tally: counts what the set holds.
    """
    metric = task.metric()
    terms: list[dict[str, tuple[float, float]]] = []
    loader.skipped.forget()
    if isinstance(loader, DataLoader):  # and no stream, which has no epochs
        loader.seek(0)  # what samples draw, such as words that are hidden, depends on the epoch
    if tally is not None:
        count_set(task, tally, loader.dataset, training=False)

    def note(part: Batch) -> None:
        if losses is not None:
            terms.append(losses(part))

    with own_stream():
        for done, batch in enumerate(loader, start=1):
            metric.update_joined(found_on(task, predict, batch, note))
            if tally is not None:
                count_batch(task, tally, batch, training=False)
            after_batch(done)
    if loader.skipped:
        left = len(loader.dataset) - len(loader.skipped)
        _log.warning("evaluation: %s; the figures are over the other %d", loader.skipped.report(), left)
        metric.leave_out(loader.skipped.indices)
        if tally is not None:
            add_skipped(tally, loader)
    figures = {name: float(value) for name, value in metric.result().items()} | _means(terms)
    look(metric)
    return figures | ({"skipped": float(len(loader.skipped))} if loader.skipped else {})


def named_figures(name: str, figures: dict[str, float]) -> dict[str, float]:
    """Return figures with the name of their evaluation set before them, where it has one: `test/AP`."""
    return {f"{name}/{key}" if name else key: value for key, value in figures.items()}


def item_predictor(task: Task, predict: Predict) -> Callable[[Any], Any]:
    """Return a function from an item to its result."""
    processor = task.processor()
    return lambda item: predict_items(processor, task.eval_inputs, predict, [item])[0]


def draw_examples(task: Task, predict: Predict, folder: Path, count: int) -> list[Path]:
    """Draw predictions on `count` samples of the evaluation set, one at a time; return the files' paths.

    Predictions that are told in text stand in one file, `examples.txt`.
    """
    processor, result_of = task.processor(), item_predictor(task, predict)
    paths, lines = [], []
    for name, item in task.examples(count) if count else []:
        drawing = processor.draw(item, result_of(item))
        if isinstance(drawing, str):
            lines.append(drawing)
        else:
            paths.append(write_picture(processor, folder / f"{Path(name).stem}.jpg", drawing))
    if lines:
        write_text(folder / "examples.txt", "\n".join(lines) + "\n")
        paths.append(folder / "examples.txt")
    return paths


def write_results(path: Path, results: dict[str, Any]) -> None:
    """Write predictions by input as JSON."""
    write_text(path, json.dumps(results, indent=1) + "\n")
