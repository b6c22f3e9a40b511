"""Runs the test cases that the package `onnx` brings; shared by the tests and by tools/onnx_report.py."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

from framework.onnx import exporters
from framework.onnx.backend import PaddockBackend

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "howto" / "onnx.md"
MARKS = ("<!-- made by tools/onnx_report.py -->\n", "<!-- end -->\n")
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


def report(node_cases: list[Any], failures: dict[str, str | None]) -> str:
    """The report of docs/howto/onnx.md: for each operator, node tests passed of all, and whether `export` writes it."""
    written = _written_operators()
    rows: dict[tuple[str, str], list[bool]] = {}
    base = {case.name: _operator(case) for case in node_cases if "_expanded" not in case.name}
    for case in node_cases:
        operator = base.get(case.name.split("_expanded")[0]) or _operator(case)
        rows.setdefault(operator, []).append(failures[case.name] is None)
    version = ".".join(onnx.__version__.split(".")[:2])
    passed = sum(why is None for why in failures.values())
    lines = [
        f"{passed} of the {len(failures)} node tests of `onnx` {version} pass. By operator, with those of its",
        "definition by other operators (`_expanded`); *written* says that `export` produces it.",
        "",
        "| operator | node tests | written |",
        "| --- | --- | --- |",
    ]
    for (domain, name), results in sorted(rows.items()):
        shown = f"{domain}.{name}" if domain else name
        mark = "yes" if not domain and name in written else ""
        lines.append(f"| {shown} | {sum(results)} of {len(results)} | {mark} |")
    return "\n".join(lines) + "\n"


def _operator(case: Any) -> tuple[str, str]:
    """What a test is about: its last node."""
    node = case.model.graph.node[-1]
    return node.domain, node.op_type


def _written_operators() -> set[str]:
    """ONNX operators that stand in the source of the exporters."""
    folder = Path(exporters.__file__).parent
    text = "".join(p.read_text() for p in sorted(folder.glob("*.py")))
    known = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    return known & set(re.findall(r'"([A-Z]\w+)"', text))


def with_report(document: str, text: str) -> str:
    """A document with the part between the marks replaced."""
    before, rest = document.split(MARKS[0])
    return before + MARKS[0] + text + MARKS[1] + rest.split(MARKS[1])[1]
