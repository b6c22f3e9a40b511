"""Whole files of every kind that strangers send, small and varied: what `tests.mutations` damages."""

from __future__ import annotations

import argparse
import collections
import io
import json
import pickle
import struct
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests import bombs

DATA = Path(__file__).parent / "suites/engine/weights/formats/data"
Files = dict[str, bytes]
RNG = np.random.default_rng(0)
STATE = {"a.weight": np.ones((2, 3), np.float32), "b": np.arange(4)}


def whole_files(kinds: Collection[str] = ()) -> Iterator[tuple[str, Files]]:
    """(kind of reader, files by name), of these kinds, by default of each maker once; others are not imported."""
    # The files of "native" are those of "program"; "tflite" and "keras" have tests of their own, and leave others their
    # numbers.
    wanted = kinds or MAKERS.keys() - {"native", "tflite", "keras"}
    yield from ((kind, files) for kind, made in MAKERS.items() if kind in wanted for files in made())


def archives() -> Iterator[Files]:
    """A zip of one member."""
    yield {"x.zip": bytes(bombs.zip_of(b"content " * 40))}


def configs() -> Iterator[Files]:
    """Keys that no suite takes, with references, and known ones; both lack what a config must have."""
    yield {"x.yml": b"suite: detection\na: {b: [1, 2, {id: x, v: 5e-4}], c: text}\nd: ${a.b[x].v}\ne: x${a.c}y\n"}
    known = (
        b"optimizer: {type: Momentum, momentum: 0.9}\nschedule: {type: Cosine, base_lr: 5.0e-4, reference_batch: 8}\n"
    )
    yield {"x.yml": b"suite: detection\n" + known + b"runtime: {epochs: 2, seed: '${schedule.reference_batch}'}\n"}


def pictures() -> Iterator[Files]:
    """Files of all kinds that are read, baseline and other TIFF, and headers of PNM with comments."""
    import cv2

    from suites.vision.pictures.images import encode_image
    from tests.suites.vision.pictures.tiffs import strips, tiles

    image = RNG.integers(0, 255, (9, 7, 3), np.uint8)
    for suffix in (".png", ".jpg", ".bmp", ".webp", ".tiff", ".ppm", ".gif"):
        yield {f"x{suffix}": encode_image(image, suffix)}
    yield {"x.jpg": cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])[1].tobytes()}
    yield {"x.tif": strips(np.dstack([image, image[..., :1]]), 2)}
    yield {"x.tif": strips(image.astype(np.uint16), order=">")}
    yield {"x.tif": tiles(image, (32, 32))}
    yield {"x.ppm": b"P3 #one\r# two\n 2\t1\n255\n1 2 3 4 5 6\n"}
    yield {"x.pgm": b"P5\n# " + b"c" * 40 + b"\n3 2 255\n" + bytes(6)}
    yield {"x.pgm": b"P1" + b" " * 40 + b"3 2 0 1 0 1 0 1\n"}


def weights() -> Iterator[Files]:
    """Files of PyTorch, Paddle, darknet, TensorFlow.js and safetensors, those of training scripts among them."""
    import ml_dtypes
    from safetensors.numpy import save

    for name in ("torch_zip.bin", "torch_legacy.bin"):
        yield {name: (DATA / name).read_bytes()}
    yield {"x.safetensors": save(STATE)}
    yield {"x.safetensors": save({"h": np.ones(3, ml_dtypes.bfloat16), "u": np.arange(3, dtype=np.uint16)}, {"a": "b"})}
    run = {"args": argparse.Namespace(lr=0.1), "best": np.float64(0.5), "seen": {1, 2}, "ema": {"module": STATE}}
    run["hooks"] = collections.defaultdict(list, a=[1])
    for protocol in (0, 2, 4, 5):
        yield {"x.pdparams": pickle.dumps({"model": STATE, **run}, protocol)}
    cfg = b"[net]\nwidth=32\nheight=32\nchannels=3\n[convolutional]\nbatch_normalize=1\nfilters=2\nsize=1\nstride=1\n"
    cfg += b"pad=1\nactivation=leaky\n[route]\nlayers=-1\n"
    yield {"x.weights": struct.pack("<iiiq", 0, 2, 0, 9) + np.ones(14, "<f4").tobytes(), "x.cfg": cfg}
    steps = {"dtype": "uint8", "scale": 0.5, "min": -3}
    lines = [{"name": "a", "shape": [2, 3], "dtype": "float32"}, {"name": "b/c", "shape": [], "dtype": "bool"}]
    lines += [{"name": kind, "shape": [5], "dtype": kind, "quantization": steps} for kind in ("float32", "int32")]
    manifest = [{"paths": ["s1.bin", "s2.bin"], "weights": lines}]
    shards = {"s1.bin": bytes(24), "s2.bin": bytes(range(11))}
    yield {"x-weights_manifest.json": json.dumps(manifest).encode(), **shards}
    yield {"model.json": json.dumps({"modelTopology": {}, "weightsManifest": manifest}).encode(), **shards}


def keras() -> Iterator[Files]:
    """Files of Keras: old groups and new ones, numbers in one piece, in the header and in chunks; in an archive."""
    import zipfile

    import h5py

    def layers(file: Any) -> None:
        file["layers/dense/vars/0"], file["layers/dense/vars/1"] = STATE["a.weight"], np.ones(3, ">f2")
        file["layers/dense"].attrs["name"] = "dense"
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_layout(h5py.h5d.COMPACT)
        made = h5py.h5d.create(file.id, b"c", h5py.h5t.STD_I64LE, h5py.h5s.create_simple((4,)), plan)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, STATE["b"])

    def chunks(file: Any) -> None:
        numbers = RNG.normal(size=(9, 7)).astype("f4")
        file.create_dataset("model_weights/a", data=numbers, chunks=(4, 3), compression="gzip", shuffle=True)
        for i in range(12):
            file[f"model_weights/b{i}"] = i
        file.attrs["layer_names"] = [b"a", b"b"]

    for name, fill, libver in (
        *(("x.weights.h5", layers, version) for version in ("earliest", "v108", "latest")),
        ("x.h5", chunks, "earliest"),
    ):
        file = io.BytesIO()
        with h5py.File(file, "w", libver=(libver, "latest" if libver == "earliest" else libver)) as opened:
            fill(opened)
        yield {name: file.getvalue()}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("config.json", "{}")
        opened.writestr("model.weights.h5", file.getvalue())
    yield {"x.keras": archive.getvalue()}


def models() -> Iterator[Files]:
    """ONNX files: a chain, pooling, a loop, shapes that are computed, old operators, sparse weights."""
    from onnx import helper

    from tests.framework.onnx.models import model, small_cnn

    def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> Any:
        return helper.make_node(op, inputs.split(), outputs.split(), **attributes)

    x = {"x": [1, 1, 5, 5]}
    integers = {"i": np.array([0, -1]), "n": np.array([2, 2]), "s": np.array([1, 1, 2, 2], np.float32)}
    yield bombs.chain_of(3, "v2")
    yield {"m.onnx": small_cnn(1).SerializeToString()}
    for nodes in (
        [node("AveragePool", "x", kernel_shape=[2, 2], pads=[1, 1, 1, 1], strides=[2, 2], ceil_mode=1)],
        [node("MaxPool", "x", "y z", kernel_shape=[3, 3], pads=[1, 1, 1, 1])],
        [node("Reshape", "x i")],
        [node("Upsample", "x s", mode="nearest")],
        [node("Shape", "x", "s1"), node("ConstantOfShape", "s1")],
        [node("Squeeze", "x", "q"), node("Einsum", "q q", equation="ij,jk->ik")],
        [node("Flatten", "x", "f"), node("Tile", "f n")],
        [node("Split", "x", "y z", axis=2), node("Pad", "x p", "w")],
        [node("DepthToSpace", "x", blocksize=1), node("LRN", "x", "z", size=3)],
    ):
        given = {**integers, "p": np.array([0, 0, 1, 1, 0, 0, 1, 1])}
        used = {name for n in nodes for name in n.input}
        opset = 9 if nodes[0].op_type == "Upsample" else 17
        made = model(nodes, x, ["y"], {name: a for name, a in given.items() if name in used}, opset)
        yield {"m.onnx": made.SerializeToString()}
    from tests.framework.onnx.test_hostile import gathering_loop

    yield {"m.onnx": gathering_loop(3, 5).SerializeToString()}


def tflite() -> Iterator[Files]:
    """TensorFlow Lite's files: half precision, 8 bits, sparse constants, shapes in constants."""
    from tests.framework.tflite.cases import CASES
    from tests.framework.tflite.models import small_eight, small_network
    from tests.framework.tflite.test_hostile import listed, rows, sparse

    yield {"m.tflite": small_network()}
    yield {"m.tflite": small_eight(signed=True)}
    yield {"m.tflite": small_eight(signed=False)}
    yield {"m.tflite": sparse([0, 1], [rows(3), listed([0, 1, 1, 3], [2, 0, 3])], [5, 6, 7])}
    for name in ("strided slice", "space to batch", "bilinear from the corner", "pad", "gather", "matrices", "tile"):
        yield {"m.tflite": CASES[name][0]}


def programs() -> Iterator[Files]:
    """program.json and its weights: an operator, a loop, one with weights and what an export adds."""
    import tempfile

    from framework import ops, program, tensor
    from framework.graph.files import save_program

    yield bombs.program([bombs.operation("pad", [0], [1], pads=[0, 3])], results=[1])
    yield bombs.endless()
    weight = tensor(np.ones((1, 3), np.float32))
    made = program(lambda x: ops.softmax(ops.relu(ops.matmul(ops.reshape(x, shape=[1, 1]), weight))))
    with tempfile.TemporaryDirectory() as folder:
        save_program(made.program_for(tensor([1.0])).program, folder, extra={"suite": "toy", "outputs": ["y"]})
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    yield {"program.json": files.pop("program.json"), **files}


def tokenizers() -> Iterator[Files]:
    """Vocabularies as words, and as JSON with merges."""
    yield {"vocab.txt": b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n"}
    names = ["<s>", "<pad>", "</s>", "<unk>", "a", "b", "ab", "<mask>"]
    numbers = {n: i for i, n in enumerate(names)}
    yield {"vocab.json": json.dumps(numbers).encode(), "merges.txt": b"#version: 0.2\na b\n"}
    pairs = {"type": "BPE", "dropout": None, "vocab": numbers, "merges": ["a b"], "byte_fallback": False}
    added = [{"id": 0, "content": "<s>", "special": True}]
    splitter = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    whole = {"added_tokens": added, "normalizer": None, "pre_tokenizer": splitter, "model": pairs}
    settings = {"tokenizer_class": "RobertaTokenizer", "bos_token": {"content": "<s>"}, "model_max_length": 512}
    yield _tokenizer(whole, settings)
    words = {n: i for i, n in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b"])}
    normalizer = {"type": "BertNormalizer", "clean_text": True, "lowercase": True, "strip_accents": None}
    model = {"type": "WordPiece", "unk_token": "[UNK]", "max_input_chars_per_word": 100, "vocab": words}
    whole = {"normalizer": normalizer, "pre_tokenizer": {"type": "BertPreTokenizer"}, "model": model}
    yield _tokenizer(whole, {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "cls_token": "[CLS]"})
    yield {"x.model": _pieces(("<unk>", 2), ("<s>", 3), ("</s>", 3), ("\u2581a", 1), ("b", 1))}


def _tokenizer(whole: dict[str, Any], settings: dict[str, Any]) -> Files:
    return {"tokenizer.json": json.dumps(whole).encode(), "tokenizer_config.json": json.dumps(settings).encode()}


def _pieces(*pieces: tuple[str, int]) -> bytes:
    """A SentencePiece model of (piece, kind), as protobuf."""
    varint, found = bombs.data.varint, b""
    for text, kind in pieces:
        piece = b"\x0a" + varint(len(text.encode())) + text.encode() + b"\x15" + struct.pack("<f", -1.0) + b"\x18"
        piece += varint(kind)
        found += b"\x0a" + varint(len(piece)) + piece
    return found


def logs() -> Iterator[Files]:
    """Click logs, plain and packed."""
    lines = b"1,abc\n0,\n1," + "\u00e4".encode() + b"\n0,7\r\n"
    yield {"x.csv": lines}
    yield {"x.csv.gz": bombs.data.squeezed(lines, 3)}
    yield {"x.csv.zst": bombs.data.zstandard(lines, 3)}


def parquets() -> Iterator[Files]:
    """Two columns, of texts, numbers and a dictionary, in two row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for ids in (pa.array(["a", None, "bc"]), pa.array([1, 2, 3]), pa.array(["a", "b", "a"]).dictionary_encode()):
        file = io.BytesIO()
        pq.write_table(pa.table({"label": pa.array([0, 1, 0]), "id": ids}), file, row_group_size=2)
        yield {"x.parquet": file.getvalue()}


def tables() -> Iterator[Files]:
    """A published table, and a saved one."""
    import tempfile

    from framework.table import SGD, Table, Zeros

    yield {"x.base": bombs.data.snapshot()}  # type: ignore[dict-item]
    with tempfile.TemporaryDirectory() as folder:
        table = Table(2, rule=SGD(), init=Zeros(), name="a")
        table.update(np.arange(10), np.ones((10, 2), np.float32))
        table.save(folder)
        files = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
    yield {"table.json": files.pop("table.json"), **files}


def films() -> Iterator[Files]:
    """Small videos in three containers."""
    import tempfile

    from tests.suites.video.helpers import video, write_video

    with tempfile.TemporaryDirectory() as folder:
        for name, codec in (("x.mp4", "libx264"), ("x.mkv", "libx264"), ("x.avi", "mjpeg")):
            yield {name: write_video(Path(folder) / name, video("left", 5), codec).read_bytes()}


def vocs() -> Iterator[Files]:
    """A picture with one box in XML."""
    box = b"<xmin>1</xmin><ymin>1</ymin><xmax>3</xmax><ymax>3</ymax>"
    thing = b"<object><name>cell</name><difficult>0</difficult><bndbox>" + box + b"</bndbox></object>"
    size = b"<size><width>4</width><height>4</height><depth>3</depth></size>"
    text = b'<?xml version="1.0"?><annotation><filename>a.png</filename>' + size + thing + b"</annotation>"
    yield bombs.data.voc(text)  # type: ignore[misc]


def cocos() -> Iterator[Files]:
    """A picture with two boxes, one of them with a polygon."""
    coco = {
        "images": [{"id": 1, "file_name": "a.png", "width": 4, "height": 4}],
        "categories": [{"id": 7, "name": "cell"}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 7, "bbox": [0, 1, 2, 2.5], "area": 5, "iscrowd": 0},
            {"id": 2, "image_id": 1, "category_id": 7, "bbox": [0, 0, 1, 1], "segmentation": [[0, 0, 1, 0, 1, 1]]},
        ],
    }
    yield {"x.json": json.dumps(coco).encode(), "a.png": bombs.data.SMALL}


def labelmes() -> Iterator[Files]:
    """A picture with one rectangle."""
    shape = {"label": "cell", "points": [[0, 0], [2, 3]], "shape_type": "rectangle", "group_id": None, "flags": {}}
    labels = {"version": "5", "shapes": [shape], "imagePath": "a.png", "imageWidth": 4, "imageHeight": 4}
    yield {"a.json": json.dumps(labels).encode(), "a.png": bombs.data.SMALL}


def yolos() -> Iterator[Files]:
    """A picture with two boxes, its classes in a list or in YAML."""
    rows = b"0 0.5 0.5 0.1 0.1\n0 0.25 0.5 0.5 0.2\n"
    yield bombs.data.yolo(rows)  # type: ignore[misc]
    names = b"path: .\ntrain: images\nnames: {0: cell, 1: dot}\nnc: 2\n"
    yield {"data.yaml": names, "images/a.png": bombs.data.SMALL, "labels/a.txt": rows}


def records() -> Iterator[Files]:
    """Two TFRecords, each a SequenceExample with a context and one list of two rows."""

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2]) + bombs.data.varint(len(data)) + data

    def entry(name: bytes, value: bytes) -> bytes:
        return field(1, field(1, name) + field(2, value))

    row = field(1, field(1, field(1, b"abc")))  # a Feature of a BytesList
    context = entry(b"labels", field(3, field(1, b"\x01\x02"))) + entry(b"id", field(1, field(1, b"x")))
    yield {"x.tfrecord": bombs.data.record(field(1, context) + field(2, entry(b"rgb", row + row))) * 2}


MAKERS: dict[str, Callable[[], Iterator[Files]]] = {
    "image": pictures,
    "weights": weights,
    "keras": keras,
    "onnx": models,
    "tflite": tflite,
    "native": programs,
    "program": programs,
    "source": archives,
    "config": configs,
    "vocabulary": tokenizers,
    "log": logs,
    "parquet": parquets,
    "table": tables,
    "video": films,
    "record": records,
    "voc": vocs,
    "coco": cocos,
    "labelme": labelmes,
    "yolo": yolos,
}
