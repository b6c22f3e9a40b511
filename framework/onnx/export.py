"""A Program as an ONNX file that other runtimes run with the same results."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from framework.atomic import atomic_file
from framework.creation import zeros
from framework.errors import AttributeValueError, NotSupportedError, PaddockError
from framework.graph.ir import Program, Value
from framework.graph.native_executor import NativeExecution
from framework.onnx import exporters as _exporters  # fills the table of exporters
from framework.onnx.optional import require_onnx
from framework.onnx.writer import EXPORTERS, Writer, element_number

del _exporters
OPSET = 17
_LETTERS = {1: "N", 2: "N", 3: "N", 4: "NHW", 5: "NTHW", 6: "NVTHW"}  # of an input's axes, by their number
IR_VERSION = 8  # of the file format; what came with operator set 17

# For a Program to be exported: weights are constants, nothing is fused into operators that ONNX lacks.
EXPORT_PASSES: tuple[str, ...] = (
    "freeze_states",
    "fold_batch_norm",
    "merge_equal_operations",  # before folding: layers that are called twice would have weights each
    "fold_constants",
    "drop_dead_code",
)


def export(
    program: Program,
    path: Path | str,
    *,
    output_names: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Writes a Program as one ONNX file of operator set 17.

    Inputs and outputs keep their names, types and layout (images are [N, H, W, C]). Their extents are open, see
    `free_axes`, unless the Program is tied to the shapes it was traced with (`program.shape_reads`).

    Args:
        program: made with `pass_names=EXPORT_PASSES`; it must not update states.
        path: of the file.
        output_names: one for each result; `output0`, ... by default.
        metadata: kept in the file as text under these keys, values other than text as JSON.

    Raises:
        NotSupportedError: operators that cannot be written, all of them in one message.
        AttributeValueError: the number of names does not fit.
    """
    data = to_model(program, output_names, metadata).SerializeToString()
    with atomic_file(Path(path)) as unfinished:
        unfinished.write_bytes(data)


def to_model(program: Program, output_names: Sequence[str] = (), metadata: Mapping[str, Any] | None = None) -> Any:
    """The `onnx.ModelProto` that `export` writes; see there."""
    onnx = require_onnx()
    names = list(output_names) or [f"output{i}" for i in range(len(program.results))]
    if len(names) != len(program.results):
        raise AttributeValueError(f"onnx: {len(names)} output names for {len(program.results)} results")
    _refuse_what_cannot_be_written(program)
    writer = Writer(program)
    for i, v in enumerate(program.inputs):
        writer.set(v, v.name or f"input{i}")
    writer.nodes += [
        onnx.helper.make_node("Identity", [result], [name], name=name)
        for result, name in zip(writer.write(program), names, strict=True)
    ]
    nodes, needed = _without_unused(writer.nodes, names)
    free = free_axes(program)
    graph = onnx.helper.make_graph(
        nodes,
        "paddock",
        [_port(onnx, writer.get(v), v, axes) for v, axes in zip(program.inputs, free.values(), strict=True)],
        [
            _port(onnx, n, v, [] if program.shape_reads else range(len(v.shape)))
            for n, v in zip(names, program.results, strict=True)
        ],
        [initializer for initializer in writer.initializers if initializer.name in needed],
    )
    model = onnx.helper.make_model(
        graph, producer_name="paddock", opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in (metadata or {}).items()}
    onnx.helper.set_model_props(model, texts)
    return model


def free_axes(program: Program) -> dict[str, list[int]]:
    """The axes of each input, by name, that may have other extents than the Program was traced with.

    The first always; of images [N, H, W, C], clips [N, T, H, W, C] and the like those between it and the channels too,
    where shapes can be inferred with twice the extent. None where the Program is tied to its shapes.
    """
    found: dict[str, list[int]] = {}
    for i, v in enumerate(program.inputs):
        inner = range(1, len(v.shape) - 1) if not program.shape_reads else ()
        first = [0] if v.shape and not program.shape_reads else []
        found[v.name or f"input{i}"] = first + [axis for axis in inner if _takes(program, i, axis)]
    return found


def _takes(program: Program, changed: int, axis: int) -> bool:
    """Whether shapes can be inferred where one input's axis is twice as long."""
    inputs = []
    for i, v in enumerate(program.inputs):
        shape = [n * 2 if (i, at) == (changed, axis) else n for at, n in enumerate(v.shape)]
        inputs.append(zeros(shape, dtype=v.dtype))
    try:
        NativeExecution(program, None).plan(inputs)
    except PaddockError:
        return False
    return True


def _without_unused(nodes: Sequence[Any], results: Sequence[str]) -> tuple[list[Any], set[str]]:
    """The nodes that the results come from, and what these read: an exporter may write two operations as one."""
    kept, needed = [], set(results)
    for node in reversed(nodes):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(_read_by(node))
    return kept[::-1], needed


def _read_by(node: Any) -> Iterator[str]:
    """The names that a node and the graphs inside of it read."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield from (output.name for output in attribute.g.output)
            for inner in attribute.g.node:
                yield from _read_by(inner)


def _refuse_what_cannot_be_written(program: Program) -> None:
    missing: dict[str, str] = {}
    for op in program.operations():
        if op.name not in EXPORTERS:
            missing.setdefault(op.name, f"{op.name} (from {op.where})" if op.where else op.name)
    if missing:
        raise NotSupportedError(
            f"onnx: {len(missing)} operators cannot be written: {', '.join(missing.values())}; make the Program with "
            "pass_names=EXPORT_PASSES, or see docs/howto/onnx.md"
        )
    if program.updates:
        states = ", ".join(s.name or str(s) for s in program.updates)
        raise NotSupportedError(f"onnx: the Program updates {states}; export one that only runs forward")


def _port(onnx: Any, name: str, v: Value, free: Collection[int]) -> Any:
    """An input or output, whose axes in `free` have names in place of extents."""
    letters = _LETTERS.get(len(v.shape), "") if v.kind == "input" else ""
    names = [*letters, *range(len(letters), len(v.shape))]
    shape: list[Any] = [f"{name}_{names[axis]}" if axis in free else n for axis, n in enumerate(v.shape)]
    return onnx.helper.make_tensor_value_info(name, element_number(v), shape)
