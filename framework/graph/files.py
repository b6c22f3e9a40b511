"""Programs as files: `program.json` (operations) beside `weights.safetensors` (constants and states).

`program.json` names the file of its weights. Replacing a Program writes the weights under the name that is free, then
`program.json`, so at every moment the folder holds one whole pair.

Nothing in them can run code. A file that is cut, edited or made by somebody hostile is refused with a clear error:
every number is checked before the native side sees it.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from framework.atomic import make_folder, remove_file, write_text
from framework.confined import confine
from framework.errors import CheckpointError, NotSupportedError, PaddockError
from framework.graph.ir import Operation, Program, Value
from framework.graph.native import control_info
from framework.io import load_tensors, save_tensors, tensor_bytes, tensors_in
from framework.limits import check, current, how_to_raise
from framework.ops import registry
from framework.outside import read_json
from framework.sealing import Opened, Seal, expect_sealed, is_sealed, open_sealed, remove_seal, write_sealed
from framework.tensors import DTYPES, Tensor

FORMAT = 1
PROGRAM = "program.json"
WEIGHTS = ("weights.safetensors", "weights.2.safetensors")  # the names that a Program's weights may have
_ROOT = str(Path(__file__).parents[2]) + os.sep  # where our packages lie
MAX_ELEMENTS = 1 << 40  # a shape with more is a damaged file, not a model


def save_program(
    program: Program, folder: Path | str, *, extra: dict[str, Any] | None = None, seal: Seal | None = None
) -> None:
    """Writes a Program to `folder`, made when missing.

    Args:
        program: what is written.
        folder: to write into.
        extra: kept as it is, for preprocessing and class names.
        seal: signs or encrypts it; what it encrypts is never on the disk in plain.

    Raises:
        NotSupportedError: it calls Python functions, or looks up rows of a table.
        CheckpointError: it cannot be written, or a key cannot be had.
    """
    folder = Path(folder)
    confine(folder)
    make_folder(folder)
    if seal is not None:
        text = json.dumps(to_json(program) | {"weights": WEIGHTS[0], "extra": extra or {}}, indent=1)
        write_sealed(folder, {PROGRAM: text.encode(), WEIGHTS[0]: tensor_bytes(tensors_of(program))}, seal)
        for name in {PROGRAM, *WEIGHTS} - ({PROGRAM, WEIGHTS[0]} if seal.encrypt is None else set()):
            remove_file(folder / name)
        return
    used = _named_weights(folder)
    free = WEIGHTS[used == WEIGHTS[0]]
    data = to_json(program) | {"weights": free, "extra": extra or {}}
    save_tensors(folder / free, tensors_of(program))
    remove_seal(folder, (PROGRAM, *WEIGHTS))
    write_text(folder / "program.json", json.dumps(data, indent=1))
    for name in set(WEIGHTS) - {free}:
        remove_file(folder / name)


def weights_file(folder: Path | str) -> Path:
    """The file with the weights of the Program in `folder`.

    Raises:
        CheckpointError: there is no program.json, or it names no file of weights.
    """
    name = _named_weights(Path(folder))
    if name is None:
        raise CheckpointError(f"{folder}/program.json: names no file of weights; export the model again")
    return Path(folder) / name


def _named_weights(folder: Path) -> str | None:
    try:
        return _weights_name(read_json(folder / "program.json"))
    except (OSError, ValueError, RecursionError, CheckpointError):
        return None


def is_export(folder: Path | str) -> bool:
    """Whether a folder holds a Program, sealed or not."""
    return (Path(folder) / PROGRAM).is_file() or is_sealed(folder)


def program_files(folder: Path | str) -> list[Path]:
    """The files that say which Program is in `folder`, by which it can be known again: those of its seal, or its own.

    Raises:
        CheckpointError: there is none.
    """
    if is_sealed(folder):
        return [Path(folder) / "seal.json"]
    return [Path(folder) / PROGRAM, weights_file(folder)]


def _weights_name(data: Any) -> str:
    name = data.get("weights", WEIGHTS[0]) if isinstance(data, dict) else WEIGHTS[0]
    if name not in WEIGHTS:
        raise CheckpointError(f"its weights are said to be in {name!r:.80}; known are {' and '.join(WEIGHTS)}")
    return str(name)


def load_program(folder: Path | str) -> tuple[Program, dict[str, Any]]:
    """Reads what `save_program` wrote: the Program, and `extra`. Of a sealed one all is checked before.

    Raises:
        CheckpointError: a file is missing or damaged, or a key; the message names it and says what is wrong.
    """
    path = Path(folder) / PROGRAM
    expect_sealed(folder)
    opened = open_sealed(folder) if is_sealed(folder) else None
    try:
        data = read_json(path) if opened is None else _json_in(opened.files)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such file; export a model first") from None
    except ValueError as e:
        raise CheckpointError(f"{path}: not valid JSON ({e}); export the model again") from None
    try:
        _check_form(data)
        tensors = _weights(Path(folder), _weights_name(data), opened)
        program = from_json(data, tensors)
        check_plan(program)
        return program, data.get("extra", {})
    except PaddockError as e:
        raise CheckpointError(f"{path}: {e}") from None
    except _MALFORMED as e:
        raise CheckpointError(f"{path}: malformed ({type(e).__name__}: {e}); export the model again") from None


def _json_in(files: Mapping[str, memoryview]) -> Any:
    content = files.get(PROGRAM)
    if content is None:
        raise ValueError("the seal names none")
    check("text_bytes", len(content), "it has too many bytes")
    try:
        return json.loads(bytes(content))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _weights(folder: Path, name: str, opened: Opened | None) -> dict[str, Tensor]:
    if opened is None:
        return load_tensors(folder / name)
    if name not in opened.files:
        raise CheckpointError(f"{folder}: its seal names no {name}; export the model again")
    return tensors_in(opened.files[name], f"{folder}/{name}")


_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError, MemoryError)


def _check_form(data: Any) -> None:
    """Refuses what the rest of the reading, and its readers, would trip over.

    Raises:
        CheckpointError: a part is missing or of another kind.
    """
    if not isinstance(data, dict):
        raise CheckpointError(f"holds a {type(data).__name__} where a program is expected; export the model again")
    if not isinstance(data.get("extra", {}), dict):
        raise CheckpointError(f"'extra' is a {type(data['extra']).__name__}, not an object; export the model again")
    for key in ("inputs", "states", "constants", "operations", "results", "updates", "shape_reads"):
        if not isinstance(data.get(key), list):
            raise CheckpointError(f"'{key}' is no list; export the model again")
    if not data["results"] and not data["updates"]:
        raise CheckpointError("'results' is empty, so the program gives nothing; export the model again")
    for value in (*data["inputs"], *data["states"], *data["constants"]):
        shape = value["shape"]
        if not isinstance(shape, list) or not all(type(n) is int for n in shape):
            raise CheckpointError(f"the shape {shape!r:.80} is no list of whole numbers; export the model again")
        if not isinstance(value.get("name"), str | None):
            raise CheckpointError(f"the name {value['name']!r:.80} is no text; export the model again")


def _block_prefix(prefix: str, operation: int, block: int) -> str:
    """What the names of a block's constants begin with."""
    return f"{prefix}block.{operation}.{block}."


class _Names:
    """What states and constants are called in a file: their own names, numbered where another tensor has that name.

    Attributes:
        of: the name of each state and constant, in blocks too.
        tensors: what stands in the file, by name.
    """

    def __init__(self, program: Program) -> None:
        self.of: dict[Value, str] = {}
        self.tensors: dict[str, Tensor] = {}
        self._data: dict[str, Any] = {}  # by name: what must be the same object to share it
        for v, t in program.states.items():
            self._add(v, t, t, "")
        self._add_constants(program, "")

    def _add_constants(self, program: Program, prefix: str) -> None:
        for v, array in program.constants.items():
            self._add(v, array, Tensor(array), prefix)
        for i, op in enumerate(program.block):
            for k, block in enumerate(op.blocks):
                self._add_constants(block, _block_prefix(prefix, i, k))

    def _add(self, v: Value, data: Any, tensor: Tensor, prefix: str) -> None:
        wanted = prefix + (v.name or f"value.{v.id}")
        numbered = (f"{wanted}.{n}" for n in itertools.count(2))
        name = next(n for n in itertools.chain([wanted], numbered) if self._data.get(n, data) is data)
        self.of[v], self._data[name] = name, data
        self.tensors.setdefault(name, tensor)


def tensors_of(program: Program) -> dict[str, Tensor]:
    """The states and constants that `to_json` only names."""
    return _Names(program).tensors


def to_json(program: Program) -> dict[str, Any]:
    """The Program as plain data; values are numbered in order of definition, tensors named as in `tensors_of`.

    Raises:
        NotSupportedError: it calls Python functions.
    """
    return _to_json(program, _Names(program).of)


def _to_json(program: Program, names: dict[Value, str]) -> dict[str, Any]:
    numbers: dict[Value, int] = {}

    def declare(v: Value) -> dict[str, Any]:
        numbers[v] = len(numbers)
        return {"id": numbers[v], "shape": list(v.shape), "dtype": v.dtype, "name": v.name}

    def describe(op: Operation) -> dict[str, Any]:
        library = {"library": Path(op.info.library).name} if op.info.library else {}
        blocks = [_to_json(b, names) for b in op.blocks]
        return (
            library
            | ({"blocks": blocks} if blocks else {})
            | {
                "op": op.name,
                "inputs": [None if v is None else numbers[v] for v in op.inputs],
                "outputs": [declare(v)["id"] for v in op.outputs],
                "attrs": {a["name"]: value for a, value in zip(op.info.attrs, op.attrs, strict=True)},
                "where": _portable(op.where),
            }
        )

    _refuse(program, "python", _PYTHON)
    _refuse(program, "table", _TABLE)
    return {
        "format": FORMAT,
        "inputs": [declare(v) for v in program.inputs],
        "states": [declare(v) | {"tensor": names[v]} for v in program.states],
        "constants": [declare(v) | {"tensor": names[v]} for v in program.constants],
        "operations": [describe(op) for op in program.block],
        "results": [numbers[v] for v in program.results],
        "updates": [[numbers[s], numbers[v]] for s, v in program.updates.items()],
        "shape_reads": [_portable(line) for line in program.shape_reads],
    }


def _portable(line: str) -> str:
    """`file:line`, and what follows, without folders of this machine: an export goes to others.

    Files of our packages stay below them, of others only the name is left.
    """
    if line.startswith(_ROOT):
        return line.removeprefix(_ROOT)
    drive = 2 if line[1:3] == ":\\" else 0
    file, colon, rest = line[drive:].partition(":")
    return file.replace("\\", "/").rpartition("/")[2] + colon + rest if drive or file.startswith("/") else line


_PYTHON = (
    "runs Python code, which a file cannot hold; make it of framework.ops, "
    "or write it in C++ (docs/howto/custom_operators.md)"
)
_TABLE = (
    "uses a table, whose rows a Program's file does not hold; export a function that takes the looked-up rows as its "
    "input, and save the table by itself (docs/explanation/tables.md)"
)


def _refuse(program: Program, family: str, why: str) -> None:
    """Raises NotSupportedError for operations that no file can hold."""
    names = dict.fromkeys(f"{op.name} ({op.where})" for op in program.operations() if op.info.family == family)
    if names:
        raise NotSupportedError(f"save_program: {', '.join(names)} {why}")


def from_json(data: dict[str, Any], tensors: dict[str, Tensor], depth: int = 0) -> Program:
    """The Program that `to_json` described, with its states' and constants' data.

    Raises:
        CheckpointError: an operator, a value or a tensor is unknown, or types do not fit.
    """
    if data.get("format") != FORMAT:
        raise CheckpointError(
            f"format {data.get('format')!r} is not {FORMAT}; export the model again with this version"
        )
    check("levels", depth, "blocks are nested too deeply")
    check("nodes", len(data["operations"]), "it has too many operations")
    if depth and (data["states"] or data["updates"]):
        raise CheckpointError("a block has states; only the Program around it can")
    program = Program()
    values: dict[int, Value] = {}
    for d in data["inputs"]:
        shape = tuple(int(n) for n in d["shape"])
        _check_type(shape, d["dtype"])
        _define(values, d["id"], program.add_input(shape, d["dtype"], d["name"]))
    for d in data["states"]:
        t = _tensor(tensors, d)
        t.persistable, t.name = True, d["name"]
        _define(values, d["id"], program.add_state(t))
    for d in data["constants"]:
        value = program.add_constant(_tensor(tensors, d).array())
        value.name = d["name"]
        _define(values, d["id"], value)
    _check_shared(data)
    largest = max(current().elements, current().element_growth * _given_elements(program))
    for d in data["operations"]:
        op = _add_operation(program, values, d, [from_json(b, tensors, depth + 1) for b in d.get("blocks", ())])
        for v in op.outputs:
            if math.prod(v.shape) > largest:
                raise CheckpointError(
                    f"{op.name} makes {v.type_text}, which is out of proportion to the model's inputs. "
                    f"{how_to_raise('elements')}"
                )
    program.results = [_value(values, n) for n in data["results"]]
    program.updates = {_value(values, s): _value(values, v) for s, v in data["updates"]}
    for s, v in program.updates.items():
        if s not in program.states:
            raise CheckpointError(f"update of {s}, which is not a state")
        if (s.dtype, len(s.shape)) != (v.dtype, len(v.shape)):
            raise CheckpointError(f"update of state {s}: {s.type_text} with a {v.type_text}")
    program.shape_reads = [_portable(str(line)) for line in data["shape_reads"]]
    return program


def _given_elements(program: Program) -> int:
    """Elements of all inputs, states and constants."""
    return sum(math.prod(v.shape) for v in (*program.inputs, *program.states, *program.constants))


def check_plan(program: Program) -> None:
    """Refuses operations that are each allowed but together hold far more memory than the model brings."""
    alive = alive_elements(program)
    if alive > current().element_growth * _given_elements(program):
        check("plan_elements", alive, "its operations hold too many elements at the same time")


def alive_elements(program: Program) -> int:
    """The most elements of results that are alive at the same time, with no result in the memory of another."""
    last = {v: i for i, op in enumerate(program.block) for v in op.inputs if v is not None}
    last |= dict.fromkeys([*program.results, *program.updates.values()], len(program.block.ops))
    ends: dict[int, int] = {}
    most = alive = 0
    for i, op in enumerate(program.block):
        for v in op.outputs:
            size = math.prod(v.shape)
            alive += size
            ends[last.get(v, i)] = ends.get(last.get(v, i), 0) + size
        most = max(most, alive + max(map(alive_elements, op.blocks), default=0))
        alive -= ends.pop(i, 0)
    return most


def _check_shared(data: dict[str, Any]) -> None:
    """Refuses a tensor that is a state and something else too: an update would change both."""
    uses = Counter(str(d["tensor"]) for d in (*data["states"], *data["constants"]))
    for d in data["states"]:
        if uses[str(d["tensor"])] > 1:
            raise CheckpointError(f"{d['tensor']!r} is a state and also used for another value")


def _add_operation(program: Program, values: dict[int, Value], d: dict[str, Any], blocks: list[Program]) -> Operation:
    info = control_info(str(d["op"]), blocks) if blocks else registry.find(d["op"])
    if info is None:
        raise CheckpointError(_unknown(d))
    inputs = [None if n is None else _value(values, n) for n in d["inputs"]]
    check_arguments(info, inputs)
    op = program.add_operation(info, inputs, info.attr_values(d["attrs"]), _portable(str(d.get("where", ""))))
    op.blocks = blocks
    if len(op.outputs) != len(d["outputs"]):
        raise CheckpointError(f"{op.name} has {len(op.outputs)} outputs, the file lists {len(d['outputs'])}")
    for n, v in zip(d["outputs"], op.outputs, strict=True):
        _define(values, n, v)
    return op


def _unknown(d: dict[str, Any]) -> str:
    if library := d.get("library"):
        return (
            f"operator {d['op']!r} is of the library {str(library)!r}, which is not loaded; call "
            "framework.load_operators with your copy of it first (a Program never loads one by itself)"
        )
    return f"operator {d['op']!r} does not exist in this version"


def check_arguments(info: registry.OpInfo, inputs: list[Value | None]) -> None:
    """Refuses a number of inputs, or an absent one, that the operator's signature does not allow."""
    variadic = any(a["variadic"] for a in info.inputs)
    least = sum(not a["optional"] for a in info.inputs)
    if not least <= len(inputs) or (len(inputs) > len(info.inputs) and not variadic):
        raise CheckpointError(f"{info.name} cannot take {len(inputs)} inputs")
    for i, v in enumerate(inputs):
        if v is None and not info.inputs[min(i, len(info.inputs) - 1)]["optional"]:
            raise CheckpointError(f"{info.name}: its input number {i} is absent")


def _check_type(shape: tuple[int, ...], dtype: str) -> None:
    size = 1
    for n in shape:
        size *= max(n, 1)  # an extent of 0 makes no other one possible
        if n < 0 or size > MAX_ELEMENTS:
            raise CheckpointError(f"impossible shape {list(shape)}")
    if dtype not in DTYPES:
        raise CheckpointError(f"unknown type {dtype!r}")


def _define(values: dict[int, Value], number: int, value: Value) -> None:
    if number in values:
        raise CheckpointError(f"value {number} is defined twice")
    values[number] = value


def _value(values: dict[int, Value], number: int) -> Value:
    if number not in values:
        raise CheckpointError(f"value {number} is used but not defined before")
    return values[number]


def _tensor(tensors: dict[str, Tensor], d: dict[str, Any]) -> Tensor:
    name = d["tensor"]
    if name not in tensors:
        raise CheckpointError(f"the weights lack {name!r}")
    t = tensors[name]
    if list(t.shape) != list(d["shape"]) or t.dtype != d["dtype"]:
        raise CheckpointError(
            f"{name!r} is {t.dtype}{list(t.shape)} in the weights but {d['dtype']}{d['shape']} in the program"
        )
    return t
