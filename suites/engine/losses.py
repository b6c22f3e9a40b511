"""SmoothedLabels: what the losses over classes of all suites take."""

from __future__ import annotations

from dataclasses import dataclass

from framework.errors import AttributeValueError


@dataclass(frozen=True)
class SmoothedLabels:
    """Base of a loss over classes.

    Args:
        label_smoothing: share e of each target that is spread evenly over all classes (Szegedy et al. 2016).
    """

    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise AttributeValueError(
                f"{type(self).__name__}: label_smoothing is {self.label_smoothing}; it must be in [0, 1)"
            )
