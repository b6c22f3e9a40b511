#!/usr/bin/env python3
"""Claim: every segmentation network learns 16 pieces of CamVid by heart, to mIoU 0.95, by its own config.

    python benchmarks/segmentation_overfit.py [NAME ...] [--steps 2400]

A piece is 32 x 32 pixels, shown at four times the size, as most networks' logits have stride 4 and a pole is a few
pixels wide. Fast-SCNN and PSPNet see it at eight times, ICNet at twelve: else a pixel of their finest maps is two of
the piece. The losses are those for rare classes. A network is done when it has the mIoU, which it is asked every 100
steps.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
from common import real_data

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from suites.engine.train.training import train
from suites.segmentation.datasets import ImageLabelPairs
from suites.segmentation.labels import encode_labels
from suites.vision.pictures.images import write_image

CONFIGS = Path(__file__).resolve().parents[1] / "configs" / "segmentation"
SIDE, COUNT, VOID, CLASSES = 32, 16, 11, 11
# How much larger each network sees the pieces.
TIMES = {"deeplabv3p_mobilenetv2": 4, "deeplabv3p_xception65": 4, "unet": 4, "pspnet_resnet50": 8,
         "pspnet_mobilenetv2": 8, "icnet_resnet50": 12, "hrnet_w18": 4, "fast_scnn": 8, "bisenetv2": 4}  # fmt: skip
LEAST = 0.95


def write_pieces(camvid: Path, root: Path, times: int) -> None:
    """Folders `images` and `labels` of 16 pieces in which three classes or more are."""
    names, palette = [str(k) for k in range(CLASSES)], [(k, k, k) for k in range(CLASSES)]
    whole = ImageLabelPairs(camvid, images="train", labels="trainannot", classes=names, ignore_labels=[VOID])
    rng, count = np.random.default_rng(0), 0
    (root / "labels").mkdir(parents=True)
    for index in range(0, len(whole), 3):
        sample = whole[index]
        y, x = (int(rng.integers(side - SIDE)) for side in sample.labels.shape)
        labels = sample.labels[y : y + SIDE, x : x + SIDE]
        if count == COUNT or len(np.unique(labels[labels != 255])) < 3 or (labels == 255).mean() > 0.2:
            continue
        image = cv2.resize(sample.image[y : y + SIDE, x : x + SIDE], (times * SIDE, times * SIDE))
        write_image(root / "images" / f"{count:02d}.png", image)
        labels = labels.repeat(times, axis=0).repeat(times, axis=1)
        (root / "labels" / f"{count:02d}.png").write_bytes(encode_labels(labels, palette))
        count += 1
    (root / "classes.txt").write_text("\n".join(names))


def overfitted(name: str, pieces: Path, steps: int, runs: Path) -> tuple[float, int]:
    """The mIoU on the pieces of a network that was trained on them, and its steps."""
    dataset = f"{{type: ImageLabelPairs, root: {pieces}, images: images, labels: labels}}"
    settings = [f"data.{part}.dataset={dataset}" for part in ("train", "eval")]
    settings += [f"data.{part}.transforms=[{{id: normalize, type: Normalize}}]" for part in ("train", "eval")]
    settings += ["losses=[{type: CrossEntropy, class_weights: inverse_log}, {type: Dice}]"]
    settings += ["data.train.batch_size=8", "runtime.epochs=$delete", f"runtime.steps={steps}", "runtime.ema=null"]
    settings += ["runtime.evaluation={every: 100, unit: steps, pictures: 0}", "runtime.workers=0"]
    settings += [f"runtime.early_stop={{patience: {steps}, target: {LEAST}}}", "schedule.warmup_steps=20"]
    train(CONFIGS / f"{name}_camvid.yml", settings, runs=runs, name=name)
    figures = json.loads((runs / name / "metrics.json").read_text())
    return figures["mIoU"], figures["step"]


def main(words: list[str] | None = None) -> int:
    """Train the networks named on the command line, print their mIoU and return 1 where one is below 0.95."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of " + ", ".join(TIMES))
    parser.add_argument("--steps", type=int, default=2400, help="at most (2400)")
    a = parser.parse_args(words)
    for name in a.names:
        if name not in TIMES:
            parser.error(f"no network is called {name!r}; there are {', '.join(TIMES)}")
    found = {}
    camvid = real_data("segmentation/camvid/camvid.zip")
    with tempfile.TemporaryDirectory() as folder:
        for times in set(TIMES.values()):
            write_pieces(camvid, Path(folder) / f"pieces{times}", times)
        for name in a.names or TIMES:
            found[name] = overfitted(name, Path(folder) / f"pieces{TIMES[name]}", a.steps, Path(folder))
            print("{}: mIoU {:.4f} after {} steps".format(name, *found[name]), flush=True)
    return int(min(value for value, _ in found.values()) < LEAST)


if __name__ == "__main__":
    sys.exit(main())
