"""Inference: a trained run or an exported model, opened the same way, and export itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from framework import program
from framework.atomic import atomic_file
from framework.confined import confine
from framework.errors import CheckpointError, ConfigError, DataError, NotSupportedError
from framework.graph.explanation import explain
from framework.graph.files import is_export, save_program
from framework.graph.passes import INFERENCE_PASSES
from framework.graph.reports import PassReport
from framework.onnx import EXPORT_PASSES, Session, export
from framework.onnx import open_model as open_onnx
from framework.outside import DOWNLOAD_IT, is_address
from framework.predictor import Predictor
from framework.quantization import Speed
from framework.sealing import Seal, expect_sealed, keys
from suites.engine.config.building import build_runtime, limited, read_config
from suites.engine.contract.capabilities import (
    Generates,
    Publishes,
    TellsLines,
    feed_of,
    join,
    require_input,
    write_picture,
    writer_of,
)
from suites.engine.contract.processor import Processor, ServedProcessor
from suites.engine.contract.resources import load_deployed
from suites.engine.contract.task import Task
from suites.engine.hosts.devices import placed
from suites.engine.names import did_you_mean
from suites.engine.predict.deploying import deployed_program, flat_program, in_8_bits
from suites.engine.predict.evaluation import evaluate, predict_of, predict_with, write_results
from suites.engine.predict.exported import open_export, open_onnx_file, open_tflite_file
from suites.engine.predict.inputs import matched, new_name, read_inputs
from suites.engine.predict.items import predict_items
from suites.engine.predict.model import Memory, bytes_of, chunks, in_turns
from suites.engine.predict.model import Model as Model
from suites.engine.predict.origin import Origin, origin_of_run
from suites.engine.predict.quantizing import Quantization, quantize_for, rounding_said, speed_of
from suites.engine.run.folder import RunFolder, best_weights, expect_run
from suites.engine.run.reopening import reopen
from suites.engine.train.profiling import StepProfile
from suites.engine.weights.eight_bits import eight_bits_of
from suites.engine.weights.lora.layers import merge_lora
from suites.engine.weights.records import record_names
from suites.engine.weights.runs import run_at

_FILES = {".onnx": open_onnx_file, ".tflite": open_tflite_file}
ONNX = "model.onnx"  # what `export_run` names it
DEFAULT_OUTPUT = Path("predictions")  # where pictures go that nobody said a place for


@dataclass(frozen=True)
class ExportReport:
    """What was exported and how far it is from the model it came from.

    `quantized`: what is in 8 bits; `rounding`: lines on how layers were equalised and weights rounded; `speed`: how
    fast 8 bits are here, where it was measured, before layers stayed in float32 for it.
    """

    inputs: list[str]
    outputs: list[str]
    operations: int
    largest_difference: float
    fixed_shapes: list[str]
    quantized: PassReport
    rounding: list[str]
    speed: Speed | None = None


@dataclass(frozen=True)
class InferenceReport:
    """What became of inputs.

    Attributes:
        pictures: that were written.
        lines: to show where predictions are told in text; those of several inputs stand below their names.
        skipped: why inputs were left out.
        answered: inputs that were predicted on.
        output: the folder that was written; None where nothing was.
    """

    pictures: list[Path]
    lines: list[str]
    skipped: list[str]
    answered: int = 0
    output: Path | None = None


def open_model(
    path: Path,
    weights: Path | None = None,
    overrides: Sequence[str] = (),
    *,
    device: str | None = None,
    products: str | None = None,
    others: Sequence[Path] = (),
) -> Model:
    """Open a run folder (its best weights, or `weights`), a folder that `export_run` wrote, an ONNX or TensorFlow Lite
    file, or published weights. A file that `export_run` did not write takes and gives bare tensors.

    With `overrides` of a run's config, what stands around the network is that of the config, for which the run's
    evaluation set must be there. `device` is by default that of a run where it is usable, and the CPU for an export;
    `products` are by default those of the run, and float32 for an export. `others` are runs, or files of weights of
    this run, that answer together with it, where its models can.

    Raises CheckpointError for a folder that is neither, ConfigError or DataError for a damaged one, ConfigError for
    plug-ins that are not imported yet.
    """
    path = run_at(path)
    if not is_export(path) and not (path / "config.yml").is_file() and (path / ONNX).is_file():
        path = path / ONNX
    open_file = _FILES.get(path.suffix) if path.is_file() else None
    if path.exists() and not is_export(path):  # that of an export is looked for where its program is read
        expect_sealed(path)
    if open_file is not None or is_export(path):
        if others:
            raise ConfigError(f"{path}: an exported model answers alone; join runs (--with) and export them together")
        if overrides:
            raise ConfigError(f"{path}: an exported model is fixed and takes no -o; override the run and export again")
        return (open_file or open_export)(path, device or "cpu", products or "float32")
    if (path / "config.yml").is_file():
        task = open_run(path, weights, overrides, others=others)
        processor = task.processor() if overrides or others else RunFolder(path).read_processor(task.processor_class)
        runtime = build_runtime(read_config(path))
        step = program(task.eval_step)
        with placed(device, runtime, products):
            predict = predict_with(task, step, runtime.conv_algorithm)
        made = task.generator(processor) if isinstance(task, Generates) else None
        size = bytes_of(task.model)

        def memory() -> Memory:
            return Memory(size, step.kept_bytes())

        def origin() -> Origin:
            return origin_of_run(read_config(path), weights or best_weights(RunFolder(path)))

        alone = not overrides and not others
        turns = in_turns(predict)
        return Model(
            processor, task.eval_inputs, *turns, generator=made, memory=memory, origin=origin if alone else None
        )
    if is_address(path):
        raise CheckpointError(f"{path}: {DOWNLOAD_IT}")
    if not path.exists():
        hint = did_you_mean(str(path), record_names())
        raise CheckpointError(
            f"{path}: there is no such folder, and no published weights have that name{hint or ';'} "
            "`paddock zoo list` shows those that are"
        )
    raise CheckpointError(f"{path}: neither a run (config.yml) nor an exported model (program.json) is in there")


def load(
    path: Path | str,
    weights: Path | str | None = None,
    *,
    device: str | None = None,
    products: str | None = None,
    others: Sequence[Path | str] = (),
) -> Model:
    """Open a run, an exported model or published weights, to be called with images, texts or files.

    See `open_model` and `Model`.

    >>> load("runs/mine")("photos/")[0].draw()  # doctest: +SKIP
    """
    where = None if weights is None else Path(weights)
    return open_model(Path(path), where, device=device, products=products, others=[Path(other) for other in others])


def open_run(
    path: Path,
    weights: Path | None = None,
    overrides: Sequence[str] = (),
    *,
    merged: bool = True,
    others: Sequence[Path] = (),
) -> Task:
    """Return the task of a run, with its best weights, else its last, else `weights`.

    `merged`: adapters of low rank are a part of the weights that they stand beside. `others`: see `open_model`.

    Raises CheckpointError where no run is.
    """
    expect_run(path)
    _, task = reopen(path, overrides)
    load_deployed(task, weights or best_weights(RunFolder(path)))
    if merged:
        merge_lora(task.model)
    join_others(task, path, others)
    task.model.eval()
    return task


def join_others(task: Task, path: Path, others: Sequence[Path]) -> None:
    """Let the task of the run at `path` answer together with other runs, or files of weights of the same run."""
    if others:
        join(task, [open_run(path, other) if other.is_file() else open_run(other) for other in others])


def export_run(
    path: Path,
    output: Path,
    weights: Path | None = None,
    *,
    onnx: bool = False,
    quantization: Quantization | None = None,
    seal: Seal | None = None,
    others: Sequence[Path] = (),
    speed: bool = False,
) -> ExportReport:
    """Write a run's network as a Program with its weights and preprocessing; compare it with the original.

    Args:
        path: the run.
        output: the folder to write.
        weights: a safetensors file; by default the run's best weights.
        onnx: write one file `model.onnx` instead, with what stands around the network among its properties.
        quantization: round weights to 8 bits and compute their products so, in this way.
        seal: sign or encrypt the export.
        others: what answers together with it, see `open_model`.
        speed: measure how fast `quantization` is on this machine, as `quantization.fastest` does.

    The model is traced with a sample of the evaluation set, or where its files are not there with the processor's
    example.

    Raises DataError if there is no sample to trace with, NotSupportedError for what ONNX cannot express, or no seal
    covers.
    """
    confine(output)
    path = run_at(path)
    task = open_run(path, weights, others=others)
    small = eight_bits_of(task)
    if small is not None and quantization is not None:
        raise ConfigError(
            f"{path} was trained in 8 bits (eight_bits) and is exported so; leave out 8 bits of another way"
        )
    if seal is not None and (onnx or isinstance(task, Publishes)):
        what = "model.onnx" if onnx else "rows of tables"
        raise NotSupportedError(f"export: {what} cannot be sealed; leave out --encrypt and --sign")
    processor = task.processor() if others else RunFolder(path).read_processor(task.processor_class)
    item = _sample(task, processor)
    if item is None:
        raise DataError(f"export: {path}: the evaluation set is empty, so there is no input to trace the model with")
    batch = processor.prepare([item])
    algorithm = _conv_algorithm(path)
    arrays = {name: batch[name] for name in task.eval_inputs}
    expected = predict_of(task, conv_algorithm=algorithm)(arrays)
    expected = {name: array.copy() for name, array in expected.items()}
    for name, parameter in task.model.named_parameters():
        parameter.name = name  # which the file's tensors have then, and patterns refer to
    if isinstance(task, Publishes):
        task.publish(output)
    feed = feed_of(processor, output)
    fed = arrays if feed is None else feed(arrays).arrays
    names = EXPORT_PASSES if onnx else INFERENCE_PASSES
    if small is not None:
        exported = in_8_bits(task, small, fed, algorithm, names)
    else:
        exported = deployed_program(task, fed, algorithm, names)
    inputs, measured = [fed[name] for name in task.eval_inputs], None
    if quantization is not None:
        if speed or quantization.fastest:
            measured, quantization = speed_of(exported, quantization, inputs)
        flat = flat_program(task, exported, fed, algorithm, names) if quantization.mode == "static" else None
        exported = quantize_for(task, exported, quantization, processor=processor, feed=feed, flat=flat)
    config = read_config(path)
    extra = {"suite": config["suite"], "outputs": list(expected), "processor": processor.metadata()}
    extra |= {"imports": config.imports()} if config.imports() else {}
    if not others:
        network = origin_of_run(config, weights or best_weights(RunFolder(path))).network
        extra["origin"] = {"network": network, "rounded": quantization is not None}
    if onnx:
        file = output / ONNX
        export(exported, file, output_names=list(expected), metadata=extra)
        found = Session(open_onnx(file)).run(inputs)
    else:
        save_program(exported, output, extra=extra, seal=seal)
        with keys(decrypt=seal.encrypt if seal else None):
            found = Predictor(output).run(inputs)
    return ExportReport(
        inputs=list(task.eval_inputs),
        outputs=list(expected),
        operations=len(exported.block.ops),
        largest_difference=_difference(list(expected.values()), found),
        fixed_shapes=exported.shape_reads,
        quantized=explain(exported)["quantize"],
        rounding=rounding_said(exported),
        speed=measured,
    )


def _sample(task: Task, processor: Processor) -> Any:
    """An item to trace a model with, None where the evaluation set is empty."""
    try:
        return next((item for _, item in task.examples(1)), None)
    except DataError:
        example = processor.example() if isinstance(processor, ServedProcessor) else None
        if example is None:
            raise
        assert isinstance(processor, ServedProcessor)
        return processor.from_json(example)


def evaluate_export(
    path: Path,
    exported: Path,
    overrides: Sequence[str] = (),
    *,
    device: str | None = None,
    products: str | None = None,
) -> dict[str, float]:
    """Return the figures of an exported model over the evaluation set of the run it came from.

    Args:
        path: the run.
        exported: the folder that `export_run` wrote.
        overrides: `path=value` texts on the run's config, such as another data set.
        device, products: what the export runs on and how, see `open_model`; by default the CPU.

    Raises CheckpointError for a folder that holds no exported model.
    """
    if not is_export(exported):
        raise CheckpointError(f"{exported}: holds no exported model (program.json); write one with `paddock export`")
    config, task = reopen(path, overrides)
    runtime = build_runtime(config)
    with limited(task.eval_loader(workers=runtime.workers), runtime.data, "nothing") as loader:
        return evaluate(task, open_model(exported, device=device, products=products).predict, loader)


def infer_files(
    model: Model,
    inputs: Iterable[Path | str],
    output: Path | None,
    *,
    batch_size: int | None = None,
    profile: StepProfile | None = None,
    formats: Sequence[str] = (),
) -> InferenceReport:
    """Predict on all inputs that a command line names; write `predictions.json` and a picture of each.

    Args:
        model: what predicts.
        inputs: files, folders and patterns such as `photos/*.jpg`, or texts where the task is about text.
        output: the folder to write. The task's processor may have further files for each picture, such as label maps.
            None writes nothing where results can be told as text, else `DEFAULT_OUTPUT`.
        batch_size: inputs that are read at a time; those of one shape share a batch. By default the processor's.
        profile: records some of the predictions.
        formats: of documents that are written of each item too, see `Documents`.

    An input that cannot be read is skipped and reported. Raises DataError for a mistyped file's name where words may
    be texts.
    """
    documents = writer_of(model.processor, formats)
    if output is not None:
        confine(output)
    elif formats:
        output = confined_default()
    words = [found for word in inputs for found in matched(str(word))]
    for word in words:
        require_input(model.processor, word)
    predict = model.predict if profile is None else profile.around(model.predict)
    report = InferenceReport([], [], [])
    results: dict[str, Any] = {}
    told: list[tuple[str, list[str]]] = []
    size = batch_size or model.processor.batch_size
    for chunk in chunks(read_inputs(words, model.processor, report.skipped), size):
        found = predict_items(model.processor, model.inputs, predict, [item for _, item in chunk])
        for (name, item), result in zip(chunk, found, strict=True):
            results[new_name(name, results)] = model.processor.summary(result)
            if output is None and isinstance(model.processor, TellsLines):
                told.append((name, model.processor.lines(result)))
                continue
            drawing = model.processor.draw(item, result)
            if isinstance(drawing, str):
                report.lines.append(drawing)
            else:
                if output is None:
                    output = confined_default()
                files = {**model.processor.files(result), **documents(item, result)}
                write_drawing(model.processor, output / Path(name).stem, drawing, files, report.pictures)
    for name, lines in told:
        report.lines.extend([f"{name}:", *(f"  {line}" for line in lines)] if len(told) > 1 else lines)
    if output is not None:
        write_results(output / "predictions.json", results)
    if profile is not None:
        profile.report()
    return replace(report, answered=len(results), output=output)


def confined_default() -> Path:
    """`DEFAULT_OUTPUT`, ready to be written to."""
    confine(DEFAULT_OUTPUT)
    return DEFAULT_OUTPUT


def write_drawing(
    processor: Processor, path: Path, drawing: np.ndarray, files: Mapping[str, bytes], pictures: list[Path]
) -> None:
    """Write a picture and further files by ending beside it; `path` is without ending."""
    picture = path.with_name(f"{path.name}.jpg")
    if picture in pictures:  # the same file name in another folder
        picture = path.with_name(f"{path.name}_{len(pictures)}.jpg")
    pictures.append(write_picture(processor, picture, drawing))
    for ending, data in files.items():
        with atomic_file(picture.with_suffix(ending)) as part:
            part.write_bytes(data)


def _conv_algorithm(run: Path) -> str:
    return build_runtime(read_config(run)).conv_algorithm


def _difference(expected: list[np.ndarray], found: list[np.ndarray]) -> float:
    pairs = zip(expected, found, strict=True)
    return max((float(np.abs(a.astype(np.float64) - b).max(initial=0.0)) for a, b in pairs), default=0.0)
