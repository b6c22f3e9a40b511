"""Which anchors stand for which ground truth: what anchor-based heads and their losses share.

Letters: N batch, P anchors, M boxes an image (padded with boxes of no area).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from framework import ops
from framework.autograd.tape import no_grad
from framework.errors import AttributeValueError
from framework.tensors import Tensor
from suites.detection.models.base import Targets


@dataclass(frozen=True)
class Matches:
    """What each anchor is trained as.

    Attributes:
        index: int64 [N, P], the truth's number in its image; 0 where there is none.
        positive: bool [N, P], anchors that stand for a truth.
        negative: bool [N, P], background. What is neither is not trained.
    """

    index: Tensor
    positive: Tensor
    negative: Tensor


@dataclass(frozen=True)
class Matcher:
    """Matches anchors to truths by IoU.

    Args:
        high: least IoU of an anchor with its truth.
        low: an anchor that overlaps every truth by less is background; those between are not trained.
        best: what becomes of a truth that no anchor fits: "none" loses it; "anchor" makes positive every anchor that
            overlaps it as much as any does (Faster R-CNN, RetinaNet); "truth" gives each truth an anchor of its own
            (SSD's bipartite matching).
        ignore: share of a background anchor inside a crowd region from which on it is not trained.
    """

    high: float = 0.5
    low: float = 0.4
    best: Literal["none", "anchor", "truth"] = "anchor"
    ignore: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1 or self.best not in ("none", "anchor", "truth"):
            raise AttributeValueError(
                f"Matcher: low is {self.low}, high {self.high}, best {self.best!r}; 0 <= low <= high <= 1 must hold, "
                "and best is none, anchor or truth"
            )

    def __call__(self, anchors: Tensor, targets: Targets) -> Matches:
        """Matches anchors [P, 4] (or [N, P, 4])."""
        match = self.numbers(anchors, targets)
        return Matches(ops.maximum(match, 0), match >= 0, ops.equal(match, -1))

    def numbers(self, anchors: Tensor, targets: Targets) -> Tensor:
        """The truth of each anchor [P, 4] (or [N, P, 4]): int64 [N, P].

        -1 is background; -2 is not trained: what lies between `low` and `high`, in a crowd region, or has no area.
        """
        with no_grad():
            return ops.match_boxes(
                anchors,
                targets.boxes,
                targets.ignored,
                high=self.high,
                low=self.low,
                keep_best=self.best == "anchor",
                claim_best=self.best == "truth",
                ignore_iou=self.ignore,
            )


def rows_of(values: Tensor, index: Tensor) -> Tensor:
    """values[n, index[n, p]] for values [N, M] or [N, M, C] and index int64 [N, P]: [N, P] or [N, P, C]."""
    with no_grad():
        first = ops.expand_dims(ops.positions(values, axis=0) * ops.extent(values, axis=1), axis=1)  # [N, 1]
    return ops.gather(ops.flatten(values, start=0, end=1), index + first)
