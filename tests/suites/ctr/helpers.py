"""A small log with a known law, as a CSV file or as columns."""

from pathlib import Path

import numpy as np

from suites.ctr.schema import schema_of

SCHEMA = {
    "features": {
        "user": {"type": "Sparse"},
        "item": {"type": "Sparse"},
        "both": {"type": "Crossed", "of": ["user", "item"]},
        "tags": {"type": "MultiValued", "pooling": "mean"},
        "liked": {"type": "Sequence", "vocabulary": "item", "max_length": 4},
        "price": {"type": "Dense", "transform": "standard"},
    },
    "labels": {"click": {}},
    "group": "user",
    "time": "time",
}


def columns(rows=600, seed=0):
    """Users click items of their own parity, and the cheap ones."""
    rng = np.random.default_rng(seed)
    user, item = rng.integers(0, 12, rows), rng.integers(0, 20, rows)
    price = rng.exponential(10, rows)
    logit = np.where(user % 2 == item % 2, 1.5, -1.5) - 0.05 * price
    click = rng.random(rows) < 1 / (1 + np.exp(-logit))
    tags = ["|".join(f"t{t}" for t in rng.integers(0, 5, n)) for n in rng.integers(0, 4, rows)]
    liked = ["|".join(f"i{i}" for i in rng.integers(0, 20, n)) for n in rng.integers(0, 7, rows)]
    return {
        "user": [f"u{u}" for u in user],
        "item": [f"i{i}" for i in item],
        "tags": tags,
        "liked": liked,
        "price": [f"{p:.3f}" for p in price],
        "click": [str(int(c)) for c in click],
        "time": [str(t) for t in range(rows)],
    }


def schema(**changes):
    return schema_of({**SCHEMA, **changes})


def write_csv(path: Path, found=None):
    found = found or columns()
    lines = [",".join(found), *(",".join(row) for row in zip(*found.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path
