"""Orders of a training set other than "each sample once": by how rare classes are, and batches of like shapes.

Letters: S samples, K classes. An order is a pure function of (seed, epoch), so that a resumed run finds its place.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from framework.data import Sampler
from framework.data.streams import order_rng
from framework.errors import AttributeValueError, ConfigError, DataError
from suites.engine.registry import register, register_role

_log = logging.getLogger(__name__)


class Classed(Protocol):
    """A data set that knows its samples' classes without reading them."""

    def __len__(self) -> int: ...

    def classes_of_samples(self) -> list[np.ndarray]:
        """For each sample the different classes in it, int64."""
        ...


class Order(ABC):
    """Which samples an epoch has, in which order."""

    @abstractmethod
    def sampler(self, dataset: Classed, seed: int) -> Sampler:
        """Returns the order of `dataset` with random choices of `seed`."""


register_role("order", Order, doc="Which samples an epoch has, in which order.")


class _Weighted:
    """As many samples as the set has, each epoch drawn anew by expected counts.

    A sample is in an epoch floor(count) times, and once more with the rest as probability; then the epoch is cut or
    filled to S.
    """

    def __init__(self, counts: np.ndarray, seed: int) -> None:
        self._counts = counts * (len(counts) / counts.sum())
        self._seed = seed

    def __len__(self) -> int:
        return len(self._counts)

    def order(self, epoch: int) -> np.ndarray:
        """Returns the epoch's samples, int64 [S]."""
        rng = order_rng(self._seed, epoch)
        whole = np.floor(self._counts)
        times = (whole + (rng.random(len(self._counts)) < self._counts - whole)).astype(np.int64)
        chosen = rng.permutation(np.repeat(np.arange(len(self._counts)), times))
        missing = len(self._counts) - len(chosen)
        if missing > 0:
            filling = rng.choice(len(self._counts), missing, p=self._counts / self._counts.sum())
            chosen = np.concatenate([chosen, filling])
        return chosen[: len(self._counts)].astype(np.int64)


@register("order")
class Shares(Order):
    """Gives each part of a `Joined` data set its share of an epoch; which samples of it are drawn differs by epoch.

    An epoch has as many samples as the set, so a small part is repeated and of a large one some are left out.

    Args:
        weights: the parts' shares, in any unit.
    """

    def __init__(self, weights: list[float]) -> None:
        if not weights or not min(weights) > 0:
            raise AttributeValueError(f"Shares: weights are {weights}; each must be above 0")
        self._weights = np.array(weights, np.float64)

    def sampler(self, dataset: Classed, seed: int) -> Sampler:
        """Returns the order; raises ConfigError for a data set without parts, or with another number of them."""
        sizes = getattr(dataset, "part_sizes", None)
        if sizes is None:
            raise ConfigError(
                f"Shares: {type(dataset).__name__} has no parts; take a Joined data set, or another order"
            )
        if len(sizes) != len(self._weights):
            raise ConfigError(f"Shares: there are {len(self._weights)} weights for {len(sizes)} parts; give one a part")
        return _Weighted(np.repeat(self._weights / sizes, sizes), seed)


class RepeatFactor(Order):
    """Repeats samples with rare classes (Gupta et al. 2019, LVIS, arXiv:1908.03195, section 5.3).

    A class in a share f of the samples has the factor max(1, sqrt(threshold / f)); a sample that of its rarest class.
    An epoch has as many samples as the set.

    Args:
        threshold: share below which a class is repeated.
    """

    def __init__(self, threshold: float = 0.05) -> None:
        if not 0 < threshold <= 1:
            raise AttributeValueError(f"RepeatFactor: threshold is {threshold}; it must lie in (0, 1]")
        self._threshold = threshold

    def sampler(self, dataset: Classed, seed: int) -> Sampler:
        """Returns the order."""
        kinds = dataset.classes_of_samples()
        share = _frequencies(kinds) / len(kinds)
        factor = np.maximum(1, np.sqrt(self._threshold / np.maximum(share, 1e-12)))
        return _Weighted(np.array([factor[kind].max(initial=1.0) for kind in kinds]), seed)


class ClassAware(Order):
    """Every class as often as any other: a class is drawn, then a sample with it. What has no class is left out."""

    def sampler(self, dataset: Classed, seed: int) -> Sampler:
        """Returns the order."""
        kinds = dataset.classes_of_samples()
        count = _frequencies(kinds)
        if not count.any():
            raise DataError("ClassAware: no sample has an object, so there is no class to draw")
        return _Weighted(np.array([(1 / count[kind]).sum() for kind in kinds]), seed)


class _Groups:
    """Groups of m samples of one class, in rounds: each round has a group of every class that has one left.

    Neighbouring groups of a round are of different classes; so a batch has a class twice only where it spans two
    rounds.
    """

    def __init__(self, members: Sequence[np.ndarray], m: int, seed: int) -> None:
        self._members, self._m, self._seed = members, m, seed
        self._counts = np.array([max(len(own) // m, 1) for own in members], np.int64)

    def __len__(self) -> int:
        return int(self._counts.sum()) * self._m

    def order(self, epoch: int) -> np.ndarray:
        """Returns the epoch's samples, int64 [len(self)]."""
        rng = order_rng(self._seed, epoch)
        own = [_drawn(rng, members, self._m * int(n)) for members, n in zip(self._members, self._counts, strict=True)]
        found = []
        for at in range(int(self._counts.max())):
            for k in rng.permutation(np.flatnonzero(self._counts > at)):
                found.append(own[k][at * self._m : (at + 1) * self._m])
        return np.concatenate(found).astype(np.int64)


def _drawn(rng: np.random.Generator, members: np.ndarray, count: int) -> np.ndarray:
    """`count` of some samples: each as often as any other, and once more than another at most."""
    times = -(-count // len(members))
    return np.concatenate([rng.permutation(members) for _ in range(times)])[:count]


class PerClass(Order):
    """m samples of a class, then m of another: what losses of pairs and triplets need. Batches are multiples of m.

    A class of n samples gives n // m groups an epoch, drawn anew each time; one with fewer than m repeats some. A class
    with one sample has no pair: it is left out, and the log says so.

    Args:
        m: samples of a class that follow each other, 2 or more.
    """

    def __init__(self, m: int = 4) -> None:
        if m < 2:
            raise AttributeValueError(f"PerClass: m is {m}; it must be 2 or more")
        self.m = m

    def sampler(self, dataset: Classed, seed: int) -> Sampler:
        """Returns the order; raises DataError where fewer than two classes have two samples."""
        kinds = dataset.classes_of_samples()
        first = np.array([kind[0] if len(kind) else -1 for kind in kinds], np.int64)
        members = [np.flatnonzero(first == k) for k in range(int(first.max(initial=-1)) + 1)]
        paired = [own for own in members if len(own) > 1]
        alone = sum(len(own) == 1 for own in members)
        if len(paired) < 2:
            raise DataError(
                f"PerClass: {len(paired)} classes have two samples or more, {alone} have one; pairs need two classes "
                "of two samples each"
            )
        if alone:
            _log.warning("PerClass: %d classes have one sample each and are left out: they have no pair", alone)
        return _Groups(paired, self.m, seed)


def _frequencies(kinds: Sequence[np.ndarray]) -> np.ndarray:
    """In how many samples each class is, [K]."""
    found = np.concatenate([np.zeros(0, np.int64), *kinds])
    return np.bincount(found, minlength=1)


class LikeShapes:
    """Batches of samples that are all wide or all high, so that little of a batch is padding.

    What is left of both kinds makes mixed batches; a short last one is left out.

    Args:
        sampler: the order of samples.
        wide: bool [S], which samples are wider than high.
        batch_size: samples a batch.
        seed: of the order of batches.
    """

    def __init__(self, sampler: Sampler, wide: np.ndarray, batch_size: int, seed: int) -> None:
        self._sampler, self._wide, self._batch_size, self._seed = sampler, wide, batch_size, seed
        self._made: tuple[int, np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self._sampler) // self._batch_size

    def batch(self, epoch: int, batch: int) -> np.ndarray:
        """Returns the samples of one batch, int64 [batch_size]."""
        if self._made is None or self._made[0] != epoch:
            self._made = epoch, self._batches(epoch)
        return self._made[1][batch]

    def _batches(self, epoch: int) -> np.ndarray:
        order = self._sampler.order(epoch)
        parts = [order[self._wide[order]], order[~self._wide[order]]]
        full = [part[: len(part) // self._batch_size * self._batch_size] for part in parts]
        rest = np.concatenate([part[len(whole) :] for part, whole in zip(parts, full, strict=True)])
        rest = rest[: len(rest) // self._batch_size * self._batch_size]
        batches = np.concatenate([*full, rest]).reshape(-1, self._batch_size)
        return batches[order_rng(self._seed + 1, epoch).permutation(len(batches))]
