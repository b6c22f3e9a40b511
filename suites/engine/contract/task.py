"""Task: what the engine asks of every suite, and nothing more.

The engine owns the loop, the files and the schedule. A suite derives one class from `Task`, registers it as
`@register("task", "<suite>")`, and derives one from `Processor`. What single suites offer besides, such as a step or
resources of their own, are the small protocols of `capabilities`: a class offers one by having its methods.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from framework.data import DataLoader, Source
from suites.engine.config import Config, plain
from suites.engine.config.schema.signatures import signature_of
from suites.engine.contract.batch import Batch
from suites.engine.contract.metric import Metric
from suites.engine.contract.processor import Processor
from suites.engine.recording import given
from suites.engine.registry import REGISTRY

if TYPE_CHECKING:
    from framework import Tensor
    from framework.nn import Layer
    from suites.engine.contract.losses import Kept, Loss, Scalar


def _place(config: Config, name: str) -> str | None:
    return next((path for path in (name, f"data.{name}") if config.has(path)), None)


class Task(ABC):
    """Model, data and metric of one run.

    The engine makes optimizer, schedule and everything else.

    Attributes:
        model: the network; its parameters are what is trained and saved.
        train_inputs: names of the batch arrays that `train_step` takes.
        eval_inputs: names of the batch arrays that `eval_step` takes, also of the exported program.
        main_metric: the figure that decides which weights are best, unless the settings name another.
        lower_is_better: whether the lower `main_metric` is the better one.
        processor_class: the suite's `Processor`.
        helpers: layers that only training needs, such as the projections of a distillation: trained and kept in
            checkpoints, but no part of the weights that are evaluated and exported. Made in `begin`.
        more_eval: further evaluation sets by name, of a task that has `SeveralSets`.
    """

    model: Layer
    train_inputs: tuple[str, ...]
    eval_inputs: tuple[str, ...]
    main_metric: str
    lower_is_better: bool = False
    helpers: Layer | None = None
    more_eval: Mapping[str, Any] = MappingProxyType({})
    processor_class: ClassVar[type[Processor]]

    @classmethod
    def from_config(cls, config: Config, **made: Any) -> Self:
        """Return the task that a config describes: each argument is the section, or the part of `data`, of its name.

        `made` are arguments that are there already, of which the config is not asked.
        """
        places = {name: _place(config, name) for name in signature_of(cls).parameters if name not in made}
        return cls(**{name: config.part(place) for name, place in places.items() if place is not None}, **made)

    def to_config(self) -> dict[str, Any]:
        """Return what a config says of this task, the inverse of `from_config`.

        Raises ConfigError where it was made with an object whose class is not registered.
        """
        suite = REGISTRY.suite_of("task", type(self))
        sections = signature_of(REGISTRY.seen_by(suite).get("config", suite)).parameters
        written: dict[str, Any] = {"suite": suite}
        for name, value in given(self).items():
            if value is not None:
                (written if name in sections else written.setdefault("data", {}))[name] = plain(value, suite=suite)
        return written

    @abstractmethod
    def train_loader(self, *, seed: int, workers: int) -> Source:
        """Return the loader of training batches, shuffled; its length, if it has one, is what an epoch means."""

    @abstractmethod
    def eval_loader(self, *, workers: int) -> DataLoader:
        """Return the loader of evaluation batches, in order and without random transforms."""

    @abstractmethod
    def train_step(self, inputs: dict[str, Tensor]) -> Mapping[str, Loss | Scalar | Kept]:
        """Return the loss terms by name, each a mean with its weight; the sum of the means is minimised.

        Each `Scalar` among them is logged only, each `Kept` is an array for hooks.

        Runs the model in training mode. It is traced into a Program, so it uses operators only and never looks
        at numbers; `inputs` holds the arrays named by `train_inputs`.
        """

    @abstractmethod
    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the predictions as arrays by name; traced and exported, so the same rules hold."""

    @abstractmethod
    def metric(self) -> Metric:
        """Return a new, empty metric for the evaluation set."""

    @abstractmethod
    def processor(self) -> Processor:
        """Return what stands around the network when it predicts."""

    @abstractmethod
    def examples(self, count: int) -> list[tuple[str, Any]]:
        """Return up to `count` (name, item) pairs of the evaluation set, to draw predictions on; see `readable`."""

    def begin(self, run: Path | None, say: Callable[[str], None], seed: int) -> None:  # noqa: B027  (an offer, not a duty)
        """Prepare for training, before anything else of it.

        `run` is the run's folder, for files worth keeping; None where only a batch or two will be looked at.
        `say` takes lines for people, where it takes long. `seed` is that of the weights' start.
        """

    def names(self, batch: Batch) -> list[str]:
        """Return what messages call the samples of a batch; by default its list `name`."""
        return [str(name) for name in batch.get("name", ())]
