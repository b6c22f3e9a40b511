"""Loss: a term with what it is a mean over. Scalar, Kept: what else a step has. SmoothedLabels: of class losses."""

from __future__ import annotations

from dataclasses import dataclass

from framework import Tensor, ops
from framework.errors import AttributeValueError


@dataclass(frozen=True)
class Loss:
    """One term of what is minimised: a sum over samples, tokens or pixels, and how many those are.

    The pair is kept as mean and weight, the sum is their product. So batches are joined by weights: the mean over
    several batches, or devices, is the sum of all sums over the sum of all weights.

    Attributes:
        mean: a scalar; what is minimised where there is one batch.
        weight: a scalar, 0 or more: how many samples, tokens or pixels `mean` is a mean over, or the sum of their
            weights. It depends on the batch alone, never on what the model makes of it.
    """

    mean: Tensor
    weight: Tensor

    def __mul__(self, factor: float | Tensor) -> Loss:
        """The term with a factor; what it is a mean over stays."""
        return Loss(self.mean * factor, self.weight)


@dataclass(frozen=True)
class Scalar:
    """A number of a step that is logged beside the losses and is no part of what is minimised.

    Attributes:
        value: a scalar.
    """

    value: Tensor


@dataclass(frozen=True)
class Kept:
    """An array of a step that hooks look at, such as predictions made before the update; of no part of the loss.

    It is kept where an update is one batch, not where `runtime.accumulate` joins several.

    Attributes:
        value: any shape.
    """

    value: Tensor


def count_of(x: Tensor) -> Tensor:
    """The number of rows of x [N, ...], a float32 scalar: the weight of a mean over samples."""
    return ops.cast(ops.extent(x, axis=0), "float32")


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
