"""Exported models: a folder with program.json, an ONNX or a TensorFlow Lite file; others' have no preprocessing."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import framework
from framework.errors import AttributeValueError, CheckpointError, ConfigError, NotSupportedError, PaddockError
from framework.graph.files import program_files
from framework.onnx import Model as OnnxModel
from framework.onnx import Session, program_of
from framework.onnx import open_model as open_onnx
from framework.predictor import Predictor
from framework.tflite import open_model as open_tflite
from framework.tflite import program_of as tflite_program
from suites.engine.config.building import task_class
from suites.engine.config.plugins import require_plugins
from suites.engine.contract.capabilities import feed_of
from suites.engine.contract.feeding import Feed, Outputs
from suites.engine.contract.fitting import StepsOnHost, fitting_of
from suites.engine.contract.processor import Processor, ServedProcessor
from suites.engine.predict.bare import BareTensors
from suites.engine.predict.items import Predict, batches_of
from suites.engine.predict.model import Memory, Model, bytes_of, in_turns
from suites.engine.predict.origin import origin_of_export

_log = logging.getLogger(__name__)


def open_export(path: Path, device: str = "cpu", products: str = "float32") -> Model:
    """Open a folder with `program.json`; raises CheckpointError for one that is damaged."""
    predictor = Predictor(path, device=device, products=products)
    processor, names = _described(predictor.extra, len(predictor.output_types), f"{path}/program.json")
    if device != "cpu" and isinstance(processor, StepsOnHost):
        _log.info("%s: runs on the CPU: its steps come in ever new shapes, which %s would compile each", path, device)
        predictor, device = Predictor(path), "cpu"
    model = _model_of(predictor, processor, names, path, device, products)
    return replace(model, origin=lambda: origin_of_export(predictor.extra, program_files(path), str(path)))


def open_onnx_file(path: Path, device: str = "cpu", products: str = "float32") -> Model:
    """Open an ONNX file, with what stands around its network where `paddock export` wrote it.

    A file without that takes and gives bare tensors, see `BareTensors`.

    Raises CheckpointError for a file that is damaged, NotSupportedError for operators that are not known.
    """
    network = open_onnx(path)
    extra = _properties(network.metadata, str(path))
    processor: Processor = BareTensors(path.name)
    names = network.output_names
    if extra is not None:
        processor, names = _described(extra, len(network.output_names), str(path))
    with framework.device(device, products=products):
        feed = feed_of(processor, path.parent)
    predictor = _predictor_of(network, processor, feed, device, products)
    if predictor is not None:
        model = _model_of(predictor, processor, names, path.parent, device, products)
    else:
        model = _session_of(network, processor, names, feed, device, products)
    return replace(model, origin=lambda: origin_of_export(extra or {}, [path], str(path)))


def _model_of(
    predictor: Predictor, processor: Processor, names: list[str], folder: Path, device: str, products: str
) -> Model:
    with framework.device(device, products=products):
        feed = feed_of(processor, folder)
    fitting = None if device == "cpu" else fitting_of(processor)

    replicas: list[Predictor] = []

    def with_names(own: Predictor) -> Predict:
        replicas.append(own)

        def predict(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            found = dict(zip(names, own.run(fitting.fill(arrays) if fitting else arrays), strict=True))
            return fitting.cut(found, arrays) if fitting else found

        return predict

    # With a feed the inputs are other arrays than the Program's.
    types = dict(zip(predictor.input_names, predictor.input_types, strict=True)) if feed is None else {}
    types |= dict(zip(names, predictor.output_types, strict=True))
    inputs = tuple(predictor.input_names)

    def memory() -> Memory:
        return Memory(predictor.weight_bytes, sum(own.kept_bytes() for own in replicas))

    if feed is None:
        replica = lambda: with_names(predictor.replica())  # noqa: E731
        return Model(processor, inputs, with_names(predictor), replica, types, memory=memory)
    predict = _Following(predictor, with_names, feed)
    return Model(processor, inputs, predict, predict.replica, types, feed, memory=memory)


def open_tflite_file(path: Path, device: str = "cpu", products: str = "float32") -> Model:
    """Open a TensorFlow Lite file, which takes and gives bare tensors, 8-bit ones as the file has them.

    Raises CheckpointError for a file that is damaged, NotSupportedError for operators that are not known or inputs
    whose shape is open.
    """
    network = open_tflite(path)
    try:
        found = tflite_program(network)
    except AttributeValueError as error:  # an open shape
        raise NotSupportedError(f"{path}: {error}; or run it by framework.tflite, which takes each shape") from None
    predictor = Predictor.of_program(found, {}, device=device, products=products)
    return _model_of(predictor, BareTensors(path.name), network.output_names, path.parent, device, products)


def _properties(given: Mapping[str, str], where: str) -> dict[str, Any] | None:
    """What `paddock export` wrote into an ONNX file; None where it did not."""
    if not {"suite", "processor", "outputs"} <= set(given):
        return None
    extra: dict[str, Any] = {"suite": given["suite"]}
    for key in ("processor", "outputs", "imports", "origin"):
        if key in given:
            try:
                extra[key] = json.loads(given[key])
            except (ValueError, RecursionError) as error:
                raise CheckpointError(f"{where}: its property '{key}' is no JSON ({error}); export it again") from None
    return extra


def _predictor_of(
    network: OnnxModel, processor: Processor, feed: Feed | None, device: str, products: str
) -> Predictor | None:
    """The network as a Program that takes all shapes; None where it depends on them, or none is known to trace with."""
    try:
        found = program_of(network, _example_shapes(network, processor, feed))
    except AttributeValueError:  # an open shape
        return None
    except PaddockError:  # the session says why
        return None
    if found.shape_reads:
        _log.info("onnx: the network is traced anew for each shape, because %s", found.shape_reads[0])
        return None
    return Predictor.of_program(found, {}, device=device, products=products)


def _example_shapes(network: OnnxModel, processor: Processor, feed: Feed | None) -> dict[str, tuple[int, ...]] | None:
    example = processor.example() if isinstance(processor, ServedProcessor) else None
    if example is None:
        return None
    assert isinstance(processor, ServedProcessor)
    batch = next(iter(batches_of(processor, [processor.from_json(example)])))
    arrays = {name: batch[name] for name in network.input_names}
    return {name: array.shape for name, array in (arrays if feed is None else feed(arrays).arrays).items()}


def _session_of(
    network: OnnxModel, processor: Processor, names: list[str], feed: Feed | None, device: str, products: str
) -> Model:
    """The network traced at each new kind of shapes, for one caller at a time."""
    session, inputs = Session(network), tuple(network.input_names)

    def predict(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        fed = None if feed is None else feed(arrays)
        given = arrays if fed is None else fed.arrays
        with framework.device(device, products=products):
            outputs = Outputs(zip(names, session.run([given[name] for name in inputs]), strict=True))
        if fed is not None:
            outputs.version, outputs.beside = fed.version, fed.beside
        return outputs

    ports = [*network.ports, *network.results]
    types = {
        port.name: (port.dtype, tuple(extent if isinstance(extent, int) else 1 for extent in port.shape))
        for port in ports
        if port.dtype and port.shape is not None
    }
    weights = bytes_of(network)

    def memory() -> Memory:
        return Memory(weights, session.kept_bytes())

    return Model(processor, inputs, *in_turns(predict), types, feed, memory=memory)


def _described(extra: Mapping[str, Any], count: int, where: str) -> tuple[Processor, list[str]]:
    """The processor and the names of the `count` outputs that an export states beside its Program."""
    kinds = {"suite": str, "processor": dict, "outputs": list, "imports": list}
    for key, kind in kinds.items():
        if key not in extra and key != "imports":
            raise CheckpointError(f"{where}: lacks '{key}', which `paddock export` writes; export it again")
        if not isinstance(extra.get(key, kind()), kind):
            raise CheckpointError(f"{where}: '{key}' is a {type(extra[key]).__name__}; export it again")
    names = [str(name) for name in extra["outputs"]]
    if len(names) != len(set(names)) or len(names) != count:
        raise CheckpointError(f"{where}: names {len(names)} outputs, and the Program has {count}; export it again")
    try:
        return task_class(extra["suite"]).processor_class.from_metadata(extra["processor"]), names
    except ConfigError:
        require_plugins(map(str, extra.get("imports", ())), where)
        raise
    except PaddockError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise CheckpointError(f"{where}: 'processor' does not fit ({type(error).__name__}: {error})") from error


class _Following:
    """One worker's way through a model whose inputs, and whose network, follow what lies beside the export."""

    def __init__(self, exported: Predictor, by_name: Callable[[Predictor], Predict], feed: Feed) -> None:
        self._exported, self._by_name, self._feed = exported, by_name, feed
        self._newer: Predictor | None = None  # as the feed had it last; this worker runs a replica of it
        self._predict = by_name(exported)

    def replica(self) -> _Following:
        """For another worker."""
        return _Following(self._exported.replica(), self._by_name, self._feed)

    def __call__(self, arrays: dict[str, np.ndarray]) -> Outputs:
        fed = self._feed(arrays)
        if fed.network is not self._newer:
            self._newer = fed.network
            self._predict = self._by_name(self._exported if fed.network is None else fed.network.replica())
        outputs = Outputs(self._predict(dict(fed.arrays)))
        outputs.version, outputs.beside = fed.version, fed.beside
        return outputs
