"""Evaluation: the model over a whole data set, through the metric of its task."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

import framework
from framework import from_numpy, no_grad, program
from framework.atomic import atomic_file, write_text
from framework.data import DataLoader

if TYPE_CHECKING:
    from suites.engine.task import Batch, Processor, Task

_log = logging.getLogger(__name__)
Predict = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


class Interrupted(Exception):
    """Ctrl-C came in the middle of an evaluation."""


def predictor(task: Task, *, eager: bool = False, conv_algorithm: str = "auto") -> Predict:
    """Return a function from the arrays of `task.eval_inputs` to those of `eval_step`, run as a Program."""

    run = _as_tensors(task.eval_step) if eager else program(task.eval_step)

    def predict(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        task.model.eval()
        with no_grad(), framework.conv_algorithm(conv_algorithm):
            return {name: tensor.numpy() for name, tensor in run(arrays).items()}

    return predict


def _as_tensors(step: Callable[..., Any]) -> Callable[..., Any]:
    return lambda arrays: step({name: from_numpy(array) for name, array in arrays.items()})


def evaluate(
    task: Task, predict: Predict, loader: DataLoader, *, after_batch: Callable[[int], None] = lambda done: None
) -> dict[str, float]:
    """Return the metric's figures over one pass of `loader`, and `skipped` where samples could not be used.

    Args:
        task: gives the metric and names the inputs.
        predict: see `predictor`.
        loader: the evaluation set.
        after_batch: called with the number of batches done; may raise `Interrupted`.
    """
    metric = task.metric()
    loader.skipped.forget()
    for done, batch in enumerate(loader, start=1):
        metric.update(predict({name: batch[name] for name in task.eval_inputs}), batch)
        after_batch(done)
    if loader.skipped:
        _log.warning("evaluation: %s", loader.skipped.report())
        metric.leave_out(loader.skipped.indices)
    figures = {name: float(value) for name, value in metric.result().items()}
    return figures | ({"skipped": float(len(loader.skipped))} if loader.skipped else {})


def predict_items(processor: Processor, inputs: tuple[str, ...], predict: Predict, items: list[Any]) -> list[Any]:
    """Return the results for a few items, as one batch."""
    batch: Batch = processor.prepare(items)
    return processor.results(predict({name: batch[name] for name in inputs}), batch)


def draw_examples(task: Task, predict: Predict, folder: Path, count: int) -> list[Path]:
    """Draw predictions on `count` samples of the evaluation set, one at a time; return the files' paths.

    Predictions that are told in text stand in one file, `examples.txt`.
    """
    processor = task.processor()
    paths, lines = [], []
    for name, item in task.examples(count) if count else []:
        (result,) = predict_items(processor, task.eval_inputs, predict, [item])
        drawing = processor.draw(item, result)
        if isinstance(drawing, str):
            lines.append(drawing)
        else:
            paths.append(write_picture(folder / f"{Path(name).stem}.jpg", drawing))
    if lines:
        write_text(folder / "examples.txt", "\n".join(lines) + "\n")
        paths.append(folder / "examples.txt")
    return paths


def write_picture(path: Path, picture: np.ndarray) -> Path:
    """Write an RGB picture (uint8 [H, W, 3]) in the format of the path's ending."""
    data = cv2.imencode(path.suffix, cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))[1]
    with atomic_file(path) as part:
        part.write_bytes(data.tobytes())
    return path


def write_results(path: Path, results: dict[str, Any]) -> None:
    """Write predictions by input as JSON."""
    write_text(path, json.dumps(results, indent=1) + "\n")
