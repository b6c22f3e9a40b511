#!/usr/bin/env python3
"""Claim: MTCNN finds faces at 1.5 times the rate of facenet-pytorch, whose weights it has.

    paddock zoo fetch mtcnn
    scripts/stub_torchvision PYTHON
    LD_LIBRARY_PATH=... python benchmarks/mtcnn_vs_facenet.py --peer-python PYTHON [--rounds 3] [--threads 1] [--agree]

Each round finds the faces of the first 40 pictures of `mask_faces`, one after the other, letterboxed to 640 x 640
pixels before the clock starts; the first picture is seen once before. PYTHON has facenet-pytorch 2.6.0, and torchvision
for its suppression of overlapping boxes; how that loads beside a CPU's PyTorch says scripts/stub_torchvision.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from common import OURS, ROOT, Claim, Competitor, has_modules, real_data, run_claims

sys.path.insert(0, str(ROOT))

CASE, PEER, SIDE = "mtcnn_640", "facenet-pytorch", 640
Finder = Callable[[np.ndarray], np.ndarray]  # a picture uint8 RGB [640, 640, 3] to boxes [D, 4] in its pixels


def pictures(count: int) -> np.ndarray:
    """The first pictures of the set, uint8 RGB [N, 640, 640, 3], grey around them."""
    import cv2

    found = np.full((count, SIDE, SIDE, 3), 128, np.uint8)
    with zipfile.ZipFile(real_data("faces/mask_faces/mask_faces.zip")) as archive:
        names = sorted(n for n in archive.namelist() if n.lower().endswith((".jpg", ".jpeg", ".png")))
        for canvas, name in zip(found, names, strict=False):
            bgr = cv2.imdecode(np.frombuffer(archive.read(name), np.uint8), cv2.IMREAD_COLOR)
            assert bgr is not None, name
            image = bgr[..., ::-1]
            factor = SIDE / max(image.shape[:2])
            width, height = (min(SIDE, max(1, round(side * factor))) for side in image.shape[1::-1])
            scaled = cv2.resize(np.ascontiguousarray(image), (width, height), interpolation=cv2.INTER_AREA)
            canvas[:height, :width] = scaled
    return found


def ours(threads: int) -> Finder:
    """The record `mtcnn`, as `paddock infer mtcnn` opens it."""
    from framework import set_num_threads
    from suites import engine

    model = engine.load("mtcnn")
    set_num_threads(threads)
    return lambda picture: np.array([face["box"] for face in model(picture)[0].to_json()], np.float64).reshape(-1, 4)


def theirs(threads: int) -> Finder:
    """facenet-pytorch as it comes, with all faces of a picture, whose boxes end where the picture does."""
    import torch
    from facenet_pytorch import MTCNN

    torch.set_num_threads(threads)
    model = MTCNN(keep_all=True, device="cpu")

    def find(picture: np.ndarray) -> np.ndarray:
        boxes, _, _ = model.detect(picture, landmarks=True)
        return np.zeros((0, 4)) if boxes is None else np.clip(np.asarray(boxes, np.float64), 0, SIDE)

    return find


def run(a: argparse.Namespace) -> None:
    """Print the rate and the boxes of one side."""
    find, shown = {OURS: ours, PEER: theirs}[a.side](a.threads), np.load(a.file)
    find(shown[0])
    start = time.perf_counter()
    boxes = [find(picture) for picture in shown]
    rate = round(len(shown) / (time.perf_counter() - start), 3)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    found = {"case": CASE, "rate": rate, "unit": "pictures/s", "step_ms": round(1000 / rate, 1), "peak_rss_mb": memory}
    print(json.dumps(found | ({"boxes": [each.tolist() for each in boxes]} if a.agree else {})))


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """Both sides, which see the same file of pictures; a word where the peer is missing."""
    if a.file is None:
        a.folder = tempfile.TemporaryDirectory()
        a.file = f"{a.folder.name}/pictures.npy"
        np.save(a.file, pictures(a.pictures))
    shared = [case, "--threads", str(a.threads), "--file", a.file, *(["--agree"] if a.agree else []), "--side"]
    sides = [Competitor(OURS, [sys.executable, __file__, *shared, OURS])]
    if has_modules(a.peer_python, "facenet_pytorch", "torchvision"):
        return [*sides, Competitor(PEER, [a.peer_python, __file__, *shared, PEER])]
    print(f"left out: {PEER}; pip install --no-deps facenet-pytorch==2.6.0, and give --peer-python")
    return sides


def agree(case: str, a: argparse.Namespace) -> str:
    """How many faces both sides find, and how far their boxes are apart."""
    sides = [subprocess.run(each.command, capture_output=True, text=True, check=True) for each in competitors(case, a)]
    each: list[Any] = [json.loads(side.stdout.splitlines()[-1])["boxes"] for side in sides]
    if len(each) < 2:
        return f"{case}: nothing to compare with"
    apart, counts = 0.0, [sum(map(len, found)) for found in each]
    for one, two in zip(*each, strict=True):
        for box in one if two else ():
            apart = max(apart, float(np.abs(np.array(two) - box).max(axis=1).min()))
    return f"{case}: {counts[0]} faces and {counts[1]}; boxes at most {apart:.2g} pixels apart"


def add_pictures(parser: argparse.ArgumentParser) -> None:
    """The script's own options."""
    parser.add_argument("--pictures", type=int, default=40)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    parser.add_argument("--agree", action="store_true", help="compare the boxes in place of the times")


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results."""
    claims = [Claim(CASE, 1.5, 2.0)]
    return run_claims(
        "mtcnn_vs_facenet", __doc__, claims, competitors, run, words, baseline=PEER, options=add_pictures, agree=agree
    )


if __name__ == "__main__":
    main()
