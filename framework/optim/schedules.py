"""Learning rates as pure functions of the step: no state, so a resumed run continues by itself."""

from __future__ import annotations

import bisect
import itertools
import math
from dataclasses import dataclass
from typing import Literal

from framework.errors import AttributeValueError

_EXPONENTS = {"linear": 1.0, "sqrt": 0.5, "none": 0.0}


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Base of all schedules: linear warm-up, then `after_warmup`.

    Args:
        base_lr: learning rate of the run, for a total batch of `reference_batch`.
        total_steps: updates of the whole run.
        warmup_steps: updates over which the rate grows from `warmup_from` times to its full value.
        warmup_from: where the warm-up starts, as a share of the full value.
        reference_batch: batch that `base_lr` was tuned for. With another one the rate is scaled by the rule `scaling`.
        batch_size: batch at hand.
        scaling: how the rate follows r = batch_size / reference_batch. "linear": times r (Goyal et al. 2017).
            "sqrt": times the root of r, which suits Adam and AdamW (Malladi et al. 2022). "none": not at all. None:
            as the optimizer wants it where something knows that one, such as a trainer; else "linear".
    """

    base_lr: float
    total_steps: int
    warmup_steps: int = 0
    warmup_from: float = 0.0
    reference_batch: int | None = None
    batch_size: int | None = None
    scaling: Literal["linear", "sqrt", "none"] | None = None

    def __post_init__(self) -> None:
        who = type(self).__name__
        if not self.base_lr > 0:
            raise AttributeValueError(f"{who}: base_lr is {self.base_lr}; it must be positive")
        if self.warmup_steps < 0:
            raise AttributeValueError(f"{who}: warmup_steps is {self.warmup_steps}; it must be 0 or more")
        if self.reference_batch is not None and self.reference_batch < 1:
            raise AttributeValueError(f"{who}: reference_batch is {self.reference_batch}; it must be 1 or more")
        if self.scaling not in (None, *_EXPONENTS):
            raise AttributeValueError(f"{who}: scaling is '{self.scaling}'; it must be one of {', '.join(_EXPONENTS)}")

    @property
    def scale(self) -> float:
        """The factor on the rate for the batch at hand; 1 where it or `reference_batch` is not given."""
        if not (self.batch_size and self.reference_batch):
            return 1.0
        return float((self.batch_size / self.reference_batch) ** _EXPONENTS[self.scaling or "linear"])

    def __call__(self, step: int) -> float:
        """The learning rate of update number `step`, from 0."""
        lr = self.after_warmup(step) * self.scale
        if step < self.warmup_steps:
            lr *= self.warmup_from + (1 - self.warmup_from) * (step + 1) / self.warmup_steps
        return lr

    def after_warmup(self, step: int) -> float:
        """The learning rate without warm-up and batch scaling."""
        raise NotImplementedError

    def _progress(self, step: int) -> float:
        """Share of the run after the warm-up that is done, in [0, 1]."""
        return min(max(step - self.warmup_steps, 0) / max(self.total_steps - self.warmup_steps, 1), 1.0)


@dataclass(frozen=True, kw_only=True)
class Constant(Schedule):
    """The same rate throughout."""

    def after_warmup(self, step: int) -> float:
        """base_lr."""
        return self.base_lr


@dataclass(frozen=True, kw_only=True)
class Cosine(Schedule):
    """Half a cosine from base_lr down to final_share * base_lr (Loshchilov and Hutter 2017).

    Args:
        final_share: the last rate as a share of the first.
    """

    final_share: float = 0.0

    def after_warmup(self, step: int) -> float:
        """base_lr * (final_share + (1 - final_share) * (1 + cos(pi * progress)) / 2)."""
        wave = (1 + math.cos(math.pi * self._progress(step))) / 2
        return self.base_lr * (self.final_share + (1 - self.final_share) * wave)


@dataclass(frozen=True, kw_only=True)
class Polynomial(Schedule):
    """From base_lr down to final_share * base_lr by (1 - progress)^power.

    Args:
        power: 1 is a straight line.
        final_share: the last rate as a share of the first.
    """

    power: float = 0.9
    final_share: float = 0.0

    def after_warmup(self, step: int) -> float:
        """base_lr * (final_share + (1 - final_share) * (1 - progress)^power)."""
        left = (1 - self._progress(step)) ** self.power
        return self.base_lr * (self.final_share + (1 - self.final_share) * left)


@dataclass(frozen=True, kw_only=True)
class InverseSqrt(Schedule):
    """base_lr at the end of the warm-up, then falling with the root of the update (Vaswani et al. 2017, section 5.3).

    Without a warm-up it falls from the first update on.
    """

    def after_warmup(self, step: int) -> float:
        """base_lr * sqrt(warmup_steps / (step + 1)), base_lr during the warm-up."""
        warmup = max(self.warmup_steps, 1)
        return self.base_lr * math.sqrt(warmup / max(step + 1, warmup))


@dataclass(frozen=True, kw_only=True)
class MultiStep(Schedule):
    """Times gamma at each milestone.

    Args:
        milestones: ascending; below 1 a share of the run, else a number of updates.
        gamma: factor at each milestone.
    """

    milestones: tuple[float, ...]
    gamma: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        _ascending("MultiStep: milestones", self.milestones)

    def after_warmup(self, step: int) -> float:
        """base_lr * gamma^(milestones passed)."""
        return self.base_lr * self.gamma ** bisect.bisect_right(_in_steps(self.milestones, self.total_steps), step)


@dataclass(frozen=True, kw_only=True)
class Piecewise(Schedule):
    """A rate for each stretch of the run, as a share of base_lr.

    Args:
        boundaries: ascending; below 1 a share of the run, else a number of updates.
        shares: one more than boundaries; share of base_lr before, between and after them.
    """

    boundaries: tuple[float, ...]
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        _ascending("Piecewise: boundaries", self.boundaries)
        if len(self.shares) != len(self.boundaries) + 1:
            raise AttributeValueError(
                f"Piecewise: {len(self.shares)} shares for {len(self.boundaries)} boundaries; it needs one more share"
            )

    def after_warmup(self, step: int) -> float:
        """base_lr * the share of the stretch that holds `step`."""
        return self.base_lr * self.shares[bisect.bisect_right(_in_steps(self.boundaries, self.total_steps), step)]


def _in_steps(places: tuple[float, ...], total_steps: int) -> list[float]:
    return [p * total_steps if p < 1 else p for p in places]


def _ascending(what: str, values: tuple[float, ...]) -> None:
    if any(b <= a for a, b in itertools.pairwise(values)) or any(v <= 0 for v in values):
        raise AttributeValueError(f"{what} are {list(values)}; they must be positive and ascend")
