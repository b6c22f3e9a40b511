"""Bombs among data sets: annotations, logs, Parquet, records, videos, tables, vocabularies, and files that are huge."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import struct
import tempfile
import zlib
from pathlib import Path

from tests.bombs.core import bomb, reader
from tests.bombs.files import HUGE, png

DEEP = 200_000  # brackets in each other

# -- annotations of pictures; the first file lies in the root of the set
LAUGHS = "".join(f'<!ENTITY l{i + 1} "{f"&l{i};" * 10}">' for i in range(12))
BILLION = f'<?xml version="1.0"?><!DOCTYPE annotation [<!ENTITY l0 "ha">{LAUGHS}]><annotation>&l12;</annotation>'
DOUBLED_NAMES = (
    "n0: &n0 [cell]\n" + "".join(f"n{i + 1}: &n{i + 1} [{f'*n{i}, ' * 10}]\n" for i in range(12)) + "names: *n12\n"
)
SMALL = png(4, 4)


@reader("voc")
def read_voc(path: Path) -> object:
    from suites.detection.datasets import VocDetection

    return VocDetection(path.parent)


@reader("coco")
def read_coco(path: Path) -> object:
    from suites.detection.datasets import CocoDetection

    return CocoDetection(path, path.parent)


@reader("labelme")
def read_labelme(path: Path) -> object:
    from suites.detection.datasets import LabelmeDetection

    return LabelmeDetection(path.parent)


@reader("yolo")
def read_yolo(path: Path) -> object:
    from suites.detection.datasets import YoloDetection

    return YoloDetection(path.parent)


def voc(annotation: bytes | int) -> dict[str, bytes | int]:
    return {"labels.txt": b"cell\n", "Annotations/a.xml": annotation, "JPEGImages/a.png": SMALL}


def yolo(labels: bytes | int, classes: bytes | int = b"cell\n") -> dict[str, bytes | int]:
    return {"classes.txt": classes, "images/a.png": SMALL, "labels/a.txt": labels}


bomb("voc", "a billion laughs")(lambda: voc(BILLION.encode()))
bomb("voc", "elements in elements")(lambda: voc(b"<annotation>" + b"<object>" * DEEP))
bomb("voc", "an annotation of a terabyte")(lambda: voc(HUGE))
bomb("voc", "classes of a terabyte")(lambda: {**voc(b"<annotation/>"), "labels.txt": HUGE})
bomb("coco", "brackets in brackets")(lambda: {"x.json": b'{"images": ' + b"[" * DEEP})
bomb("coco", "annotations of a terabyte")(lambda: {"x.json": HUGE})
bomb("coco", "a number of a million digits")(lambda: {"x.json": b'{"images": [], "annotations": ' + b"9" * (1 << 20)})
bomb("labelme", "brackets in brackets")(lambda: {"a.json": b'{"shapes": ' + b"[" * DEEP, "a.png": SMALL})
bomb("labelme", "a document of a terabyte")(lambda: {"a.json": HUGE, "a.png": SMALL})
bomb("yolo", "labels of a terabyte")(lambda: yolo(HUGE))
bomb("yolo", "classes of a terabyte")(lambda: yolo(b"0 0.5 0.5 0.1 0.1\n", HUGE))
bomb("yolo", "names of names of names")(
    lambda: {"data.yaml": DOUBLED_NAMES.encode(), "images/a.png": SMALL, "labels/a.txt": b"0 0.5 0.5 0.1 0.1\n"}
)
bomb("yolo", "a picture of terabytes")(
    lambda: {**yolo(b"0 0.5 0.5 0.1 0.1\n"), "images/a.png": png(1, 1)[:16] + struct.pack(">II", 1 << 30, 1 << 30)}
)


# -- click logs
SCHEMA = {
    "columns": ["label", "id"],
    "sparse": [{"name": "id", "column": 1, "slot": 1}],
    "labels": [{"name": "label", "column": 0}],
}


@reader("log")
def read_log(path: Path) -> object:
    from framework.data.logs import LogReader

    with LogReader(path, SCHEMA, 1000) as log:
        return sum(len(batch["labels"]) for batch in log)


def squeezed(data: bytes, times: int) -> bytes:
    """A gzip of `times` copies of `data`."""
    machine = zlib.compressobj(1, wbits=31)
    return b"".join(machine.compress(data) for _ in range(times)) + machine.flush()


def zstandard(data: bytes, times: int) -> bytes:
    from backports import zstd

    machine = zstd.ZstdCompressor(level=1)
    return b"".join(machine.compress(data) for _ in range(times)) + machine.flush()


bomb("log", "a line of a terabyte")(lambda: {"x.tsv": HUGE})
bomb("log", "a gzip of one line of 1 GB")(lambda: {"x.tsv.gz": squeezed(bytes(16 << 20), 64)})
bomb("log", "a zstd of one line of 4 GB")(lambda: {"x.tsv.zst": zstandard(bytes(64 << 20), 64)})
bomb("log", "a gzip in a gzip")(lambda: {"x.tsv.gz": gzip.compress(squeezed(bytes(1 << 20), 64))})


@reader("parquet")
def read_parquet(path: Path) -> object:
    from framework.data.logs import LogReader

    with LogReader(path, SCHEMA | {"kind": "parquet"}, 1000) as log:
        return next(iter(log))


def parquet(rows: int) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"label": pa.array([0]).take(pa.array([0] * 1000)), "id": pa.array(["a" * 1000] * 1000)})
    file = io.BytesIO()
    pq.write_table(pa.concat_tables([table] * (rows // 1000)), file, row_group_size=rows, compression="zstd")
    return file.getvalue()


@bomb("parquet", "a footer of 2 GB")
def footer() -> dict[str, bytes | int]:
    return {"x.parquet": b"PAR1" + bytes(100) + struct.pack("<I", (1 << 31) - 1) + b"PAR1"}


bomb("parquet", "a file of a terabyte")(lambda: {"x.parquet": HUGE})
bomb("parquet", "a row group that grows to 2 GB of text")(lambda: {"x.parquet": parquet(2_000_000)})


# -- videos and records
@reader("video")
def read_film(path: Path) -> object:
    import numpy as np

    from suites.video.reading import read_video

    return read_video(path, lambda count: np.arange(min(count, 8)))


def box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", 8 + len(content)) + kind + content


bomb("video", "a file of a terabyte")(lambda: {"x.mp4": HUGE})
bomb("video", "boxes in boxes")(lambda: {"x.mp4": _nested_boxes()})
bomb("video", "a playlist of other files")(lambda: {"x.mp4": b"#EXTM3U\n#EXTINF:9,\nfile:///dev/zero\n" * 1000})
bomb("video", "an index of four billion samples")(
    lambda: {"x.mp4": box(b"ftyp", b"isom" + bytes(4)) + box(b"moov", box(b"trak", box(b"mdia", _minf())))}
)


def _nested_boxes() -> bytes:
    found = b""
    for _ in range(2000):
        found = box(b"moov", found)
    return box(b"ftyp", b"isom" + bytes(4)) + found


def _minf() -> bytes:
    many = struct.pack(">IIII", 0, 0xFFFFFFF0, 0, 0)
    tables = box(b"stts", many) + box(b"stsz", many) + box(b"stsc", many) + box(b"co64", many)
    return box(b"minf", box(b"stbl", tables))


@reader("record")
def read_records(path: Path) -> object:
    from suites.video.datasets.tfrecord import read_sequence_example, record_places

    data = path.read_bytes() if path.stat().st_size < HUGE else b""
    return [read_sequence_example(data[begin : begin + length]) for begin, length in record_places(path).tolist()]


def record(data: bytes, length: int | None = None) -> bytes:
    from suites.video.datasets.tfrecord import masked_crc32c

    header = struct.pack("<Q", len(data) if length is None else length)
    return header + struct.pack("<I", masked_crc32c(header)) + data + struct.pack("<I", masked_crc32c(data))


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


bomb("record", "a record of 2^60 bytes")(lambda: {"x.tfrecord": record(b"", 1 << 60)})
bomb("record", "a file of a terabyte")(lambda: {"x.tfrecord": HUGE})
bomb("record", "a field of 2^60 bytes")(lambda: {"x.tfrecord": record(b"\x0a" + varint(1 << 60) + b"ab")})
bomb("record", "a number without an end")(lambda: {"x.tfrecord": record(b"\x08" + b"\xff" * (1 << 20))})


# -- tables
@reader("table")
def read_table(path: Path) -> object:
    from framework.table import Table, TableSnapshot

    return TableSnapshot.open(path) if path.suffix == ".base" else Table.open(path.parent)


def snapshot(**changes: int) -> bytes:
    """A snapshot whose header says something else."""
    import numpy as np

    from framework.table import SGD, Table, Zeros

    with tempfile.TemporaryDirectory() as folder:
        table = Table(2, rule=SGD(), init=Zeros())
        table.update(np.arange(10), np.ones((10, 2), np.float32))
        table.snapshot(Path(folder) / "x.base")
        data = (Path(folder) / "x.base").read_bytes()
    magic, number, length, _ = PREFIX.unpack_from(data)
    told, rest = json.loads(data[PREFIX.size : PREFIX.size + length]) | changes, data[PREFIX.size + length :]
    text = b""
    while told["bytes"] != PREFIX.size + len(text) + len(rest):  # so that its size at least is right
        told["bytes"] = PREFIX.size + len(text) + len(rest)
        text = json.dumps(told).encode()
    return PREFIX.pack(magic, number, len(text), hashlib.sha256(text).digest()) + text + rest


def headed(text: bytes) -> bytes:
    """A snapshot of this header alone, whose digest is right."""
    return PREFIX.pack(b"PADTABLE", 1, len(text), hashlib.sha256(text).digest()) + text


PREFIX = struct.Struct("<8sII32s")
MANY = 1 << 61
bomb("table", "a snapshot of 2^61 rows")(lambda: {"x.base": snapshot(rows=MANY)})
bomb("table", "a snapshot of rows of 2^61 numbers")(lambda: {"x.base": snapshot(dim=MANY)})
bomb("table", "a snapshot of 2^61 slots")(lambda: {"x.base": snapshot(slots=MANY)})
bomb("table", "a snapshot of a terabyte of zeros")(lambda: {"x.base": HUGE})
bomb("table", "a header of brackets")(lambda: {"x.base": headed(b"[" * 60_000)})
bomb("table", "a header of 4 GB")(lambda: {"x.base": PREFIX.pack(b"PADTABLE", 1, 0xFFFFFFFF, bytes(32)) + bytes(100)})
bomb("table", "a manifest of brackets")(lambda: {"table.json": b"[" * DEEP})
bomb("table", "a manifest of a terabyte")(lambda: {"table.json": HUGE})


# -- vocabularies
@reader("vocabulary")
def read_tokenizer(path: Path) -> object:
    from suites.nlp.tokenizers import BertTokenizer, RobertaTokenizer, SentencePieceTokenizer
    from suites.nlp.tokenizers.folders import tokenizer_of

    if path.name == "tokenizer.json":
        return tokenizer_of(path.parent)
    if path.suffix == ".json":
        return RobertaTokenizer(str(path), str(path.with_name("merges.txt")))
    return BertTokenizer(str(path)) if path.suffix == ".txt" else SentencePieceTokenizer(str(path))


bomb("vocabulary", "words of a terabyte")(lambda: {"vocab.txt": HUGE})
bomb("vocabulary", "a model of a terabyte")(lambda: {"x.model": HUGE})
bomb("vocabulary", "numbers of a terabyte")(lambda: {"vocab.json": HUGE, "merges.txt": b""})
bomb("vocabulary", "a token whose number is 2^60")(lambda: {"vocab.json": b'{"a": %d}' % (1 << 60), "merges.txt": b""})
bomb("vocabulary", "brackets in brackets")(lambda: {"vocab.json": b"[" * DEEP, "merges.txt": b""})


# -- files whose readers have other bombs too
bomb("image", "a file of a terabyte")(lambda: {"x.png": HUGE})
bomb("config", "a file of a terabyte")(lambda: {"x.yml": HUGE})
bomb("config", "fifty megabytes of small values")(lambda: {"x.yml": b"a: [" + b"{b: 1}, " * 6_000_000 + b"]"})


def tfjs(shape: list[int], groups: int = 1) -> bytes:
    """A manifest of groups with one tensor in 8 bits and one and the same file each."""
    weights = [{"name": "a", "shape": shape, "dtype": "uint8"}]
    return json.dumps([{"paths": ["x.bin"], "weights": weights}] * groups).encode()


bomb("weights", "a safetensors file of a terabyte")(lambda: {"x.safetensors": HUGE})
bomb("keras", "an HDF5 file of a terabyte")(lambda: {"x.h5": HUGE})
bomb("weights", "a header of a safetensors file of 2^60 bytes")(
    lambda: {"x.safetensors": struct.pack("<Q", 1 << 60) + b"{}"}
)
bomb("weights", "darknet's numbers of a terabyte")(
    lambda: {"x.weights": HUGE, "x.cfg": b"[net]\nchannels=3\n[convolutional]\nfilters=8\nsize=3\n"}
)
bomb("weights", "a darknet network of 2^60 filters")(
    lambda: {"x.weights": bytes(100), "x.cfg": b"[net]\nchannels=3\n[convolutional]\nfilters=%d\nsize=3\n" % (1 << 60)}
)
bomb("weights", "a TensorFlow.js tensor of a terabyte")(lambda: {"x.json": tfjs([1 << 40]), "x.bin": HUGE})
bomb("weights", "a TensorFlow.js tensor of 2^78 numbers")(lambda: {"x.json": tfjs([1 << 39] * 2), "x.bin": bytes(100)})
bomb("weights", "one file of TensorFlow.js for 100,000 groups")(
    lambda: {"x.json": tfjs([1 << 20], 100_000), "x.bin": bytes(1 << 20)}
)
bomb("program", "a program.json of a terabyte")(lambda: {"program.json": HUGE, "weights.safetensors": b""})
bomb("onnx", "a model of a terabyte")(lambda: {"x.onnx": HUGE})
