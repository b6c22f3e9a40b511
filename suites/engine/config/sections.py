"""Sections of a config that say how a run trains beyond its length: adapters, unfreezing, 8 bits, pruning, teachers.

`RunConfig` has all that every suite shares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from framework.errors import AttributeValueError
from framework.optim import Optimizer, Schedule
from framework.patterns import checked
from framework.quantization import METHODS
from suites.engine.config import Factory, OfRole
from suites.engine.config.settings import Runtime, at_least
from suites.engine.slim.lessons import Lesson


@dataclass(kw_only=True)
class LoraSettings:
    """Which layers get adapters of low rank, and what else is trained; everything else stays as it is.

    Args:
        rank: r, the inner width of the products.
        alpha: The products are multiplied with alpha / rank.
        dropout: Of what goes into the products, in training.
        targets: Expressions for paths of linear layers and convolutions without groups; all of them by default.
        train: Expressions for names of tensors that are trained in full, such as a new head; null for those that depend
            on the classes.
        weights: Adapters in PEFT's format to start from, a folder or `hf:OWNER/NAME`; null for new ones.
    """

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0
    targets: list[str] = field(default_factory=lambda: [""])
    train: list[str] | None = None
    weights: str | None = None

    def __post_init__(self) -> None:
        if self.rank < 1 or not math.isfinite(self.alpha) or self.alpha <= 0 or not 0 <= self.dropout < 1:
            raise AttributeValueError(
                f"lora: rank is {self.rank}, alpha {self.alpha} and dropout {self.dropout}; rank must be 1 or more, "
                "alpha above 0, dropout from 0 to below 1"
            )
        for pattern in (*self.targets, *(self.train or ())):
            checked(pattern)


@dataclass(kw_only=True)
class EightBitsSettings:
    """How a model trains for inference in 8 bits: its convolutions and products compute with rounded numbers.

    Args:
        method: How the ranges of activations that training begins with are found: a name of
            `framework.quantization.METHODS`.
        batches: Training batches that they are found on.
        keep: Patterns of names of weights that stay in float32.
        smallest: A product with fewer weights stays in float32.
    """

    method: str = "mse"
    batches: int = 8
    keep: list[str] = field(default_factory=list)
    smallest: int = 4096

    def __post_init__(self) -> None:
        at_least("eight_bits", batches=(self.batches, 1), smallest=(self.smallest, 0))
        if self.method not in METHODS:
            raise AttributeValueError(f"eight_bits: method is '{self.method}'; takes {', '.join(map(repr, METHODS))}")


@dataclass(kw_only=True)
class PruningSettings:
    """Which layers of the model are narrower than its own settings say; `paddock slim prune` writes it.

    Args:
        layers: Widths by the path of a layer: [channels in, channels out] of a convolution or linear layer, [channels]
            of a batch norm.
    """

    layers: dict[str, list[int]]

    def __post_init__(self) -> None:
        if not self.layers:
            raise AttributeValueError("pruning: layers names nothing; leave out `pruning`, or set it to null")


@dataclass(kw_only=True)
class Unfreeze:
    """Parameters that join the training later.

    Args:
        params: Expressions for their names.
        at: When they join: at the start of this epoch, from 0, or after so many updates.
        unit: "steps" in place of epochs; "percent" of all updates of the run.
    """

    params: list[str]
    at: int
    unit: Literal["epochs", "steps", "percent"] = "epochs"

    def __post_init__(self) -> None:
        at_least("finetune.unfreeze", at=(self.at, 1))
        if not self.params:
            raise AttributeValueError("finetune.unfreeze: params names nothing")
        for pattern in self.params:
            checked(pattern)


@dataclass(kw_only=True)
class L2SPSettings:
    """A penalty on the distance from the weights that were loaded (L2-SP, Li et al. 2018), in place of weight decay.

    Args:
        alpha: alpha / 2 is the weight of the squared distance of parameters that were loaded.
        beta: beta / 2 is the weight of the squares of parameters that were drawn new.
    """

    alpha: float = 0.1
    beta: float = 0.01

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and math.isfinite(self.beta)) or min(self.alpha, self.beta) < 0:
            raise AttributeValueError(
                f"finetune.l2_sp: alpha is {self.alpha} and beta {self.beta}; they must be 0 or more"
            )


@dataclass(kw_only=True)
class FinetuneSettings:
    """How weights that were loaded are trained on.

    Args:
        unfreeze: Parameters that stay as they are at first and join later; of two that name one, the first counts.
        l2_sp: The pull towards what was loaded; null for none.
    """

    unfreeze: list[Unfreeze] = field(default_factory=list)
    l2_sp: L2SPSettings | None = None


@dataclass(kw_only=True)
class RunConfig:
    """Base of every suite's config class: what each run has, whatever it trains.

    Args:
        optimizer: How the weights are updated.
        schedule: The learning rate at each step.
        runtime: How long and how the run trains.
        imports: Modules that are imported first: plug-ins, which register further components.
        hooks: What is called at points of the training loop besides the usual hooks.
        lora: Adapters of low rank, which are trained in place of the model's own weights; null for none.
        finetune: What joins the training later, and the pull towards what was loaded; null for neither.
        eight_bits: Training for inference in 8 bits, from loaded weights; null for float32.
        pruning: Layers that are narrower than the model's settings say; null for none.
    """

    optimizer: Factory[Optimizer]
    schedule: Factory[Schedule]
    runtime: Runtime
    imports: list[str] = field(default_factory=list)
    hooks: list[Annotated[Any, OfRole("hook")]] = field(default_factory=list)
    lora: LoraSettings | None = None
    finetune: FinetuneSettings | None = None
    eight_bits: EightBitsSettings | None = None
    pruning: PruningSettings | None = None


@dataclass(kw_only=True)
class DistilSettings:
    """Learning from a teacher beside the labels; see docs/howto/slimming.md.

    Args:
        teachers: The folder of the teacher's run; one.
        losses: What is compared.
        hard: Factor on the task's own losses.
    """

    teachers: list[str]
    losses: list[Annotated[Lesson, OfRole("lesson")]]
    hard: float = 1.0

    def __post_init__(self) -> None:
        if len(self.teachers) != 1:
            raise AttributeValueError(
                f"distil: teachers names {len(self.teachers)} runs; name one, or set distil: null"
            )
        if not self.losses:
            raise AttributeValueError("distil: losses is empty, so nothing is learnt from the teacher; name some")
        if not (math.isfinite(self.hard) and self.hard >= 0):
            raise AttributeValueError(f"distil: hard is {self.hard}; it must be 0 or more")


@dataclass(kw_only=True)
class DistilledConfig(RunConfig):
    """Base of the config classes of suites whose networks learn from a teacher layer by layer.

    Args:
        distil: A teacher to learn from beside the labels; null for none.
    """

    distil: DistilSettings | None = None
