#!/usr/bin/env python3
"""Cross-validation of a detector over a set in VOC's layout without lists, too small for one test part to decide.

    python benchmarks/detection_folds.py detection/ssd300_mobilenetv2_voc --data detection/raccoon/raccoon.zip

Of the annotations in name order, every fifth is in the same fold; fold 0 is what `holdout: 5` keeps for val. Each fold
is trained on all other photos, to the config's end: the test photos choose nothing. Prints AP50 and AP of each fold,
their means and standard deviations.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from common import find_real_data, fold_figures, real_data

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from suites.engine.config.tree.shipped import find_config
from suites.engine.data.intake.naming import in_order
from suites.engine.train.training import train


def lay_out(archive: Path, folder: Path, folds: int) -> None:
    """Unpacks a zip of annotations and pictures, and writes the lists train0.txt, val0.txt, ... of the folds."""
    with zipfile.ZipFile(archive) as data:
        data.extractall(folder)
    stems = in_order(path.stem for path in folder.rglob("*.xml"))
    lists = folder / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    for fold in range(folds):
        test = {stem for at, stem in enumerate(stems) if at % folds == folds - 1 - fold}
        (lists / f"val{fold}.txt").write_text("".join(f"{stem}\n" for stem in stems if stem in test))
        (lists / f"train{fold}.txt").write_text("".join(f"{stem}\n" for stem in stems if stem not in test))


def fold_overrides(folder: Path, fold: int) -> list[str]:
    """What makes a config of VOC data train on all photos but those of a fold, and evaluate on these at the end."""
    splits = [f"data.train.dataset.split=train{fold}", f"data.eval.dataset.split=val{fold}"]
    only_last = ["runtime.evaluation.every=0", "runtime.evaluation.pictures=0"]
    return [f"data.root={folder}", "data.num_classes=auto", *splits, *only_last]


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Run all folds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--data", required=True, help="a zip below the folder of the real data sets")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--only", type=int, nargs="+", help="run these folds only")
    parser.add_argument("-o", dest="overrides", action="append", default=[], metavar="PATH=VALUE")
    a = parser.parse_args(words)
    find_real_data()
    if a.folds < 2:
        parser.error("--folds must be 2 or more")
    each: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        lay_out(real_data(a.data), folder / "photos", a.folds)
        for fold in a.only or range(a.folds):
            changes = [*fold_overrides(folder / "photos", fold), *a.overrides]
            train(find_config(a.config), changes, runs=folder, name=f"fold{fold}")
            found = json.loads((folder / f"fold{fold}" / "metrics.json").read_text())
            each[fold] = {name: found[name] for name in ("AP50", "AP")}
            print(json.dumps({"fold": fold, **each[fold]}), flush=True)
    figures = {name: fold_figures(a.config, {k: v[name] for k, v in each.items()}) for name in ("AP50", "AP")}
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
