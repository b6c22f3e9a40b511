#!/usr/bin/env python3
"""Cross-validation of a video config over all clips of its lists: sets too small for one test part to decide anything.

    python benchmarks/video_folds.py video/tsn_mobilenetv2_fight [--folds 5] [-o PATH=VALUE]

Fold 0 is tested on the clips of `data.eval`. Those of `data.train` are dealt out to the other folds, class by class.
Each fold is trained on all other clips, to the config's end: the test clips choose nothing. Prints top-1 of each fold,
their mean and standard deviation. Videos are decoded once, before, into folders of frames of short side `--short`,
since all folds read them again and again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import find_real_data, fold_figures

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from suites.engine.config import Config
from suites.engine.config.building import read_config
from suites.engine.config.tree.shipped import find_config
from suites.engine.train.training import train
from suites.video.datasets import VideoDataset
from suites.vision.augmentation.transforms import Resize
from suites.vision.pictures.images import write_image
from suites.vision.recognition.sample import LabelledClip

Row = tuple[str, int]  # a clip and its label


def deal(kept: Sequence[Row], rows: Sequence[Row], folds: int) -> list[list[Row]]:
    """The clips of each fold: `kept` are those of fold 0, `rows` go to the others in turns, class by class."""
    found: list[list[Row]] = [list(kept), *([] for _ in range(folds - 1))]
    seen: dict[int, int] = defaultdict(int)
    for row in rows:
        found[1 + seen[row[1]] % (folds - 1)].append(row)
        seen[row[1]] += 1
    return found


def lay_out(config: Config, folder: Path, folds: int, short: int) -> None:
    """Writes all clips as folders of frames, and the lists train0.txt, val0.txt, ... of the folds."""
    rows: dict[str, list[Row]] = {}
    counts: dict[str, int] = {}
    for part in ("eval", "train"):
        data: VideoDataset = config.build(f"data.{part}.dataset")
        names = [f"{part}/{at:05d}" for at in range(len(data))]
        for at, name in enumerate(names):
            counts[name] = _write_frames(data.frames(at, np.arange), folder / name, short)
        rows[part] = [(name, int(label)) for name, label in zip(names, data.labels, strict=True)]
        (folder / "classes.txt").write_text("\n".join(data.class_names))
    dealt = deal(rows["eval"], rows["train"], folds)
    for fold, test in enumerate(dealt):
        others = [row for at, other in enumerate(dealt) if at != fold for row in other]
        for name, chosen in (("val", test), ("train", others)):
            lines = [f"{clip} {counts[clip]} {label}\n" for clip, label in chosen]
            (folder / f"{name}{fold}.txt").write_text("".join(lines))


def _write_frames(frames: np.ndarray, folder: Path, short: int) -> int:
    scale = min(1.0, short / min(frames.shape[1:3]))
    height, width = (round(side * scale) for side in frames.shape[1:3])
    small = Resize([height, width], "area")(LabelledClip.of(frames), np.random.default_rng(0)).frames
    for at, frame in enumerate(small):
        write_image(folder / f"{at:04d}.jpg", frame)
    return len(small)


def fold_overrides(config: Config, folder: Path, fold: int) -> list[str]:
    """What makes the config train on all clips but those of a fold, and evaluate on these once, at the end."""
    found = []
    for part, name in (("train", "train"), ("eval", "val")):
        segments = json.dumps(config.as_dict()["data"][part]["dataset"].get("segments") or {})
        lists = {"annotations": f"{name}{fold}.txt", "classes": "classes.txt"}
        dataset = {"type": "FrameFolders", "root": str(folder), **lists}
        given = ", ".join(f"{key}: {json.dumps(value)}" for key, value in dataset.items())
        found.append(f"data.{part}.dataset={{{given}, segments: {segments}}}")
    return [*found, "runtime.evaluation.every=0", "runtime.evaluation.pictures=0"]


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Run all folds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--only", type=int, nargs="+", help="run these folds only")
    parser.add_argument("--short", type=int, default=128, help="short side of the frames that are kept (128)")
    parser.add_argument("-o", dest="overrides", action="append", default=[], metavar="PATH=VALUE")
    a = parser.parse_args(words)
    find_real_data()
    if a.folds < 2:
        parser.error("--folds must be 2 or more")
    path = find_config(a.config)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        config = read_config(path, a.overrides)
        lay_out(config, folder / "clips", a.folds, a.short)
        each = {}
        for fold in a.only or range(a.folds):
            changes = [*a.overrides, *fold_overrides(config, folder / "clips", fold)]
            train(path, changes, runs=folder, name=f"fold{fold}")
            each[fold] = json.loads((folder / f"fold{fold}" / "metrics.json").read_text())["top1"]
    figures = fold_figures(a.config, each)
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
