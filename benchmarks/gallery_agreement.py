#!/usr/bin/env python3
"""Claim: a run and its exports in float32 find the same in a gallery, exports in 8 bits find three of four first.

    python benchmarks/gallery_agreement.py MODEL [MODEL ...] --gallery FOLDER --query FOLDER

MODELs are runs, exports or ONNX files of one run; the first one is what the others are compared with. FOLDERs have a
folder of pictures for each class. Printed are the share of queries whose nearest picture is of their class (recall@1),
the share whose nearest picture is that of the first MODEL, and the cosine of a picture's vectors with its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from common import ROOT

sys.path.insert(0, str(ROOT))

from suites.engine.predict.gallery import Embedder


def vectors(embedder: Embedder, folder: str) -> tuple[np.ndarray, np.ndarray]:
    """Class of each picture, str [N], and its vector of length 1, float32 [N, D]."""
    skipped: list[str] = []
    rows = list(embedder.vectors([folder], skipped))
    if skipped:
        raise SystemExit(f"{folder}: {len(skipped)} pictures were left out, so models cannot be compared: {skipped[0]}")
    return np.array([Path(name).parent.name for name, _ in rows]), np.stack([vector for _, vector in rows])


def main(words: Sequence[str] | None = None) -> dict[tuple[str, str], tuple[float, float]]:
    """Print the table and return (recall@1, share of the same first) by (gallery's model, query's model)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--gallery", required=True, metavar="FOLDER")
    parser.add_argument("--query", required=True, metavar="FOLDER")
    a = parser.parse_args(words)
    found = {}
    for model in a.models:
        embedder = Embedder(model)
        found[str(model)] = vectors(embedder, a.gallery), vectors(embedder, a.query)
    (_, known), (_, asked) = found[str(a.models[0])]
    first = (asked @ known.T).argmax(axis=1)
    rates = {}
    print("| gallery | asked by | recall@1 | first as of the first model |\n| --- | --- | --- | --- |")
    for gallery, ((classes, rows), _) in found.items():
        for model, (_, (wanted, queries)) in found.items():
            nearest = (queries @ rows.T).argmax(axis=1)
            rate = float((classes[nearest] == wanted).mean()), float((nearest == first).mean())
            rates[gallery, model] = rate
            print(f"| {gallery} | {model} | {rate[0]:.3f} | {rate[1]:.3f} |", flush=True)
    for model, (_, (_, queries)) in found.items():
        cosines = (queries * asked).sum(axis=1)
        print(f"{model}: cosine with the first model's vectors {cosines.mean():.3f}, {cosines.min():.3f} at least")
    return rates


if __name__ == "__main__":
    main()
