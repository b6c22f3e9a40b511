"""Predictions over the time of videos and of live inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from framework.confined import confine
from framework.errors import ConfigError, DataError
from suites.engine.contract.capabilities import DrawsTime, OverTime, film
from suites.engine.predict.evaluation import write_results
from suites.engine.predict.inference import InferenceReport, Model, confined_default, write_drawing
from suites.engine.predict.inputs import matched
from suites.engine.predict.items import predict_items


def infer_films(
    model: Model, inputs: Sequence[Path | str], output: Path | None, how: OverTime | None = None
) -> InferenceReport:
    """Predict over the time of videos and live inputs; write `predictions.json`, and perhaps a video.

    Args:
        model: what predicts.
        inputs: video files and patterns, or what the processor says `is_live`, such as a camera's number.
        output: the folder of predictions.json. None writes none beside a video, else `DEFAULT_OUTPUT`.
        how: what is wanted; each frame by itself by default.

    A video that cannot be read is skipped and reported. Raises ConfigError for a video of several inputs.
    """
    how = how or OverTime()
    names = [name for word in inputs for name in matched(str(word))]
    if how.window is not None and not how.window > 0:
        raise ConfigError(f"infer: --window is {how.window:g} s; it must be above 0")
    if how.video is not None and len(names) > 1:
        raise ConfigError(f"infer: --video writes one file, but there are {len(names)} inputs; name one of them")
    if output is not None:
        confine(output)
    elif how.video is None:
        output = confined_default()

    def predict(items: list[Any]) -> list[Any]:
        return predict_items(model.processor, model.inputs, model.predict, items)

    report = InferenceReport([], [], [])
    results: dict[str, Any] = {}
    for name in names:
        try:
            results[name] = film(model.processor, Path(name), predict, how)
        except DataError as error:
            report.skipped.append(str(error))
    for name, found in results.items() if output is not None else ():
        drawing = model.processor.drawn_over_time(found) if isinstance(model.processor, DrawsTime) else None
        if output is not None and drawing is not None:
            write_drawing(
                model.processor, output / Path(name).stem, drawing, model.processor.files(found), report.pictures
            )
    if how.video is not None and results:
        report.pictures.append(how.video)
    report.lines.extend(f"{name}: done" for name in results)
    if output is not None:
        write_results(output / "predictions.json", results)
    return replace(report, output=output)
