"""A reader of pickles that can build tensors, numbers, text and containers, and refuses everything else.

A pickle is a program for a small stack machine. Python's own runs it with every function there is; this one knows the
instructions that weight files need and a short table of names, each standing for a function of this file. Any other
instruction or name ends the reading with an error: no code of the file's choosing can run.
"""

from __future__ import annotations

import math
import os
import pickletools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from framework.errors import CheckpointError
from framework.limits import Meter, check


class Refused(CheckpointError):
    """The pickle asks for something that is no part of a weight file."""


@dataclass(frozen=True)
class Name:
    """A function or class that the pickle names; nothing is imported for it."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True)
class Inert:
    """What stands for an object of a training script beside its weights: the name of its class, and nothing of it."""

    name: Name


@dataclass
class _DType:
    """A NumPy type on its way: its code, and the byte order that its state adds."""

    code: str
    order: str = "="

    def dtype(self) -> np.dtype[Any]:
        found = np.dtype(self.order.replace("|", "=") + self.code if self.code[1:] != "1" else self.code)
        if found.kind not in "fiub":
            raise Refused(f"an array of type {self.code}; weights are numbers")
        return found


@dataclass
class _Array:
    """A NumPy array on its way: BUILD gives it its shape and data."""

    array: np.ndarray | None = None


Storage = Callable[[Any], np.ndarray]  # what a persistent id names: a flat array


def load_pickle(stream: IO[bytes], storage: Storage | None = None) -> Any:
    """The object of the pickle that begins at the stream's position; the stream is left behind its end.

    Args:
        stream: a binary file, or BytesIO.
        storage: gives the flat array that a persistent id of PyTorch stands for; without it they are refused.

    Raises:
        Refused: the pickle names or does something that is no part of a weight file.
        CheckpointError: it is cut or damaged.
    """
    try:
        return _finished(_Machine(storage, Meter(_size_of(stream), "the pickle")).run(stream))
    except CheckpointError:
        raise
    except _DAMAGE as error:
        raise CheckpointError(f"the pickle is damaged ({type(error).__name__}: {error})") from None


def _size_of(stream: IO[bytes]) -> int:
    """Bytes of the whole file; the position stays."""
    at = stream.tell()
    size = stream.seek(0, os.SEEK_END)
    stream.seek(at)
    return size


_DAMAGE = (
    ValueError, IndexError, KeyError, TypeError, AttributeError, EOFError, OverflowError, RecursionError, MemoryError,
    SyntaxError,  # of a text that `pickletools` reads as a literal
)  # fmt: skip


def _finished(value: Any) -> Any:
    """Arrays in place of what they were built in, through all containers, which may share parts or form a loop."""
    done: dict[int, Any] = {}

    def visit(x: Any, level: int = 0) -> Any:
        check("levels", level, "the pickle's containers lie in each other, by levels")
        if isinstance(x, _Array):
            if x.array is None:
                raise Refused("an array without data")
            return x.array
        if not isinstance(x, (dict, list, tuple)):
            return x
        if id(x) not in done:
            done[id(x)] = x  # a loop ends here
            if isinstance(x, dict):
                done[id(x)] = {k: visit(v, level + 1) for k, v in x.items()}
            else:
                done[id(x)] = type(x)(visit(v, level + 1) for v in x)
        return done[id(x)]

    return visit(value)


_MARK = object()
_MOST_KEYS = 8  # parts of a key that is a tuple
_STEP_BYTES = 64  # what an instruction takes at most, on the stack and in the memo
_VALUES = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES",
    "BINBYTES8", "BYTEARRAY8",
}  # fmt: skip
_FRESH: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "EMPTY_DICT": dict, "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple, "EMPTY_SET": list, "MARK": lambda: _MARK,
}  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Machine:
    """The stack, the memo, and what each instruction does."""

    def __init__(self, storage: Storage | None, meter: Meter) -> None:
        self.storage = storage
        self.meter = meter
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, stream: IO[bytes]) -> Any:
        for opcode, argument, _ in pickletools.genops(stream):
            name = opcode.name
            self.meter.take(_STEP_BYTES)
            if name == "STOP":
                return self.stack.pop()
            if name in ("PROTO", "FRAME"):
                continue
            if name in _VALUES:
                self.stack.append(argument)
            elif name in _FRESH:
                self.stack.append(_FRESH[name]())
            elif name in _TUPLES:
                self.stack.append(tuple(self._pop(_TUPLES[name])))
            else:
                step = getattr(self, "op_" + name.lower(), None)
                if step is None:
                    raise Refused(f"the pickle instruction {name}")
                step(argument)
        raise CheckpointError("the pickle is cut")

    def _pop(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise CheckpointError("the pickle is damaged: its stack is empty")
        taken = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return taken

    def _since_mark(self) -> list[Any]:
        at = len(self.stack) - 1  # from the top, so that it costs no more than what is taken
        while at >= 0 and self.stack[at] is not _MARK:
            at -= 1
        if at < 0:
            raise CheckpointError("the pickle is damaged: a mark is missing")
        taken = self.stack[at + 1 :]
        del self.stack[at:]
        return taken

    # -- containers
    def op_tuple(self, _: Any) -> None:
        self.stack.append(tuple(self._since_mark()))

    def op_list(self, _: Any) -> None:
        self.stack.append(self._since_mark())

    def op_dict(self, _: Any) -> None:
        self.stack.append(dict(_pairs(self._since_mark())))

    def op_append(self, _: Any) -> None:
        (value,) = self._pop(1)
        self._top(list).append(value)

    def op_appends(self, _: Any) -> None:
        values = self._since_mark()
        self._top(list).extend(values)

    op_additems = op_appends  # a set is a list here: nothing looks for a thing in it

    def op_frozenset(self, _: Any) -> None:
        self.stack.append(self._since_mark())

    def op_setitem(self, _: Any) -> None:
        key, value = self._pop(2)
        self._top(dict)[_key(key)] = value

    def op_setitems(self, _: Any) -> None:
        values = self._since_mark()
        self._top(dict).update(_pairs(values))

    def _top(self, kind: type) -> Any:
        if not self.stack or type(self.stack[-1]) is not kind:
            raise CheckpointError(f"the pickle is damaged: a {kind.__name__} is missing")
        return self.stack[-1]

    def op_pop(self, _: Any) -> None:
        self._pop(1)

    # -- memo
    def op_memoize(self, _: Any) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def op_put(self, number: Any) -> None:
        self.memo[int(number)] = self.stack[-1]

    op_binput = op_long_binput = op_put

    def op_get(self, number: Any) -> None:
        self.stack.append(self.memo[int(number)])

    op_binget = op_long_binget = op_get

    # -- names and what they stand for
    def op_global(self, argument: Any) -> None:
        module, _, name = str(argument).partition(" ")
        self.stack.append(_known(Name(module, name)))

    def op_stack_global(self, _: Any) -> None:
        module, name = self._pop(2)
        self.stack.append(_known(Name(_text(module), _text(name))))

    def op_reduce(self, _: Any) -> None:
        function, arguments = self._pop(2)
        if not isinstance(function, Name) or function not in FUNCTIONS or not isinstance(arguments, tuple):
            raise Refused(f"a call of {_shown(function)}")
        self._push_made(FUNCTIONS[function](*arguments))

    def op_newobj(self, _: Any) -> None:
        kind, arguments = self._pop(2)
        if kind in FUNCTIONS and isinstance(arguments, tuple):
            self._push_made(FUNCTIONS[kind](*arguments))
        elif kind in _OBJECTS:
            self.stack.append(Inert(kind))
        else:
            raise Refused(f"an object of {_shown(kind)}")

    def op_newobj_ex(self, _: Any) -> None:
        kind, arguments, named = self._pop(3)
        if not isinstance(named, dict):
            raise CheckpointError("the pickle is damaged: an object without arguments")
        self.stack += [kind, arguments]
        self.op_newobj(None)

    def _push_made(self, made: Any) -> None:
        self.meter.take(_made_bytes(made))
        self.stack.append(made)

    def op_build(self, _: Any) -> None:
        target, state = self._pop(2)
        if isinstance(target, _Array):
            self.meter.take(_fill(target, state))
        elif isinstance(target, _DType):
            target.order = _text(state[1])
        elif not isinstance(target, dict | Inert):  # their attributes, such as versions of layers, are left out
            raise Refused(f"a state for {_shown(target)}")
        self.stack.append(target)

    def op_binpersid(self, _: Any) -> None:
        (number,) = self._pop(1)
        if self.storage is None:
            raise Refused("a persistent id")
        self.stack.append(self.storage(number))


def _pairs(values: list[Any]) -> Iterator[tuple[Any, Any]]:
    if len(values) % 2:
        raise CheckpointError("the pickle is damaged: a key without a value")
    return zip(map(_key, values[::2]), values[1::2], strict=True)


def _key(value: Any) -> Any:
    """A key of a dict: hashing a container that holds others again and again would take hours."""
    if isinstance(value, tuple) and len(value) <= _MOST_KEYS and not any(isinstance(part, tuple) for part in value):
        return tuple(_key(part) for part in value)
    if not isinstance(value, (str, bytes, int, float)) and value is not None:
        raise Refused(f"a {type(value).__name__} as a key")
    if isinstance(value, int):
        _whole((int(value),))
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Refused(f"a {type(value).__name__} where a text belongs")
    return value


def _whole(values: Any) -> tuple[int, ...]:
    """An extent, stride or offset of each axis; a number beyond 64 bits would make arithmetic itself slow."""
    if not isinstance(values, (tuple, list)) or not all(type(n) is int and abs(n) < 1 << 63 for n in values):
        raise CheckpointError("the pickle is damaged: a shape that is no list of whole numbers")
    return tuple(values)


def _made_bytes(made: Any) -> int:
    """What a function's result takes beyond what was there; an array that is a view takes nothing."""
    if isinstance(made, np.ndarray):
        return made.nbytes if made.base is None else 0
    if isinstance(made, (bytes, tuple, dict)):
        return len(made) * (1 if isinstance(made, bytes) else 8 if isinstance(made, tuple) else 128)
    return 0


def _shown(x: Any) -> str:
    return str(x) if isinstance(x, Name) else f"a {type(x).__name__}"


# -- what the names stand for
def _ordered_dict(items: Any = ()) -> dict[Any, Any]:
    return {_key(k): v for k, v in items}


def _torch_tensor(storage: Any, offset: int, size: Any, stride: Any, *_: Any) -> np.ndarray:
    """A tensor in a storage: its first element, shape, and elements from one index to the next, by axis."""
    size, stride, (offset,) = _whole(size), _whole(stride), _whole((offset,))
    if not isinstance(storage, np.ndarray) or storage.ndim != 1 or len(size) != len(stride):
        raise CheckpointError("the pickle is damaged: a tensor without storage")
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if math.prod(size) else offset
    inside = offset >= 0 and min([*size, *stride, 0]) >= 0 and (last < len(storage) or not math.prod(size))
    if not inside or math.prod(size) > max(1, len(storage)):
        raise CheckpointError(f"a tensor {list(size)} does not lie in its storage of {len(storage)} elements")
    strides = [s * storage.itemsize for s in stride]
    return np.ascontiguousarray(np.lib.stride_tricks.as_strided(storage[offset:], tuple(size), strides))


def _torch_parameter(tensor: Any, *_: Any) -> Any:
    return tensor


def _numpy_dtype(code: Any, *_: Any) -> _DType:
    return _DType(_text(code))


def _numpy_array(*_: Any) -> _Array:
    return _Array()


def _fill(target: _Array, state: Any) -> int:
    """An array's state: (version, shape, type, whether its first axis runs fastest, bytes); returns bytes it took."""
    _, shape, dtype, fortran, data = state
    shape = _whole(shape)
    raw = data.encode("latin-1") if isinstance(data, str) else data
    if not isinstance(dtype, _DType) or not isinstance(raw, bytes):
        raise Refused("an array of objects")
    kind = dtype.dtype()
    if min([*shape, 0]) < 0 or math.prod(shape) * kind.itemsize != len(raw):
        raise CheckpointError(f"an array {list(shape)} of {kind} comes with {len(raw)} bytes")
    array = np.frombuffer(raw, kind).reshape(shape, order="F" if fortran else "C")
    target.array = np.ascontiguousarray(array.astype(kind.newbyteorder("="), copy=False))
    return len(raw)


def _from_buffer(data: Any, dtype: Any, shape: Any, order: Any = "C", *_: Any) -> np.ndarray:
    """An array as protocol 5 writes it: its bytes, and what they mean."""
    target = _Array()
    _fill(target, (1, shape, dtype, order == "F", bytes(data) if isinstance(data, bytes | bytearray) else data))
    assert target.array is not None
    return target.array


def _encoded(text: Any, encoding: Any = "latin1") -> bytes:
    if _text(encoding).replace("-", "") != "latin1":
        raise Refused(f"text in the encoding {encoding}")
    return _text(text).encode("latin-1")


def _tuple(items: Any = ()) -> tuple[Any, ...]:
    return tuple(items)


def _paddle_tensor(expression: Any, names: Any = None, *_: Any) -> Any:
    """Paddle writes some tensors as eval("data", {"data": array}), which stands for the array; others are refused."""
    if expression != "data" or not isinstance(names, dict) or set(names) != {"data"}:
        raise Refused("a call of eval")
    return names["data"]


def _scalar(kind: Any, data: Any) -> Any:
    """A NumPy scalar as a plain number."""
    raw = data.encode("latin-1") if isinstance(data, str) else data
    if not isinstance(kind, _DType) or not isinstance(raw, bytes):
        raise Refused("a scalar of objects")
    if kind.code[:1] in "USM":  # text, a date
        return Inert(Name("numpy", "generic"))
    dtype = kind.dtype()
    if len(raw) != dtype.itemsize:
        raise CheckpointError(f"a scalar of {dtype} comes with {len(raw)} bytes")
    return np.frombuffer(raw, dtype)[0].item()


def _dict_of(*arguments: Any) -> dict[Any, Any]:
    """A defaultdict or Counter: what it makes of a key that it lacks is left out."""
    given = arguments[-1] if arguments else None
    return {_key(k): v for k, v in given.items()} if isinstance(given, dict) else {}


def _list_of(items: Any = (), *_: Any) -> list[Any]:
    """A set or a deque."""
    if not isinstance(items, list | tuple):
        raise Refused(f"a collection of {_shown(items)}")
    return list(items)


def _inert(kind: Name) -> Callable[..., Any]:
    return lambda *_, **__: Inert(kind)


def _rebuilt(kind: Any, base: Any = None, state: Any = None) -> Any:
    """An object as protocols 0 and 1 write it."""
    if kind not in _OBJECTS:
        raise Refused(f"an object of {_shown(kind)}")
    return Inert(kind)


FUNCTIONS: dict[Name, Callable[..., Any]] = {
    Name("collections", "OrderedDict"): _ordered_dict,
    Name("torch._utils", "_rebuild_tensor_v2"): _torch_tensor,
    Name("torch._utils", "_rebuild_parameter"): _torch_parameter,
    Name("torch", "Size"): _tuple,
    Name("numpy", "dtype"): _numpy_dtype,
    Name("_codecs", "encode"): _encoded,
}
for _module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    FUNCTIONS[Name(_module, "_reconstruct")] = _numpy_array
    FUNCTIONS[Name(_module, "scalar")] = _scalar
    FUNCTIONS[Name(_module.replace("multiarray", "numeric"), "_frombuffer")] = _from_buffer
for _module in ("builtins", "__builtin__"):
    FUNCTIONS[Name(_module, "tuple")] = _tuple
    FUNCTIONS[Name(_module, "set")] = FUNCTIONS[Name(_module, "frozenset")] = _list_of
    FUNCTIONS[Name(_module, "eval")] = _paddle_tensor

# Types of PyTorch's storages, by the class that a persistent id names; bfloat16 as its bits.
STORAGE_TYPES = {
    Name("torch", kind + "Storage"): np.dtype(code)
    for kind, code in {
        "Float": "<f4", "Double": "<f8", "Half": "<f2", "BFloat16": "<V2", "Long": "<i8", "Int": "<i4", "Short": "<i2",
        "Char": "i1", "Byte": "u1", "Bool": "?",
    }.items()
}  # fmt: skip
# Objects that training scripts keep beside weights. What they hold is left out.
_OBJECTS = {
    Name("argparse", "Namespace"), Name("types", "SimpleNamespace"), Name("easydict", "EasyDict"),
    Name("addict.addict", "Dict"), Name("yacs.config", "CfgNode"), Name("torch.torch_version", "TorchVersion"),
}  # fmt: skip
_MADE = {
    Name("torch", "device"), Name("pathlib", "PosixPath"), Name("pathlib", "WindowsPath"), Name("pathlib", "Path"),
    Name("pathlib", "PurePosixPath"), Name("pathlib", "PureWindowsPath"), Name("pathlib._local", "PosixPath"),
    Name("datetime", "datetime"), Name("datetime", "date"), Name("datetime", "timedelta"), Name("uuid", "UUID"),
    Name("decimal", "Decimal"), Name("torch.serialization", "_get_layout"),
}  # fmt: skip
FUNCTIONS |= {name: _inert(name) for name in _MADE | {Name("types", "SimpleNamespace")}}
FUNCTIONS |= {Name("collections", kind): _dict_of for kind in ("defaultdict", "Counter")}
FUNCTIONS |= {Name("collections", "deque"): _list_of}
FUNCTIONS |= {Name(module, "_reconstructor"): _rebuilt for module in ("copyreg", "copy_reg")}
_TORCH_TYPES = (
    *("float32", "float", "float64", "double", "float16", "half", "bfloat16", "int8", "uint8", "int16", "int32"),
    *("int64", "long", "bool", "complex64", "complex128", "strided", "contiguous_format", "channels_last"),
)
_INERT = {  # may be named, as an argument, but not called
    Name("numpy", "ndarray"), *STORAGE_TYPES, *_OBJECTS, *(Name("torch", kind) for kind in _TORCH_TYPES),
    *(Name(module, kind) for module in ("builtins", "__builtin__")
      for kind in ("list", "dict", "int", "float", "str", "bool", "object", "bytes")),
    *(Name("numpy", kind) for kind in ("float64", "float32", "int64", "int32", "bool_", "generic")),
}  # fmt: skip


def _known(name: Name) -> Name:
    if name not in FUNCTIONS and name not in _INERT:
        raise Refused(f"the name {name}")
    return name
