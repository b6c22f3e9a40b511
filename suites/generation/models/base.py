"""What every model of generation is: networks that are kept, critics that only training needs, and their losses.

Letters: N pictures, H W their size, K classes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal

from framework import nn, ops
from framework.errors import AttributeValueError
from framework.random import default_generator
from framework.tensors import Tensor
from suites.engine.contract.losses import Loss
from suites.engine.registry import register_role
from suites.vision.augmentation.pixels import pair

Kind = Literal["one", "two", "pairs"]


class GenerativeModel(nn.Layer):
    """Base of models that draw.

    Args:
        size: H and W, one number or two, in pixels.
        multiple: what H and W must be multiples of.

    Attributes:
        kind: of data that it learns from: pictures of one kind, of two kinds without partners, or in pairs.
        from_noise: whether it draws from noise, so that its inputs are seeds; else it draws from a picture.
        by_class: whether a class is an input too.
        num_classes: K; 0 where it knows none.
        draws: of two kinds, the one that is drawn from pictures of the other.
        noise: extents of the noise of one picture.
    """

    kind: ClassVar[Kind] = "one"
    from_noise: ClassVar[bool] = False
    num_classes: int = 0
    draws: Literal["a", "b"] = "b"
    noise: tuple[int, ...] = ()

    def __init__(self, size: int | list[int], multiple: int) -> None:
        super().__init__()
        name = type(self).__name__
        self.size = pair(size, name)
        if any(side % multiple or side < multiple for side in self.size):
            raise AttributeValueError(f"{name}: size is {size}; height and width must be multiples of {multiple}")

    @property
    def by_class(self) -> bool:
        """Whether a class is an input too."""
        return self.num_classes > 0

    @property
    def train_inputs(self) -> tuple[str, ...]:
        """Names of the arrays of a batch that training takes."""
        others = () if self.kind == "one" else ("others",)
        return ("images", *others, *(("labels",) if self.by_class else ()))

    @property
    def eval_inputs(self) -> tuple[str, ...]:
        """Names of the arrays that drawing takes; `targets` are the wanted classes."""
        return ("noise" if self.from_noise else "images", *(("targets",) if self.by_class else ()))

    @abstractmethod
    def draw(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`made` [N, H, W, 3] in [-1, 1] of the `eval_inputs`; also `back`, where there is a way back."""

    def forward(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """As `draw`."""
        return self.draw(inputs)


class Adversarial(GenerativeModel):
    """Base of models that are taught by critics, networks that tell real pictures from drawn ones.

    Attributes:
        critic_steps: updates of the critics for one of the generators.
        buffer: drawn pictures of each kind that critics are shown again (Shrivastava et al. 2017); 0 for none.
        shows: names of drawn pictures that critics are shown as the generators' own update drew them; without names
            critics draw anew.
    """

    shows: ClassVar[tuple[str, ...]] = ()
    critic_steps: int = 1
    buffer: int = 0

    @abstractmethod
    def critics(self) -> nn.Layer:
        """New critics, which are no part of the model."""

    @abstractmethod
    def make(self, inputs: Mapping[str, Tensor], critics: nn.Layer) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The generators' losses by name, and what they drew, by the names of `shows`."""

    @abstractmethod
    def judge(self, inputs: Mapping[str, Tensor], critics: nn.Layer) -> dict[str, Tensor]:
        """The critics' losses by name; `inputs` have what `shows` names too. Nothing flows back to the generators."""


class Denoiser(GenerativeModel):
    """Base of models with one loss and one optimizer."""

    @abstractmethod
    def losses(self, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """What is minimised."""


register_role("generative_model", GenerativeModel, doc="Draws pictures.")


def normal(*shape: int) -> Tensor:
    """Normal numbers from the run's stream, which a checkpoint keeps."""
    return ops.random_normal(default_generator.key(), shape=shape)


def uniform(*shape: int) -> Tensor:
    """Uniform numbers in [0, 1) from the run's stream."""
    return ops.random_uniform(default_generator.key(), shape=shape)


def planes(classes: Tensor, count: int, size: tuple[int, int]) -> Tensor:
    """classes: int64 [N]; y: [N, H, W, K], 1 in the plane of the class."""
    hot = ops.reshape(ops.one_hot(classes, depth=count), (0, 1, 1, count))
    return ops.resize_nearest(hot, size=size)


def away(a: Tensor, b: Tensor) -> Tensor:
    """Mean absolute difference."""
    return ops.mean(ops.abs(a - b))
