"""Whole files of every kind that strangers send, small and varied: what `tests.mutations` damages."""

from __future__ import annotations

import argparse
import collections
import json
import pickle
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests import bombs

DATA = Path(__file__).parent / "suites/engine/weights/data"
Files = dict[str, bytes]
RNG = np.random.default_rng(0)
STATE = {"a.weight": np.ones((2, 3), np.float32), "b": np.arange(4)}


def whole_files() -> Iterator[tuple[str, Files]]:
    """(kind of reader, files by name)."""
    for kind, made in (("image", pictures), ("weights", weights), ("onnx", models), ("program", programs)):
        yield from ((kind, files) for files in made())
    yield "source", {"x.zip": bytes(bombs.zip_of(b"content " * 40))}
    yield "config", {"x.yml": b"a: {b: [1, 2, {id: x, v: 5e-4}], c: text}\nd: ${a.b[x].v}\ne: x${a.c}y\n"}
    yield from (("vocabulary", files) for files in tokenizers())


def pictures() -> Iterator[Files]:
    """Files of all kinds that are read, baseline and other TIFF, and headers of PNM with comments."""
    import cv2

    from suites.vision.images import encode_image
    from tests.suites.vision.tiffs import strips, tiles

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
    """Files of PyTorch, Paddle, darknet and safetensors, those of training scripts among them."""
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
    yield {
        "vocab.json": json.dumps({n: i for i, n in enumerate(names)}).encode(),
        "merges.txt": b"#version: 0.2\na b\n",
    }
