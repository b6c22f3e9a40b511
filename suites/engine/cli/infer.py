"""Show predictions of a run or an export: `paddock infer runs/demo photo.jpg folder/ 'more/*.png' --output out`.

Over the time of a video: `paddock infer runs/actions long.mp4 --window 2s --output out --video labelled.mp4`.
Of each person that a detector finds: `paddock infer runs/pose photo.jpg --boxes yolov3_coco --of person --output out`.
Of camera 0, until Ctrl-C: `paddock infer runs/detector 0 --output out --video seen.mp4`.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suites.engine.predict.inference import Model

_NOT_SIMILAR = (
    "output", "weights", "others", "min_score", "batch_size", "window", "video", "seconds", "max_pixels", "format",
    "products", "overrides", "profile",
)  # fmt: skip


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Write pictures and `predictions.json`, or print lines about texts; return the exit status.

    `words` are the command line.
    """
    from suites.engine.command_line import (
        Parser,
        add_boxes_options,
        add_import_option,
        add_others_option,
        add_override_option,
        given_options,
        run,
    )
    from suites.engine.hosts.devices import add_device_option, add_products_option
    from suites.engine.train.profiling import StepProfile, add_profile_option

    parser = Parser(prog=prog, description="Show a model's predictions; damaged inputs are named and skipped.")
    parser.add_argument(
        "model",
        type=Path,
        help="a run, an exported model, an ONNX or .tflite file, a checkpoint's folder as transformers saves it, or a "
        "name of `zoo list`",
    )
    parser.add_argument("--fetch", action="store_true", help="fetch published weights of that name that are not here")
    parser.add_argument(
        "inputs",
        nargs="+",
        help="files, folders of files, or patterns such as 'photos/*.jpg'; of a model of text also texts, or files "
        "with one a line; of a model of pictures also 0, the first camera",
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="folder for pictures and predictions.json, by default predictions; what is told as text needs none",
    )
    parser.add_argument("--weights", type=Path, help="a safetensors file; by default a run's best weights")
    add_others_option(parser)
    parser.add_argument("--min-score", type=float, metavar="S", help="leave out results below it, 0 to 1; of detectors")
    add_boxes_options(parser)
    parser.add_argument(
        "--batch-size", type=int, metavar="N", help="inputs that are taken together; those of one shape share a batch"
    )
    parser.add_argument(
        "--window", metavar="TIME", type=_seconds, help="label a video over time, in parts of e.g. 2s, 500ms or 1m"
    )
    parser.add_argument(
        "--video", type=Path, metavar="FILE", help="write the video with what is predicted on it, .mp4, .mov or .mkv"
    )
    parser.add_argument("--seconds", metavar="TIME", type=_seconds, help="stop a camera after e.g. 30s (at Ctrl-C)")
    parser.add_argument("--max-pixels", type=int, metavar="N", help="of an image; more than 67 million need it")
    parser.add_argument(
        "--format", action="append", default=[], metavar="NAME", help="of reading: hocr or pdf too, for each picture"
    )
    parser.add_argument(
        "--similar", type=Path, metavar="GALLERY", help="print what in a gallery (`paddock index build`) is most alike"
    )
    parser.add_argument("--text", action="store_true", help="each input is a text, though it looks like a file's name")
    add_device_option(parser, "a run's own, the cpu for an export")
    add_products_option(parser)
    add_override_option(parser)
    add_import_option(parser)
    add_profile_option(parser, "inputs")
    a = parser.parse_args(words)
    if a.batch_size is not None and a.batch_size < 1:
        parser.error("--batch-size takes a number above 0")
    asked = a.window is not None or a.video is not None
    if asked and (a.batch_size is not None or a.profile):
        parser.error("--window and --video take one part at a time: leave out --batch-size and --profile")
    if asked and a.boxes is not None:
        parser.error("--boxes is of pictures: leave out --window and --video")
    if asked and a.format:
        parser.error("--format is of pictures: leave out --window and --video")

    def start() -> int:
        from framework.errors import ConfigError
        from framework.limits import allow
        from suites.engine.cli.index import show_alike
        from suites.engine.contract.capabilities import OverTime, TakesLive, with_texts
        from suites.engine.predict.films import infer_films
        from suites.engine.predict.gallery import Embedder
        from suites.engine.predict.inference import infer_files, open_model
        from suites.engine.predict.objects import on_objects, open_finder

        if a.similar is not None:
            if idle := given_options(parser, a, _NOT_SIMILAR):
                raise ConfigError(f"infer: --similar prints names alone; leave out {', '.join(idle)}")
            finder = open_finder(a.boxes, a.only, device=a.device)
            return show_alike(Embedder(a.model, None, a.device, texts=a.text, finder=finder), a.similar, a.inputs)
        profile = StepProfile(a.output or Path()) if a.profile else None
        model = open_model(a.model, a.weights, a.overrides, device=a.device, products=a.products, others=a.others)
        finder = open_finder(a.boxes, a.only, device=a.device)
        if finder is not None:
            found = finder.model if a.min_score is None else _surer(finder.model, a.min_score)
            model = on_objects(model, replace(finder, model=found))
        elif a.min_score is not None:
            model = _surer(model, a.min_score)
        if a.text:
            model = replace(model, processor=with_texts(model.processor))
        live = isinstance(model.processor, TakesLive) and any(map(model.processor.is_live, a.inputs))
        with allow(**({} if a.max_pixels is None else {"pixels": a.max_pixels})):
            if asked or live:
                report = infer_films(model, a.inputs, a.output, OverTime(a.window, a.video, a.seconds))
            else:
                report = infer_files(
                    model, a.inputs, a.output, batch_size=a.batch_size, profile=profile, formats=a.format
                )
        for line in report.skipped:
            print(f"skipped: {line}", file=sys.stderr)
        for line in report.lines:
            print(line)
        if report.output is not None:
            said = f"{len(report.pictures)} pictures and " if report.pictures else ""
            print(f"{report.output}: {said}predictions.json; {len(report.skipped)} inputs skipped")
        elif report.answered and not report.lines:
            print("nothing was found", file=sys.stderr)
        return 0 if report.pictures or report.lines or report.answered else 2

    return run(start, a.imports)


def _surer(model: Model, score: float) -> Model:
    """The same model that leaves out results of a lower score."""
    from suites.engine.contract.processor import with_min_score

    return replace(model, processor=with_min_score(model.processor, score))


def _seconds(text: str) -> float:
    """A time such as 2s, 500ms, 1.5m or 3, which are seconds."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|)", text)
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"'{text}' is no time above 0, such as 2s, 500ms or 1m")
    return float(found[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0, "": 1.0}[found[2]]
