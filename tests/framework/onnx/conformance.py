"""Runs the test cases that the package `onnx` brings; shared by the tests and by tools/onnx_report.py."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from framework.onnx.backend import PaddockBackend

NOT_SUPPORTED = Path(__file__).with_name("not_supported.txt")


def not_supported() -> set[str]:
    """Names of the node tests that are known not to pass: the one list, which may only shrink."""
    lines = NOT_SUPPORTED.read_text().splitlines()
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def cases(kind: str) -> list[Any]:
    """The CPU test cases of a kind: node, simple, pytorch-converted, pytorch-operator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns while the expected values are computed
        return load_model_tests(kind=kind)


def check(case: Any) -> None:
    """Raises what goes wrong in one test case."""
    model = case.model if case.model is not None else onnx.load(Path(case.model_dir) / "model.onnx")
    rep = PaddockBackend.prepare(model)
    for inputs, outputs in case.data_sets if case.data_sets is not None else _data_sets(case, model):
        got = rep.run([_array(x) for x in inputs])
        Runner.assert_similar_outputs([_array(y) for y in outputs], got, rtol=case.rtol, atol=case.atol)


def failure(case: Any) -> str | None:
    """What goes wrong in one test case, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check(case)
    except Exception as e:  # whatever goes wrong is the finding
        return f"{type(e).__name__}: {e}"
    return None


def _data_sets(case: Any, model: onnx.ModelProto) -> Iterator[tuple[list[Any], list[Any]]]:
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        yield _stored(folder, "input", model.graph.input), _stored(folder, "output", model.graph.output)


def _stored(folder: Path, what: str, ports: Any) -> list[Any]:
    count = len(list(folder.glob(f"{what}_*.pb")))
    return [_read(folder / f"{what}_{i}.pb", ports[i].type) for i in range(count)]


def _read(path: Path, kind: Any) -> Any:
    if kind.HasField("sequence_type"):
        sequence = onnx.SequenceProto()
        sequence.ParseFromString(path.read_bytes())
        return numpy_helper.to_list(sequence)
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return tensor


def _array(x: Any) -> Any:
    return numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x
