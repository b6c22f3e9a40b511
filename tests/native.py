"""The C interface of the core by ctypes: what tests ask of `paddock.h` without compiling anything."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from framework import _core
from framework.errors import CheckpointError, PaddockError
from framework.tensors import bfloat16_type

LIBRARY = Path(_core.__file__).parent / "lib" / "libpaddock.so"
STATUS = (
    "OK", "BAD_ARGUMENT", "BAD_FILE", "BAD_SHAPE", "BAD_TYPE", "NOT_SUPPORTED", "NO_MEMORY", "BUSY", "BAD_STATE",
    "NUMERICS", "INTERNAL",
)  # fmt: skip
TYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool")


class Info(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("type", c_int32),
        ("rank", c_int32),
        ("fixed", c_int32),
        ("shape", c_int64 * 8),
        ("name", c_char_p),
    )


class RawTensor(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("type", c_int32),
        ("rank", c_int32),
        ("reserved", c_int32),
        ("shape", c_int64 * 8),
        ("data", c_void_p),
        ("bytes", c_uint64),
    )


# A source of a key: a text as the command line has it, bytes, or a function.
KeySource = str | Path | bytes | Callable[[], bytes]
KeyFunction = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p, c_size_t, POINTER(c_size_t))


def set_key(options: c_void_p, name: bytes, source: KeySource) -> object:
    """Names the source of a key; what is returned must live until the options are used."""
    if isinstance(source, bytes):
        checked(C.paddock_options_set_key(options, name, source, len(source)))
    elif callable(source):

        def ask(_: int, key: int, room: int, count: Any) -> int:
            try:
                given = source()
                count[0] = len(given)
                ctypes.memmove(key, given, min(room, len(given)))
            except Exception:
                return 1
            return 0

        held = KeyFunction(ask)
        checked(C.paddock_options_set_key_function(options, name, held, None))
        return held
    else:
        checked(C.paddock_options_set_text(options, name, str(source).encode()))
    return None


class Picture(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("height", c_int32),
        ("width", c_int32),
        ("reserved", c_int32),
        ("row_bytes", c_int64),
        ("pixels", c_void_p),
    )


class Text(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("reserved", c_int32),
        ("text", c_char_p),
        ("bytes", c_uint64),
        ("second", c_char_p),
        ("second_bytes", c_uint64),
    )


class NativeError(PaddockError):
    """What a function of the interface has refused; `status` by its name."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


class FileRefused(NativeError, CheckpointError):
    """The same of a file."""


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(LIBRARY))
    for name in ("last_error", "version", "metadata", "instruction_set", "type_name"):
        getattr(library, f"paddock_{name}").restype = c_char_p
    library.paddock_type_size.restype = ctypes.c_size_t
    library.paddock_options_set.argtypes = (c_void_p, c_char_p, c_int64)
    for name in ("options_free", "free"):
        getattr(library, f"paddock_{name}").argtypes, getattr(library, f"paddock_{name}").restype = (c_void_p,), None
    for name in ("input_count", "output_count", "metadata", "release_outputs"):
        getattr(library, f"paddock_{name}").argtypes = (c_void_p,)
    for name in ("input_info", "output_info"):
        getattr(library, f"paddock_{name}").argtypes = (c_void_p, c_int32, POINTER(Info))
    library.paddock_prepare.argtypes = (c_void_p, c_void_p, c_int32, POINTER(c_void_p))
    library.paddock_prepare_objects.argtypes = (c_void_p, c_void_p, c_void_p, c_int32, POINTER(c_void_p))
    library.paddock_prepared_free.argtypes, library.paddock_prepared_free.restype = (c_void_p,), None
    library.paddock_prepared_input.argtypes = (c_void_p, c_int32, POINTER(RawTensor))
    for name in ("boxes_back", "points_back"):
        getattr(library, f"paddock_{name}").argtypes = (c_void_p, c_int32, c_void_p, c_int64, c_void_p)
    library.paddock_labels_back.argtypes = (c_void_p, c_int32, c_void_p, c_int32, c_int32, c_void_p)
    library.paddock_masks_back.argtypes = (
        (c_void_p, c_int32, c_void_p, c_int64, c_int32, c_void_p, ctypes.c_double, c_void_p)
    )  # fmt: skip
    library.paddock_decode_heatmaps.argtypes = (c_void_p, c_void_p, c_void_p, c_void_p)
    library.paddock_prepare_lines.argtypes = (
        (c_void_p, POINTER(c_char_p), c_void_p, c_int32, POINTER(c_void_p))
    )  # fmt: skip
    library.paddock_column_count.argtypes = (c_void_p,)
    library.paddock_prepare_rows.argtypes = (
        (c_void_p, POINTER(c_char_p), c_void_p, c_int32, c_int32, POINTER(c_void_p))
    )  # fmt: skip
    library.paddock_prepare_texts.argtypes = (c_void_p, c_void_p, c_int32, POINTER(c_void_p))
    library.paddock_tokenizer_of.argtypes = (c_void_p, POINTER(c_void_p))
    library.paddock_tokenizer_load.argtypes = (c_char_p, c_void_p, POINTER(c_void_p))
    library.paddock_tokenizer_free.argtypes, library.paddock_tokenizer_free.restype = (c_void_p,), None
    library.paddock_encode.argtypes = (c_void_p, c_char_p, c_uint64, c_void_p, c_uint64, POINTER(c_uint64))
    library.paddock_token_number.argtypes, library.paddock_token_number.restype = (c_void_p, c_char_p), c_int64
    library.paddock_signer.restype, library.paddock_signer.argtypes = c_char_p, (c_void_p,)
    library.paddock_options_set_text.argtypes = (c_void_p, c_char_p, c_char_p)
    library.paddock_options_set_key.argtypes = (c_void_p, c_char_p, c_char_p, c_size_t)
    library.paddock_options_set_key_function.argtypes = (c_void_p, c_char_p, KeyFunction, c_void_p)
    library.paddock_run.argtypes = (c_void_p, c_void_p, c_int32)
    library.paddock_metadata_at.argtypes = (c_void_p, c_char_p, POINTER(c_char_p))
    library.paddock_output.argtypes = (c_void_p, c_int32, POINTER(RawTensor))
    library.paddock_load.argtypes = (c_char_p, c_void_p, POINTER(c_void_p))
    library.paddock_clone.argtypes = (c_void_p, POINTER(c_void_p))
    library.paddock_set_profiling.argtypes = (c_void_p, c_int32)
    for name in ("memory_report", "profile"):
        getattr(library, f"paddock_{name}").argtypes = (c_void_p, POINTER(c_char_p))
    return library


C = _library()


def checked(status: int) -> None:
    """Raises what the status says."""
    if status:
        name, text = STATUS[status], C.paddock_last_error().decode()
        raise (FileRefused if name == "BAD_FILE" else NativeError)(name, text)


def raw_tensor(array: np.ndarray) -> RawTensor:
    """The array's memory, which must be contiguous and outlive what is returned."""
    assert array.flags.c_contiguous
    dtype = "bfloat16" if array.dtype == bfloat16_type() else str(array.dtype)
    size = ctypes.sizeof(RawTensor)
    shape = (c_int64 * 8)(*array.shape)
    return RawTensor(size, TYPES.index(dtype), array.ndim, 0, shape, array.ctypes.data, array.nbytes)


def view_of(t: RawTensor) -> np.ndarray:
    """A tensor's memory as an array."""
    name, shape = TYPES[t.type], tuple(t.shape[: t.rank])
    dtype = bfloat16_type() if name == "bfloat16" else np.dtype(name)
    memory = (ctypes.c_char * t.bytes).from_address(t.data) if t.bytes else b""
    return np.frombuffer(memory, dtype).reshape(shape)


class Prepared:
    """`paddock_prepared` of pictures uint8 [H, W, 3], whose rows may lie apart."""

    def __init__(self, model: NativePredictor, pictures: Sequence[np.ndarray]) -> None:
        self.handle = c_void_p()
        self._sizes = [picture.shape[:2] for picture in pictures]
        size = ctypes.sizeof(Picture)
        given = (Picture * len(pictures))(
            *(Picture(size, *p.shape[:2], 0, p.strides[0], p.ctypes.data) for p in pictures)
        )
        checked(C.paddock_prepare(model.handle, given, len(pictures), byref(self.handle)))

    def __del__(self) -> None:
        C.paddock_prepared_free(self.handle)

    def input(self, index: int) -> np.ndarray:
        """A copy of what the model's input takes."""
        t = RawTensor(ctypes.sizeof(RawTensor))
        checked(C.paddock_prepared_input(self.handle, index, byref(t)))
        return view_of(t).copy()

    def boxes(self, picture: int, boxes: np.ndarray) -> np.ndarray:
        """Float32 [M, 4] of the input in pixels of the picture."""
        back = np.ascontiguousarray(boxes, np.float32).copy()
        checked(C.paddock_boxes_back(self.handle, picture, back.ctypes.data, len(back), back.ctypes.data))
        return back

    def points(self, picture: int, points: np.ndarray) -> np.ndarray:
        """Float32 [P, 2] of the input in pixels of the picture."""
        given = np.ascontiguousarray(points, np.float32)
        back = np.empty_like(given)
        checked(C.paddock_points_back(self.handle, picture, given.ctypes.data, len(given), back.ctypes.data))
        return back

    def labels(self, picture: int, labels: np.ndarray) -> np.ndarray:
        """Uint8 [H, W] of the input as those of the picture's pixels."""
        back = np.empty(self._sizes[picture], np.uint8)
        given = np.ascontiguousarray(labels)
        checked(C.paddock_labels_back(self.handle, picture, given.ctypes.data, *given.shape, back.ctypes.data))
        return back

    def masks(self, picture: int, masks: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        """Float32 [M, S, S] over boxes of the picture as bitmaps uint8 [M, H, W]."""
        given, at = np.ascontiguousarray(masks, np.float32), np.ascontiguousarray(boxes, np.float32)
        back = np.empty((len(given), *self._sizes[picture]), np.uint8)
        data = given.ctypes.data, len(given), given.shape[1], at.ctypes.data, 0.5, back.ctypes.data
        checked(C.paddock_masks_back(self.handle, picture, *data))
        return back


class PreparedObjects(Prepared):
    """`paddock_prepared` of the objects of one picture uint8 [H, W, 3], by boxes [M, 4]."""

    def __init__(self, model: NativePredictor, p: np.ndarray, boxes: np.ndarray) -> None:
        self.handle = c_void_p()
        given = Picture(ctypes.sizeof(Picture), *p.shape[:2], 0, p.strides[0], p.ctypes.data)
        at = np.ascontiguousarray(boxes, np.float32)
        made = model.handle, byref(given), at.ctypes.data, len(at), byref(self.handle)
        checked(C.paddock_prepare_objects(*made))


class PreparedTexts(Prepared):
    """`paddock_prepared` of texts, or of pairs of them."""

    def __init__(self, model: NativePredictor, texts: Sequence[str], seconds: Sequence[str] | None = None) -> None:
        self.handle = c_void_p()
        first, second = [t.encode() for t in texts], [t.encode() for t in seconds or ()]
        size, none = ctypes.sizeof(Text), (None, 0)
        given = (Text * len(first))(
            *(Text(size, 0, t, len(t), *((second[i], len(second[i])) if second else none)) for i, t in enumerate(first))
        )
        checked(C.paddock_prepare_texts(model.handle, given, len(first), byref(self.handle)))


class PreparedRows(Prepared):
    """`paddock_prepared` of rows of a click log: texts by column, missing where a column is not there."""

    def __init__(self, model: NativePredictor, rows: Sequence[Mapping[str, str]], *, zeros: bool = False) -> None:
        self.handle = c_void_p()
        names = [model.part(f"/processor/reader/columns/{i}") for i in range(C.paddock_column_count(model.handle))]
        cells = [row.get(name, "").encode("utf-8", "surrogateescape") for row in rows for name in names]
        texts = (c_char_p * len(cells))(*cells)
        sizes = None if zeros else (c_uint64 * len(cells))(*map(len, cells))
        checked(C.paddock_prepare_rows(model.handle, texts, sizes, len(rows), len(names), byref(self.handle)))


class PreparedLines(Prepared):
    """`paddock_prepared` of lines of a slot log."""

    def __init__(self, model: NativePredictor, lines: Sequence[str], *, zeros: bool = False) -> None:
        self.handle = c_void_p()
        texts = [line.encode("utf-8", "surrogateescape") for line in lines]
        sizes = None if zeros else (c_uint64 * len(texts))(*map(len, texts))
        given = (c_char_p * len(texts))(*texts)
        checked(C.paddock_prepare_lines(model.handle, given, sizes, len(texts), byref(self.handle)))


class NativeTokenizer:
    """`paddock_tokenizer` of a tokenizer.json, or of an export."""

    def __init__(self, source: Path | NativePredictor) -> None:
        self.handle = c_void_p()
        if isinstance(source, NativePredictor):
            checked(C.paddock_tokenizer_of(source.handle, byref(self.handle)))
        else:
            checked(C.paddock_tokenizer_load(str(source).encode(), None, byref(self.handle)))

    def __del__(self) -> None:
        C.paddock_tokenizer_free(self.handle)

    def encode(self, text: str | bytes) -> list[int]:
        """The numbers of its tokens."""
        given = text if isinstance(text, bytes) else text.encode()
        room, count = 8 * len(given) + 8, c_uint64()
        ids = np.empty(room, np.int64)
        checked(C.paddock_encode(self.handle, given, len(given), ids.ctypes.data, room, byref(count)))
        assert count.value <= room
        return ids[: count.value].tolist()

    def number(self, token: str) -> int:
        """Of a token; -1 of none."""
        return int(C.paddock_token_number(self.handle, token.encode()))


class NativePredictor:
    """`paddock_predictor`, with errors as exceptions."""

    def __init__(
        self, folder: Path | str, *, decrypt: KeySource | None = None, verify: KeySource | None = None, **options: int
    ) -> None:
        self.handle = c_void_p()
        made = c_void_p()
        checked(C.paddock_options_new(byref(made)))
        try:
            for name, value in options.items():
                checked(C.paddock_options_set(made, name.encode(), value))
            held = [
                set_key(made, name, source)
                for name, source in ((b"decrypt", decrypt), (b"verify", verify))
                if source is not None
            ]
            checked(C.paddock_load(str(folder).encode(), made, byref(self.handle)))
        finally:
            C.paddock_options_free(made)
        del held  # functions that were asked for keys

    @property
    def signer(self) -> str | None:
        found = C.paddock_signer(self.handle)
        return None if found is None else found.decode()

    def __del__(self) -> None:
        C.paddock_free(self.handle)

    def decode_heatmaps(self, heatmaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points [N, L, 2] in pixels of the inputs and scores [N, L] of heatmaps [N, H, W, L]."""
        given = np.ascontiguousarray(heatmaps)
        count = *given.shape[:1], *given.shape[3:]
        points, scores = np.empty((*count, 2), np.float32), np.empty(count, np.float32)
        raw = raw_tensor(given)
        checked(C.paddock_decode_heatmaps(self.handle, byref(raw), points.ctypes.data, scores.ctypes.data))
        return points, scores

    def clone(self) -> NativePredictor:
        other = NativePredictor.__new__(NativePredictor)
        other.handle = c_void_p()
        checked(C.paddock_clone(self.handle, byref(other.handle)))
        return other

    def infos(self, which: str) -> list[tuple[str, str, tuple[int, ...], bool]]:
        """(name, type, shape, fixed) of each "input" or "output"."""
        found = []
        for i in range(getattr(C, f"paddock_{which}_count")(self.handle)):
            info = Info(ctypes.sizeof(Info))
            checked(getattr(C, f"paddock_{which}_info")(self.handle, i, byref(info)))
            found.append((info.name.decode(), TYPES[info.type], tuple(info.shape[: info.rank]), bool(info.fixed)))
        return found

    @property
    def metadata(self) -> dict[str, Any]:
        return json.loads(C.paddock_metadata(self.handle))

    def part(self, pointer: str) -> str:
        """The part of the metadata at a JSON pointer."""
        text = c_char_p()
        checked(C.paddock_metadata_at(self.handle, pointer.encode(), byref(text)))
        return (text.value or b"").decode()

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Copies of the outputs."""
        tensors = (RawTensor * len(arrays))(*map(raw_tensor, arrays))
        checked(C.paddock_run(self.handle, tensors, len(arrays)))
        return [array.copy() for array in self.views()]

    def views(self) -> list[np.ndarray]:
        """The outputs where they are."""
        found = []
        for i in range(C.paddock_output_count(self.handle)):
            t = RawTensor(ctypes.sizeof(RawTensor))
            checked(C.paddock_output(self.handle, i, byref(t)))
            found.append(view_of(t))
        return found

    def _text(self, function: Any) -> Any:
        text = c_char_p()
        checked(function(self.handle, byref(text)))
        return json.loads(text.value or b"")

    def memory_report(self) -> dict[str, Any]:
        return self._text(C.paddock_memory_report)

    def profile(self) -> list[dict[str, Any]]:
        return self._text(C.paddock_profile)
