"""A range test: the learning rate grows from step to step, and the loss says which rates learn and which are too large.

Smith 2017, arXiv:1506.01186, section 3.3; the rate grows exponentially and the loss is smoothed, as fastai does it. The
rate that is suggested is a tenth of that at which the smoothed loss is lowest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from framework.errors import AttributeValueError

if TYPE_CHECKING:
    from framework.data import Source
    from suites.engine.contract.step import Step

LOWEST, HIGHEST = 1e-7, 1.0  # rates between which it looks
STEPS = 100
FILE = "find_lr.json"
_SMOOTHING = 0.9  # weight of the past in the smoothed loss
_GONE = 4.0  # times the lowest loss at which the sweep ends
_LEAST = 10  # steps before that
_WIDTH, _HEIGHT = 64, 12  # of the chart, in characters
_FALL = 0.01  # of the first loss that must be gained, or nothing was learnt
_MARGIN = 0.1  # of the rate of the lowest loss


@dataclass(frozen=True)
class Sweep:
    """What a range test saw.

    Attributes:
        rates: of each step, of the batch at hand.
        losses: the sum of the loss terms before each step.
        scale: what `schedule.base_lr` is multiplied with for the batch at hand.
    """

    rates: Sequence[float]
    losses: Sequence[float]
    scale: float = 1.0

    def smoothed(self) -> np.ndarray:
        """The moving average of the losses, float64 [S], without the pull of its start."""
        kept, found = 0.0, []
        for number, loss in enumerate(self.losses, start=1):
            kept = _SMOOTHING * kept + (1 - _SMOOTHING) * loss
            found.append(kept / (1 - _SMOOTHING**number))
        return np.array(found)

    def suggestion(self) -> float | None:
        """A value for `schedule.base_lr`; None where the loss fell at no rate."""
        smoothed = self.smoothed()
        if len(smoothed) < _LEAST:
            return None
        lowest = int(smoothed.argmin())
        if smoothed[0] - smoothed[lowest] < _FALL * abs(smoothed[0]):
            return None
        return _MARGIN * self.rates[lowest] / self.scale

    def chart(self) -> str:
        """The smoothed loss over the rate, in characters; `*` marks the suggestion's column."""
        smoothed, columns = self.smoothed(), min(_WIDTH, len(self.rates))
        if not columns:
            return "no step was finite"
        at = np.arange(len(smoothed)) * columns // len(smoothed)
        values = [float(smoothed[at == column].mean()) for column in range(columns)]
        top, bottom = min(max(values), 2 * values[0]), min(values)
        rows = [round((_HEIGHT - 1) * (top - min(v, top)) / max(top - bottom, 1e-12)) for v in values]
        suggested = self.suggestion()
        mark = -1 if suggested is None else int(at[np.abs(np.array(self.rates) - suggested * self.scale).argmin()])
        lines = []
        for row in range(_HEIGHT):
            label = f"{top:10.4g}" if row == 0 else f"{bottom:10.4g}" if row == _HEIGHT - 1 else " " * 10
            drawn = "".join(
                ("*" if column == mark else "o") if rows[column] == row else ":" if column == mark else " "
                for column in range(columns)
            )
            lines.append(f"{label} |{drawn}".rstrip())
        left, right = (f"{rate / self.scale:.1e}" for rate in (self.rates[0], self.rates[-1]))
        lines += [f"{'loss':>10} +{'-' * columns}", f"{'base_lr':>11} {left}{right:>{max(columns - len(left), 0)}}"]
        return "\n".join(lines)

    def advice(self, written: float) -> str:
        """What to do, in a line; `written` is the config's `schedule.base_lr`."""
        found = self.suggestion()
        if found is None:
            return (
                f"range test: the loss fell at no rate of {len(self.rates)}; look at the data and the loss before the "
                f"rate, or try other rates"
            )
        return f"range test: -o schedule.base_lr={found:.1e} suits; the config has {written:g}"

    def to_json(self) -> str:
        """All of it as JSON; rates are those of `schedule.base_lr`."""
        rates = [rate / self.scale for rate in self.rates]
        return json.dumps({"suggestion": self.suggestion(), "base_lr": rates, "loss": list(self.losses)}) + "\n"


def rates_between(lowest: float, highest: float, steps: int) -> list[float]:
    """`steps` rates that grow by the same factor; AttributeValueError where there are no such rates."""
    if steps < _LEAST or not 0 < lowest < highest:
        raise AttributeValueError(
            f"range test: {steps} steps from {lowest:g} to {highest:g}; it takes {_LEAST} or more, and 0 < low < high"
        )
    return [float(rate) for rate in np.geomspace(lowest, highest, steps)]


def sweep(
    step: Step,
    loader: Source,
    rates: Sequence[float],
    *,
    accumulate: int = 1,
    scale: float = 1.0,
) -> Sweep:
    """Make an update at each rate, until the loss is no number or far above its lowest.

    Args:
        step: the update; its weights change.
        loader: gives the batches, again from the start where it ends.
        rates: of the batch at hand.
        accumulate: batches of an update.
        scale: see `Sweep`.
    """
    losses: list[float] = []
    batches = loader.stream()
    for rate in rates:
        loss = sum(step(list(islice(batches, accumulate)), rate).losses.values())
        if not math.isfinite(loss):
            break
        losses.append(loss)
        smoothed = Sweep(rates[: len(losses)], losses).smoothed()
        if len(losses) > _LEAST and smoothed[-1] > _GONE * smoothed.min():
            break
    return Sweep(list(rates[: len(losses)]), losses, scale)
