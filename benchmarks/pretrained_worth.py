#!/usr/bin/env python3
"""Claim: from ImageNet's weights a tenth of the epochs gives more than random weights do.

    python benchmarks/pretrained_worth.py [groceries faces gestures] [--networks mobilenetv2 efficientnet_lite0]

Trains `classification/finetune_mobilenetv2` at 112 pixels, from published weights and from random ones with ten times
the epochs, and prints top-1 of both. Groceries have their own division. Of ORL's faces pictures 1 to 7 of a person are
for training; of a gesture's clip the second and the fifth frame, of a clip of the list for evaluation the third.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from common import real_data

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from suites.engine.train.training import train

CONFIG = Path("classification/finetune_mobilenetv2")
NETWORKS = {
    "mobilenetv2": [],
    "efficientnet_lite0": [
        "model.backbone.type=EfficientNetLite",
        "model.backbone.size=0",
        "model.pretrained=efficientnet_lite0_imagenet",
    ],
}
SHORT = [
    "data.train.transforms[crop].size=112",
    "data.eval.transforms[resize].size=128",
    "data.eval.transforms[crop].size=112",
    "runtime.least_steps=0",
    "runtime.early_stop=null",
    "runtime.workers=0",
    "runtime.evaluation.every=100",
]
Divided = Iterator[tuple[str, str, str]]  # part, class, name in the zip


def groceries(archive: zipfile.ZipFile) -> Divided:
    """Its own folders `train` and `test`."""
    for name in archive.namelist():
        if name.endswith(".jpg"):
            part, kind, _ = name.split("/")
            yield "train" if part == "train" else "val", kind, name


def faces(archive: zipfile.ZipFile) -> Divided:
    """`sN/1.png` to `sN/10.png` of person N."""
    for name in archive.namelist():
        if name.endswith(".png"):
            kind, file = name.split("/")[-2:]
            yield "train" if int(Path(file).stem) <= 7 else "val", kind, name


def gestures(archive: zipfile.ZipFile) -> Divided:
    """Folders of frames that train.txt and val.txt list with their class."""
    frames: dict[str, list[str]] = {}
    for name in sorted(archive.namelist()):
        if name.endswith(".jpg"):
            frames.setdefault(name.rpartition("/")[0], []).append(name)
    for part, chosen in (("train", slice(1, 5, 3)), ("val", slice(2, 3))):
        for line in archive.read(f"{part}.txt").decode().splitlines():
            clip, *_, kind = line.split()
            for name in frames[clip][chosen]:
                yield part, kind, name


SETS = {  # the zip, how it is divided, epochs from published weights
    "groceries": ("retrieval/grocery/grocery.zip", groceries, 4),
    "faces": ("faces/orl/orl.zip", faces, 6),
    "gestures": ("video/gesture_body/gesture_body.zip", gestures, 2),
}


def lay_out(name: str, folder: Path) -> int:
    """Writes a folder a class for both parts; how many classes there are."""
    place, divided, _ = SETS[name]
    with zipfile.ZipFile(real_data(place)) as archive:
        for part, kind, member in divided(archive):
            path = folder / part / kind / member.replace("/", "_")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(member))
    return len(list((folder / "train").iterdir()))


def top1(folder: Path, classes: int, network: str, epochs: int, random: bool) -> float:
    """Top-1 of a run's last evaluation."""
    sets = [
        f"data.{part}.dataset={{$replace: {{type: ImageFolder, root: {folder / where}}}}}"
        for part, where in (("train", "train"), ("eval", "val"))
    ]
    own = [f"data.num_classes={classes}", f"runtime.epochs={epochs}", *(["model.pretrained=null"] if random else [])]
    name = f"{network}_{'random' if random else 'imagenet'}"
    train(CONFIG, [*NETWORKS[network], *sets, *SHORT, *own], runs=folder / "runs", name=name)
    return float(json.loads((folder / "runs" / name / "metrics.json").read_text())["top1"])


def main(words: list[str] | None = None) -> None:
    """Train all pairs and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help="default: " + ", ".join(SETS))
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    a = parser.parse_args(words)
    for name in a.sets or SETS:
        if name not in SETS:
            parser.error(f"no set is called '{name}'; there are {', '.join(SETS)}")
        with tempfile.TemporaryDirectory() as folder:
            classes, epochs = lay_out(name, Path(folder)), SETS[name][2]
            for network in a.networks:
                found = top1(Path(folder), classes, network, epochs, False)
                without = top1(Path(folder), classes, network, 10 * epochs, True)
                print(json.dumps({"set": name, "network": network, "imagenet": found, "random": without}), flush=True)


if __name__ == "__main__":
    main()
