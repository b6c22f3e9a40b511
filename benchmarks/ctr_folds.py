#!/usr/bin/env python3
"""Cross-validation of a CTR config over all rows of its files: sets too small for one test part to decide anything.

    python benchmarks/ctr_folds.py ctr/deepfm_criteo [-o data.root=FILE]

Fold k is tested on the rows whose number modulo `--folds` is k and trained on all others, to the config's end: the test
rows choose nothing. Prints the mean AUC of the folds with its standard deviation, and the AUC of all rows together,
each scored by the fold that did not see it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from common import find_real_data

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from framework import from_numpy, no_grad
from suites.ctr.metrics import auc, log_loss
from suites.engine.config.building import read_config
from suites.engine.config.tree.shipped import find_config
from suites.engine.train.training import train


def fold_overrides(config: Path, overrides: list[str], fold: int, folds: int) -> list[str]:
    """What makes the config train on all rows but those of a fold, and evaluate on these."""
    plain = read_config(config, overrides).as_dict()["data"]
    files = plain["train"]["dataset"]["files"] + plain["eval"]["dataset"]["files"]
    files += [name for part in plain.get("more_eval", {}).values() for name in part["dataset"]["files"]]
    names = json.dumps(list(dict.fromkeys(files)))
    parts = {"train": [k for k in range(folds) if k != fold], "eval": [fold]}
    rows = {part: json.dumps({"type": "EveryNth", "of": folds, "keep": keep}) for part, keep in parts.items()}
    found = [f"data.{part}.dataset.{key}" for part in parts for key in (f"files={names}", f"rows={rows[part]}")]
    found += [f"data.{part}.dataset.split=$delete" for part in parts if "split" in plain[part]["dataset"]]
    return [*overrides, *found, "data.more_eval=$delete", "runtime.evaluation.every=0", "runtime.evaluation.pictures=0"]


def run_fold(config: Path, overrides: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Scores and labels of the fold's test rows, [n] each, after the last step."""
    with tempfile.TemporaryDirectory() as folder:
        task = train(config, overrides, runs=Path(folder), name="fold").task
        task.model.eval()
        scores, labels = [], []
        with task.eval_loader(workers=0) as batches, no_grad():
            for batch in batches:
                outputs = task.eval_step({name: from_numpy(batch[name]) for name in task.eval_inputs})
                scores.append(outputs["scores"].numpy()[:, 0].copy())
                labels.append(batch["labels"][:, 0])
        return np.concatenate(scores), np.concatenate(labels)


def main(words: list[str] | None = None) -> dict[str, object]:
    """Run all folds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("-o", dest="overrides", action="append", default=[], metavar="PATH=VALUE")
    a = parser.parse_args(words)
    find_real_data()
    config = find_config(a.config)
    scores, labels, each = [], [], []
    for fold in range(a.folds):
        found, truth = run_fold(config, fold_overrides(config, a.overrides, fold, a.folds))
        scores.append(found)
        labels.append(truth)
        each.append(auc(found, truth))
    together = np.concatenate(scores), np.concatenate(labels)
    figures = {
        "config": str(a.config),
        "folds": [round(value, 4) for value in each],
        "mean": round(float(np.mean(each)), 4),
        "deviation": round(float(np.std(each, ddof=1)), 4),
        "together": round(auc(*together), 4),
        "log_loss": round(log_loss(*together), 4),
        "rows": len(together[0]),
    }
    print(json.dumps(figures))
    return figures


if __name__ == "__main__":
    main()
