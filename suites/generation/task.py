"""The task of generation: what the engine calls to build, train, evaluate and draw with a model of pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from framework.data import DataLoader
from framework.errors import ConfigError
from framework.nn import init
from framework.optim import Optimizer
from framework.tensors import Tensor
from suites.engine.config.settings import Runtime
from suites.engine.contract.batch import Batch, readable
from suites.engine.contract.losses import Loss
from suites.engine.contract.metric import Metric
from suites.engine.contract.processor import Processor
from suites.engine.contract.step import Step
from suites.engine.registry import register
from suites.engine.reporting import Tally
from suites.engine.train.train_step import TrainStep
from suites.generation.datasets.base import OneKind, Pairs, TwoKinds, Unpaired, Whole
from suites.generation.features import FeatureNet, Features
from suites.generation.metrics import GenerationMetric
from suites.generation.models.base import Adversarial, Denoiser, GenerativeModel
from suites.generation.processor import GenerationProcessor, NoiseProcessor, TranslationProcessor, noise_of
from suites.generation.sample import Picture, collate
from suites.generation.step import AdversarialStep
from suites.vision.augmentation.pipeline import Augmented, Transform
from suites.vision.settings import EvalData, TrainData
from suites.vision.task import VisionTask

_KINDS = {
    "one": (OneKind, "pictures of one kind, such as PictureFolder"),
    "two": (TwoKinds, "pictures of two kinds, such as TwoFolders"),
    "pairs": (Pairs, "pairs, such as PairedFolders or SideBySide"),
}


@register("task", "generation")
class GenerationTask(VisionTask):
    """A model that draws, with its data.

    Args:
        model: the model.
        train: what it learns from; None for a task that only draws.
        eval: the pictures that drawn ones are compared with.
        features: the network on whose features they are compared.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `test/FID`.
    """

    main_metric, lower_is_better = "FID", True
    processor_class = GenerationProcessor
    model: GenerativeModel

    def __init__(
        self,
        model: GenerativeModel,
        train: TrainData | None = None,
        eval: EvalData | None = None,
        features: Features | None = None,
        more_eval: Mapping[str, EvalData] | None = None,
    ) -> None:
        super().__init__(model, train, eval, None, more_eval)
        self._num_classes = model.num_classes or None
        self._features = features or Features()
        self.train_inputs, self.eval_inputs = model.train_inputs, model.eval_inputs
        self.helpers = model.critics() if isinstance(model, Adversarial) else None
        self._networks: list[FeatureNet] = []  # one, made at the first evaluation

    @cached_property
    def _eval_set(self) -> Any:
        """What is drawn from stands first: of a model that draws the first kind that is the second."""
        found = super()._eval_set
        return found.swapped() if self.model.draws == "a" else found

    def _open(self, dataset: Any, path: str) -> Any:
        found = super()._open(dataset, path)
        kind, said = _KINDS[self.model.kind]
        if not isinstance(found, kind):
            raise ConfigError(
                f"{path}: {type(found).__name__} does not fit: {type(self.model).__name__} learns from {said}"
            )
        return found

    def begin(self, run: Path | None, say: Callable[[str], None], seed: int) -> None:
        """Draws the critics' first weights; the engine draws the model's."""
        if self.helpers is not None:
            init.initialize(self.helpers, seed + 1)
        say(f"FID and KID: on the features of {self._network().name}")

    def _network(self) -> FeatureNet:
        if not self._networks:
            self._networks.append(FeatureNet(self._features))
        return self._networks[0]

    def step(self, make_optimizer: Callable[..., Optimizer], runtime: Runtime) -> Step:
        """Two optimizers where there are critics; else the usual step."""
        if isinstance(self.model, Adversarial):
            return AdversarialStep(self, make_optimizer, runtime)
        return TrainStep.of(self, make_optimizer, runtime)

    def augmented(self, dataset: Any, transforms: list[Transform], *, training: bool) -> Any:  # type: ignore[override]
        """The set with its transforms; of two kinds each picture is changed by itself."""
        if isinstance(dataset, TwoKinds):
            return (Unpaired if training else Whole)(dataset, transforms)
        return Augmented(dataset, transforms)

    def eval_loader(self, *, workers: int) -> DataLoader:
        """The evaluation set in order, with what is drawn from."""
        return DataLoader(
            self.augmented(self._eval_set, list(self.eval_data.transforms), training=False),
            self.eval_data.batch_size,
            workers=workers,
            collate=Drawing(self.model.size, self.model.noise, self.model.num_classes, self.model.from_noise),
        )

    def collate(self, dataset: Any) -> Callable[[list[Any]], Batch]:
        """Returns what makes a batch of training."""
        return Drawing(self.model.size, (), 0, from_noise=False)

    def train_step(self, inputs: dict[str, Tensor]) -> dict[str, Loss]:
        """The losses of a model without critics; those of others are `AdversarialStep`'s."""
        if not isinstance(self.model, Denoiser):
            raise ConfigError(
                f"{type(self.model).__name__}: its losses are a game, so there is none of an evaluation set; leave "
                "runtime.evaluation.loss at false"
            )
        return self.model.losses(inputs)

    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """`made` [N, H, W, 3] in [-1, 1], and `back` where there is a way back."""
        return self.model.draw(inputs)

    def metric(self) -> Metric:
        """A new, empty metric."""
        return GenerationMetric(self._network(), self._features)

    def processor(self) -> Processor:
        """What stands around the model."""
        if self.model.from_noise:
            names = self.names_of_classes() if self.model.by_class else ("picture",)
            return NoiseProcessor(self.model.noise, names)
        return TranslationProcessor(self.eval_data.transforms, self.names_of_classes())

    def examples(self, count: int) -> list[tuple[str, Any]]:
        """Seeds from 0, or pictures of the evaluation set."""
        if self.model.from_noise:
            processor = self.processor()
            assert isinstance(processor, NoiseProcessor)
            wishes = [processor.wish(seed) for seed in range(count)]
            return [(processor.name_of(wish), wish) for wish in wishes]
        return readable(range(min(count, len(self._eval_set))), self.example)

    def example(self, index: int) -> tuple[str, Any]:
        """A picture of the evaluation set."""
        dataset = self._eval_set
        return f"{index:05d}_{Path(dataset.name_of(index).split(' ')[0]).stem}.jpg", dataset[index].image

    def count(self, tally: Tally, dataset: Any, *, training: bool) -> None:
        """How many pictures there are."""
        opened = dataset.dataset
        tally.merge(opened.skipped().state())
        tally.add("samples", {"pictures": len(opened)}, len(opened), whole=True)


class Drawing:
    """Makes batches: pictures, and where a model is evaluated the noise and the classes that it draws from.

    Args:
        size: (H, W) of the model.
        noise: extents of the noise of one picture.
        classes: K; 0 for none.
        from_noise: whether pictures are drawn from noise, of the class of the real one; else each becomes another
        class.
    """

    def __init__(self, size: tuple[int, int], noise: tuple[int, ...], classes: int, from_noise: bool) -> None:
        self._size, self._noise, self._classes, self._from_noise = size, noise, classes, from_noise

    def __call__(self, samples: list[Picture]) -> Batch:
        """The batch."""
        batch = dict(collate(samples, self._size))
        labels, numbers = batch["labels"], batch["numbers"]
        if self._from_noise:
            batch["noise"] = np.stack([noise_of(int(number), self._noise) for number in numbers])
        if self._classes:
            others = 1 + numbers % max(self._classes - 1, 1)
            batch["targets"] = labels if self._from_noise else (labels + others) % self._classes
        return batch
