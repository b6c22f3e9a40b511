"""Figures of drawn pictures: FID and KID on the features of a network at hand, and distances picture by picture.

Letters: N pictures, D numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from framework.errors import DataError
from suites.engine.contract.batch import Batch
from suites.engine.contract.metric import Metric
from suites.generation.features import FeatureNet, Features

_SUMS = ("cycle", "change", "away")
_CLOSE = 1e-9  # of the largest eigenvalue: what lies below is rounding


class Moments:
    """Count, mean and covariance of vectors [N, D] in float64, however many come, in whatever parts.

    Sums and sums of products are kept. Features are of the size of 1, so that what float64 loses to their means is some
    1e-16 of them.
    """

    def __init__(self, width: int) -> None:
        self.count = 0
        self._sum = np.zeros(width)
        self._products = np.zeros((width, width))

    def add(self, rows: np.ndarray) -> None:
        """Takes in rows [N, D]."""
        wide = rows.astype(np.float64)
        self.count += len(rows)
        self._sum = self._sum + wide.sum(axis=0)
        self._products = self._products + wide.T @ wide

    @property
    def mean(self) -> np.ndarray:
        """[D]."""
        return self._sum / self.count

    @property
    def covariance(self) -> np.ndarray:
        """[D, D], by N - 1."""
        return (self._products - np.outer(self._sum, self._sum) / self.count) / (self.count - 1)

    def state(self) -> dict[str, Any]:
        """Plain arrays and numbers."""
        return {"count": self.count, "sum": self._sum, "products": self._products}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Joins another part."""
        self.count += int(state["count"])
        self._sum = self._sum + state["sum"]
        self._products = self._products + state["products"]


def frechet_distance(a: Moments, b: Moments) -> float:
    """Squared Frechet distance of two Gaussians: |m - n|^2 + trace(A + B - 2 (A B)^(1/2)).

    Dowson and Landau 1982; FID of Heusel et al. 2017, arXiv:1706.08500. The trace of the root is the sum of the roots
    of the eigenvalues of A^(1/2) B A^(1/2), which is symmetric, so that no complex number ever comes up.
    """
    values, vectors = np.linalg.eigh(a.covariance)
    root = (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T
    shared = np.linalg.eigvalsh(root @ b.covariance @ root)
    shared[shared < _CLOSE * max(float(shared[-1]), 0.0)] = 0.0
    shift = a.mean - b.mean
    total = shift @ shift + np.trace(a.covariance) + np.trace(b.covariance) - 2 * np.sqrt(shared).sum()
    return float(max(total, 0.0))


def kernel_distances(real: np.ndarray, made: np.ndarray, features: Features) -> np.ndarray:
    """KID of each subset: the unbiased squared MMD with the kernel (x . y / D + 1)^3 (Binkowski et al. 2018, sec. 4).

    Args:
        real, made: [N, D] and [M, D].
        features: says how many subsets of which size, and their seed.
    """
    rng = np.random.default_rng(features.seed)
    size, width = min(features.subset_size, len(real), len(made)), real.shape[1]
    whole = size == len(real) == len(made)  # every subset is the set itself
    found = []
    for _ in range(1 if whole else features.subsets):
        x, y = (rows[rng.choice(len(rows), size, replace=False)].astype(np.float64) for rows in (real, made))
        xx, yy, xy = ((p @ q.T / width + 1) ** 3 for p, q in ((x, x), (y, y), (x, y)))
        within = (xx.sum() - np.trace(xx) + yy.sum() - np.trace(yy)) / (size * (size - 1))
        found.append(within - 2 * xy.mean())
    return np.array(found)


class _Kind:
    """Vectors of real or of drawn pictures: the moments of all, and the first `most` by number for KID."""

    def __init__(self, width: int, most: int) -> None:
        self.moments = Moments(width)
        self._most, self._width = most, width
        self._rows: dict[int, np.ndarray] = {}

    def add(self, rows: np.ndarray, numbers: np.ndarray) -> None:
        self.moments.add(rows)
        self._keep(rows, numbers)

    def _keep(self, rows: np.ndarray, numbers: np.ndarray) -> None:
        self._rows |= {int(n): row.copy() for n, row in zip(numbers, rows, strict=True) if n < self._most}

    def rows(self) -> np.ndarray:
        """By number, so that it does not matter who saw which."""
        kept = [self._rows[number] for number in sorted(self._rows)]
        return np.stack(kept) if kept else np.zeros((0, self._width), np.float32)

    def state(self) -> dict[str, Any]:
        return {**self.moments.state(), "rows": self.rows(), "numbers": np.array(sorted(self._rows), np.int64)}

    def merge(self, state: Mapping[str, Any]) -> None:
        self.moments.merge(state)
        self._keep(np.asarray(state["rows"], np.float32), np.asarray(state["numbers"]))


class GenerationMetric(Metric):
    """Compares drawn pictures with real ones.

    `FID` and `KID` (with its spread over subsets, `KID_std`) are on the features of `network`; they fall where drawn
    pictures look more like real ones to it. FID of few pictures is too high, by an amount that depends on how many
    there are; KID has no such bias. Where a model draws the way back, `cycle_error` is how far a picture is from itself
    after both ways, and `change` how far the drawn one is from it; where pictures have partners, `L1` is how far the
    drawn one is from its partner. These are mean absolute differences, in which 2 is black against white.

    Args:
        network: makes vectors of pictures.
        features: how KID draws its subsets.
    """

    def __init__(self, network: FeatureNet, features: Features) -> None:
        self._network, self._features = network, features
        self._real, self._made = (_Kind(network.width, features.most) for _ in range(2))
        self._sums = dict.fromkeys(_SUMS, 0.0)
        self._counts = dict.fromkeys(_SUMS, 0)

    def update(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> None:
        """Takes in `made` [N, H, W, 3], and `back` where there is one; DataError for NaN in a picture."""
        numbers, (given, wanted) = batch["numbers"], batch["counts"].T
        made = outputs["made"]
        if not np.isfinite(made).all():
            raise DataError("metric: a drawn picture holds NaN or infinity; the weights are damaged")
        real = batch.get("others", batch["images"])
        self._real.add(self._network.of_real(real[wanted]), numbers[wanted])
        self._made.add(self._network(made[given]), numbers[given])
        if "back" in outputs:
            self._sum("cycle", outputs["back"][given], batch["images"][given])
            self._sum("change", made[given], batch["images"][given])
        elif "others" in batch:
            self._sum("away", made[given], batch["others"][given])

    def _sum(self, name: str, a: np.ndarray, b: np.ndarray) -> None:
        self._sums[name] += float(np.abs(a - b).mean(axis=(1, 2, 3), dtype=np.float64).sum())
        self._counts[name] += len(a)

    def state(self) -> dict[str, Any]:
        """Moments, vectors and sums, with the network that they belong to."""
        return {
            "network": self._network.name, "real": self._real.state(), "made": self._made.state(),
            "sums": dict(self._sums), "counts": dict(self._counts),
        }  # fmt: skip

    def merge(self, state: Mapping[str, Any]) -> None:
        """Adds the other pictures; DataError where their features are another network's."""
        if state["network"] != self._network.name:
            raise DataError(
                f"metric: features of {state['network']} cannot be joined with those of {self._network.name}; compute "
                "both with one `features` section"
            )
        self._real.merge(state["real"])
        self._made.merge(state["made"])
        for name in _SUMS:
            self._sums[name] += float(state["sums"][name])
            self._counts[name] += int(state["counts"][name])

    def result(self) -> dict[str, float]:
        """The figures; see the class. DataError for fewer than two pictures."""
        least = min(self._real.moments.count, self._made.moments.count)
        if least < 2:
            raise DataError(f"FID: {least} pictures were compared; a covariance needs 2, and hundreds say something")
        distances = kernel_distances(self._real.rows(), self._made.rows(), self._features)
        found = {
            "FID": frechet_distance(self._real.moments, self._made.moments),
            "KID": float(distances.mean()),
            "KID_std": float(distances.std()),
        }
        names = {"cycle": "cycle_error", "change": "change", "away": "L1"}
        means = {names[n]: self._sums[n] / self._counts[n] for n in _SUMS if self._counts[n]}
        return found | means

    def report(self) -> str:
        """Which network the figures are of, and of how many pictures."""
        made, real = self._made.moments.count, self._real.moments.count
        return (
            f"FID and KID are of {made} drawn and {real} real pictures on the features of {self._network.name}, "
            f"{self._network.width} numbers each. They are not comparable with figures on Inception-v3, or of another "
            "number of pictures.\n"
        )
