"""Compares what two kinds of processors compute: steps of training, products in 8 bits and an export's answers.

    python -m tests.emulated.across FOLDER                              # first on x86-64, then
    scripts/aarch64 python -m tests.emulated.across FOLDER              # on the other, FOLDER as an absolute path

The first run makes the export and writes the numbers of each of its instruction sets to FOLDER; later ones compare with
those of x86-64's baseline and end with an error where they differ by more than instruction sets may: losses by 5e-4 of
their size (as in tests/tools/test_bench.py), scores by their last digit, 1e-5, whole numbers and what is rounded from
them not at all.
"""

from __future__ import annotations

import platform
import sys
from functools import partial
from pathlib import Path

import numpy as np

from framework import _core
from framework.ops import internal
from suites.engine.predict.inference import open_model
from suites.engine.predict.items import predict_items
from tests.framework.native.test_int8_products import product
from tests.smoke import WORDS, export, train_tiny
from tests.tools.test_bench import NETWORKS

TRAINED = ("resnet50", "deeplab", "yolov3_darknet")


def losses() -> dict[str, np.ndarray]:
    """Of two steps of each network."""
    found = {}
    for name in TRAINED:
        step, _ = NETWORKS[name]()
        found[f"loss {name}"] = np.array([float(step()) for _ in range(2)])
    return found


def eight_bits() -> dict[str, np.ndarray]:
    """Products and convolutions, by dot products of bytes, by wider ones and by transforms."""
    found = {}
    rng = np.random.default_rng(5)
    x = rng.integers(-128, 128, (2, 15, 13, 64)).astype(np.int8)
    for algorithm in ("auto", "widening"):
        for seed in range(12):
            found[f"bits product {seed} {algorithm}"] = internal.quantized_matmul(
                **product(seed), algorithm=algorithm
            ).numpy()
            found[f"bits product of words {seed} {algorithm}"] = internal.quantized_matmul(
                **product(seed, 32767), x_most=32767, algorithm=algorithm
            ).numpy()
        for groups in (1, 2, 64):
            weight = rng.integers(-128, 128, (64, 3, 3, 64 // groups)).astype(np.int8)
            found[f"bits convolution {groups} {algorithm}"] = internal.quantized_conv2d(
                x, weight, np.full(64, 1e-4, np.float32), padding=1, groups=groups, x_zero=3, dtype="int8",
                algorithm=algorithm,
            ).numpy()  # fmt: skip
            found[f"bits convolution of words {groups} {algorithm}"] = internal.quantized_conv2d(
                x.astype(np.float32), weight, np.full(64, 1e-4, np.float32), padding=1, groups=groups, x_scale=0.01,
                x_most=20000, dtype="float32", algorithm=algorithm,
            ).numpy()  # fmt: skip
    weight = rng.integers(-128, 128, (64, 3, 3, 64)).astype(np.int8)
    found["bits convolution by transforms"] = internal.quantized_conv2d(
        x, weight, np.full(64, 1e-4, np.float32), padding=1, x_zero=-9, dtype="int8", algorithm="winograd"
    ).numpy()
    return found


def answers(exported: Path) -> dict[str, np.ndarray]:
    """Scores of the exported classifier of texts."""
    model = open_model(exported)
    words = [model.processor.from_json(word) for words in WORDS for word in words.split()]
    rows = predict_items(model.processor, model.inputs, model.predict, words)
    return {"answer": np.array([list(row["scores"].values()) for row in rows])}


def difference(name: str, value: np.ndarray, wanted: np.ndarray) -> str | None:
    """What differs by more than it may."""
    if name.startswith("bits"):
        right = np.array_equal(value, wanted)
    elif name.startswith("loss"):  # the second step's weights come of the first one's roundings
        right = np.isclose(value[0], wanted[0], rtol=5e-4, atol=0) and bool(np.isfinite(value).all())
    else:
        right = np.allclose(value, wanted, rtol=0, atol=1.01e-5)
    return None if right else f"{name}: {value.ravel()[:4]}, wanted {wanted.ravel()[:4]}"


def distance(name: str, value: np.ndarray, wanted: np.ndarray) -> float:
    """Of the first losses by their size, of others the largest difference."""
    if name.startswith("loss"):
        return float(abs(value[0] / wanted[0] - 1))
    return float(np.abs(value.astype(float) - wanted).max())


def main() -> None:
    """Write this processor's numbers, and compare them with those of x86-64's baseline."""
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    exported, first = folder / "exported", folder / "x86_64 baseline.npz"
    if not exported.exists():
        export(train_tiny(folder), exported)
    for isa in _core.supported_isas():
        _core.use_isa(isa)
        who, found = f"{platform.machine()} {isa}", {}
        for name, part in (("answers", partial(answers, exported)), ("8 bits", eight_bits), ("losses", losses)):
            values = part()
            found |= values
            if first.exists():
                with np.load(first) as wanted:
                    wrong = [said for k, v in values.items() if (said := difference(k, v, wanted[k]))]
                    apart = max(distance(k, v, wanted[k]) for k, v in values.items())
                print(f"{who}, {name}: {len(values)} values, {len(wrong)} wrong, at most {apart:.1e} apart", flush=True)
                if wrong:
                    sys.exit("\n".join(wrong))
        np.savez(folder / f"{who}.npz", **found)


if __name__ == "__main__":
    main()
