"""Bombs of single files: images, weights, zips, Programs, ONNX, configs."""

from __future__ import annotations

import io
import itertools
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bombs.core import bomb, reader

HUGE = 1 << 40  # bytes of a file of zeros that takes no room on the disk


# -- readers
@reader("image")
def read_picture(path: Path) -> object:
    from suites.vision.pictures.images import read_image

    return read_image(path)


@reader("keras")
def read_keras(path: Path) -> object:
    from suites.engine.weights import read_weights

    return read_weights(path)


@reader("weights")
def read_weight_file(path: Path) -> object:
    from suites.engine.weights import read_weights

    return read_weights(path)


@reader("source")
def read_archive(path: Path) -> object:
    from suites.engine.data.sources import open_source

    return open_source(path).read("a.png")


@reader("program")
def run_program(path: Path) -> object:
    import numpy as np

    from framework.limits import allow
    from framework.predictor import Predictor

    with allow(loop_steps=100_000):
        return Predictor(path.parent).run([np.ones(1, np.float32)])


@reader("native")
def run_native_program(path: Path) -> object:
    import numpy as np

    from tests.native import NativePredictor

    return NativePredictor(path.parent, loop_steps=100_000, memory_bytes=1 << 29).run([np.ones(1, np.float32)])


@reader("onnx")
def read_onnx(path: Path) -> object:
    from framework.limits import allow
    from framework.onnx import load

    with allow(nodes=100_000):
        return load(path)


@reader("tflite")
def read_tflite(path: Path) -> object:
    from framework.limits import allow
    from framework.tflite import load

    with allow(nodes=100_000):
        return load(path)


@reader("config")
def read_config(path: Path) -> object:
    from suites.engine.config.config import load_config

    return load_config(path)


# -- images
def png(width: int, height: int) -> bytes:
    """A PNG of zeros with three bytes a pixel, compressed row by row."""
    squeezed = zlib.compressobj(9)
    rows = b"".join(squeezed.compress(bytes(1 + 3 * width)) for _ in range(height)) + squeezed.flush()

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


HEADERS = {
    "jpeg": b"\xff\xd8\xff\xc0\0\x11\x08\xff\xff\xff\xff\x03" + bytes(9) + b"\xff\xda\0\x08" + bytes(6) + b"\xff\xd9",
    "bmp": b"BM" + struct.pack("<IHHIIiiHHIIiiII", 54, 0, 0, 54, 40, 1 << 20, 1 << 20, 1, 24, 0, 0, 0, 0, 0, 0),
    "webp": b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + b"\xff" * 6,
    "pgm": b"P5\n99999 99999\n255\n",
    "tiff": b"II*\0" + struct.pack("<IHHHIIHHII", 8, 2, 256, 4, 1, 1 << 20, 257, 4, 1, 1 << 20),
}
for _kind, _header in HEADERS.items():
    bomb("image", f"a {_kind} that states terabytes")(lambda data=_header, kind=_kind: {f"x.{kind}": data})
bomb("image", "a PNG of 400 million pixels")(lambda: {"x.png": png(100_000, 4000)})
bomb("image", "a JPEG of 100,000 scans")(
    lambda: {"x.jpg": HEADERS["jpeg"].replace(b"\xff" * 4, b"\x20\0" * 2) + b"\xff\xda\0\x08" * 100_000 + b"\xff\xd9"}
)


# -- pickles
def nested(opcode: bytes, levels: int = 60) -> bytes:
    """A container that holds the one before it twice, and so on: 2 ** levels leaves."""
    built = b")" if opcode == b"\x86" else b"]"
    for level in range(levels):
        put = b"q" + bytes([level])
        get = b"h" + bytes([level])
        built += put + get + opcode if opcode == b"\x86" else put + b"0](" + get + get + b"e"
    return built


TUPLES, LISTS = nested(b"\x86"), nested(b"e")
PICKLES = {
    "a key of shared tuples": b"}" + TUPLES + b"K\x01s.",
    "a name of shared lists": LISTS + b"X\x01\0\0\0a\x93.",
    "an OrderedDict of a key of shared tuples": b"ccollections\nOrderedDict\n](" + TUPLES + b"K\x01\x86e\x85R.",
    "a dtype of shared lists": b"cnumpy\ndtype\n" + LISTS + b"\x85R.",
    "an encoding of shared lists": b"c_codecs\nencode\nX\x01\0\0\0a" + LISTS + b"\x86R.",
    "a value of shared lists": b"}X\x01\0\0\0a" + LISTS + b"s.",
    "ten million empty lists": b"]" * 10_000_000 + b".",
    "marks above marks": b"(" * 300_000 + b"l" * 300_000 + b".",
    "texts as tuples, again and again": b"X" + struct.pack("<I", 1 << 20) + b"a" * (1 << 20) + b"q\x00"
    + b"ctorch\nSize\nh\x00\x85R" * 1000 + b".",
}  # fmt: skip
for _name, _data in PICKLES.items():
    bomb("weights", _name)(lambda data=_data: {"x.pdparams": b"\x80\x02" + data})


def torch_zip(pickled: bytes, storage: bytes, kind: int = zipfile.ZIP_DEFLATED) -> dict[str, bytes]:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/data/a", storage)
    return {"x.pt": file.getvalue()}


def tensor_pickle(count: int, kind: bytes = b"Float", shape: bytes | None = None) -> bytes:
    """A tensor of `count` elements in storage a, of that shape."""
    number = b"\x8a\x08" + struct.pack("<q", count)
    storage = b"(X\x07\0\0\0storagectorch\n" + kind + b"Storage\nX\x01\0\0\0aX\x03\0\0\0cpu" + number + b"tQ"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\0" + (shape or number + b"\x85") + b"K\x01\x85tR"


@bomb("weights", "a deflated torch zip")
def deflated() -> dict[str, bytes]:
    return torch_zip(b"\x80\x02}X\x01\0\0\0a" + tensor_pickle(100 << 20) + b"s.", bytes(400 << 20))


@bomb("weights", "one half-precision tensor under 100,000 names")
def widened() -> dict[str, bytes]:
    names = b"".join(b"X\x05\0\0\0%05dh\x00s" % i for i in range(100_000))
    return torch_zip(b"\x80\x02}" + tensor_pickle(1 << 20, b"Half") + b"q\x000" + names + b".", bytes(2 << 20))


def hdf5(fill: Callable[[Any], object]) -> bytes:
    """An HDF5 file that h5py fills."""
    import h5py

    file = io.BytesIO()
    with h5py.File(file, "w") as opened:
        fill(opened)
    return file.getvalue()


@bomb("keras", "a chunk of zeros of 400 MB")
def zeros_in_a_chunk() -> dict[str, bytes]:
    size = 100 << 20
    packed = zlib.compressobj(9)
    raw = b"".join(packed.compress(bytes(1 << 20)) for _ in range(400)) + packed.flush()

    def fill(file: Any) -> None:
        made = file.create_dataset("a", (size,), "f4", chunks=(size,), compression="gzip")
        made.id.write_direct_chunk((0,), raw)

    return {"x.h5": hdf5(fill)}


@bomb("keras", "one tensor under 5,000 names")
def named_again() -> dict[str, bytes]:
    def fill(file: Any) -> None:
        file["a"] = [1.0] * 100_000
        for i in range(5000):
            file[f"b{i}"] = file["a"]

    return {"x.h5": hdf5(fill)}


@bomb("keras", "a .keras file of zeros")
def zipped_zeros() -> dict[str, bytes]:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.weights.h5", bytes(400 << 20))
    return {"x.keras": file.getvalue()}


@bomb("weights", "a shape of tuples that are multiplied")
def multiplied() -> dict[str, bytes]:
    shape = b"((K\x01tJ\xff\xff\xff\x7ft"
    return torch_zip(b"\x80\x02}X\x01\0\0\0a" + tensor_pickle(1, shape=shape) + b"s.", bytes(4))


# -- zips of data sets
def zip_of(content: bytes) -> bytearray:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", content)
    return bytearray(file.getvalue())


def with_directory(data: bytearray, offset: int, kind: str, value: int) -> dict[str, bytes]:
    """A zip whose directory says something else about its file."""
    at = data.rindex(b"PK\x01\x02")
    struct.pack_into("<" + kind, data, at + offset, value)
    return {"x.zip": bytes(data)}


bomb("source", "a zip that inflates to 2 GB")(lambda: with_directory(zip_of(bytes(64 << 20)), 24, "I", 2**31))
bomb("source", "a zip that lies about its size")(lambda: with_directory(zip_of(bytes(256 << 20)), 24, "I", 100))
bomb("source", "a zip that lies about its packed size")(lambda: with_directory(zip_of(b"a"), 20, "I", 2**31))


@bomb("source", "a zip with a negative offset")
def negative_offset() -> dict[str, bytes]:
    data = zip_of(b"a")
    end = data.rindex(b"PK\x05\x06")
    struct.pack_into("<I", data, end + 16, struct.unpack_from("<I", data, end + 16)[0] + 40)
    return {"x.zip": bytes(data)}


@bomb("source", "a zip whose directory begins before the file")
def negative_directory() -> dict[str, bytes]:
    data = zip_of(b"a")
    struct.pack_into("<I", data, data.rindex(b"PK\x05\x06") + 12, 5000)
    return {"x.zip": bytes(data)}


# -- programs
def program(operations: list[dict[str, Any]], **more: Any) -> dict[str, bytes]:
    from safetensors.numpy import save

    data = {
        "format": 1, "inputs": [{"id": 0, "shape": [1], "dtype": "float32", "name": "x"}], "states": [],
        "constants": [], "operations": operations, "results": [], "updates": [], "shape_reads": [],
    }  # fmt: skip
    return {"program.json": json.dumps(data | more).encode(), "weights.safetensors": save({})}


def operation(name: str, inputs: list[int], outputs: list[int], **attrs: Any) -> dict[str, Any]:
    return {"op": name, "inputs": inputs, "outputs": outputs, "attrs": attrs, "where": ""}


@bomb("native", "200 GB by many operations that are each allowed")
@bomb("program", "200 GB by many operations that are each allowed")
def many() -> dict[str, bytes]:
    pads = [operation("pad", [0], [i], pads=[0, (1 << 28) - 2]) for i in range(1, 200)]
    return program(pads, results=list(range(1, 200)))


def block(shape: list[int], operations: list[dict[str, Any]], results: list[int]) -> dict[str, Any]:
    inputs = [{"id": 0, "shape": shape, "dtype": "float32", "name": ""}]
    return {
        "format": 1, "inputs": inputs, "states": [], "constants": [], "operations": operations, "results": results,
        "updates": [], "shape_reads": [],
    }  # fmt: skip


@bomb("native", "a loop without an end")
@bomb("program", "a loop without an end")
def endless() -> dict[str, bytes]:
    compare = [operation("equal", [0, 0], [1])]
    loop = operation("loop", [0], [1], carried=1, max_iterations=2**62, must_end=False)
    loop["blocks"] = [block([1], compare, [1]), block([1], [operation("neg", [0], [1])], [1])]
    return program([loop], results=[1])


bomb("native", "lists in lists")(lambda: {"program.json": b"[" * 1_000_000})
bomb("native", "a list of 20 million numbers")(lambda: {"program.json": b"[" + b"0," * 20_000_000 + b"0]"})
bomb("native", "terabytes of text")(lambda: {"program.json": HUGE})


# -- ONNX
def onnx_model(nodes: list[Any], functions: list[Any] = [], output: str = "y") -> dict[str, bytes]:  # noqa: B006
    from onnx import helper

    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", 1, [1])], [value(output, 1, [1])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    return {"x.onnx": helper.make_model(graph, functions=functions, opset_imports=opsets).SerializeToString()}


@bomb("onnx", "functions that call each other twice")
def laughs() -> dict[str, bytes]:
    from onnx import helper

    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    functions = [helper.make_function("my", "F0", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], opsets)]
    for level in range(1, 30):
        calls = [
            helper.make_node(f"F{level - 1}", ["a"], ["c"], domain="my"),
            helper.make_node(f"F{level - 1}", ["c"], ["b"], domain="my"),
        ]
        functions.append(helper.make_function("my", f"F{level}", ["a"], ["b"], calls, opsets))
    return onnx_model([helper.make_node("F29", ["x"], ["y"], domain="my")], functions)


def chain_of(count: int, last: str) -> dict[str, bytes]:
    """Nodes one behind the other, and one more that reads `last`."""
    from onnx import helper

    names = ["x", *(f"v{i}" for i in range(count))]
    nodes = [helper.make_node("Neg", [a], [b]) for a, b in itertools.pairwise(names)]
    return onnx_model([*nodes, helper.make_node("Neg", [last], ["y"])])


@bomb("tflite", "10,000 operators of one place with 100,000 inputs")
def shared_operators() -> dict[str, bytes]:
    import numpy as np

    from tests.framework.tflite.models import Scalar, Shared, flatbuffer

    tensor = {0: np.array([4], np.int32), 1: Scalar("b", 0), 3: "x"}
    node = {0: Scalar("I", 0), 1: np.zeros(100_000, np.int32), 2: np.ones(1, np.int32)}
    graph = {0: [tensor, tensor], 1: np.zeros(1, np.int32), 2: np.ones(1, np.int32), 3: Shared(node, 10_000)}
    return {"x.tflite": flatbuffer({0: Scalar("I", 3), 1: [{0: Scalar("b", 101)}], 2: [graph], 4: [{}]})}


@bomb("tflite", "a constant of a terabyte")
def large_fill() -> dict[str, bytes]:
    import numpy as np

    from tests.framework.tflite.models import single

    return {"x.tflite": single("FILL", [np.full(2, 2**20, np.int32), np.array(1.0, np.float32)], [1, 1])}


bomb("onnx", "50,000 nodes, the last of which is wrong")(lambda: chain_of(50_000, "nothing"))


# -- configs
def doubling(write: Callable[[int], str], last: str, levels: int = 40) -> dict[str, bytes]:
    return {"x.yml": "\n".join([*(write(i) for i in range(levels)), f"a{levels}: {last}", ""]).encode()}


bomb("config", "mappings that double")(
    lambda: doubling(lambda i: f"a{i}: {{l: '${{a{i + 1}}}', r: '${{a{i + 1}}}'}}", "1")
)
bomb("config", "texts that double")(lambda: doubling(lambda i: f"a{i}: ${{a{i + 1}}}${{a{i + 1}}}", "text"))
bomb("config", "a thousand references in a row")(lambda: doubling(lambda i: f"a{i}: ${{a{i + 1}}}", "1", 2000))
bomb("config", "brackets in brackets")(lambda: {"x.yml": b"a: " + b"[" * 100_000})
