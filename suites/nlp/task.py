"""The NLP task: what the engine calls to build, train, evaluate and show a model of text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from framework import ops
from framework.data import DataLoader, Dataset, RandomDataset, TokenBatches
from framework.errors import ConfigError, NotSupportedError
from framework.io import load_tensors
from framework.nn import init
from framework.tensors import Tensor
from suites.engine.config import Config
from suites.engine.contract.batch import Batch, opened
from suites.engine.contract.capabilities import Kept
from suites.engine.contract.capabilities.generating import CacheSettings, TextGenerator
from suites.engine.contract.data_task import DataTask
from suites.engine.contract.losses import Loss, count_of
from suites.engine.contract.metric import Metric
from suites.engine.contract.processor import Processor
from suites.engine.contract.task import Task
from suites.engine.names import listing
from suites.engine.registry import register
from suites.engine.reporting import Case, Marked, Tally
from suites.engine.train.hooks import Hook
from suites.engine.weights import load_what_fits
from suites.nlp.datasets import TextDataset
from suites.nlp.filling import Filling
from suites.nlp.losses import two_way_divergence
from suites.nlp.matching.groups import WithNegatives
from suites.nlp.matching.teachers import answers
from suites.nlp.models.base import TextModel
from suites.nlp.models.bert_names import load_bert
from suites.nlp.models.ensemble import Ensemble
from suites.nlp.models.heads import SequenceClassifier
from suites.nlp.models.vectors import vector_width
from suites.nlp.models.writing import WritingModel
from suites.nlp.problems import Classification, Problem
from suites.nlp.problems.writing import WritingProblem
from suites.nlp.processor import TextProcessor, WritingProcessor
from suites.nlp.sequences import CountingSequencer, Encoded, Sequencer, Truncation
from suites.nlp.settings import EvalData, TrainData
from suites.nlp.slim.distillation import Distillation
from suites.nlp.slim.settings import Distil
from suites.nlp.tokenizers import Tokenizer
from suites.nlp.tokenizers.characters import SPELLING, Characters
from suites.nlp.transforms import TextTransform
from suites.nlp.vocabularies import (
    expect_characters,
    expect_read_from_file,
    expect_rows,
    expect_same_reading,
    expect_two_sides,
    expect_words,
    expect_writers_alike,
    learn,
)

_LAYER = re.compile(r"\blayers?\.(\d+)\.")
_SHOWN = 12  # classes in a message


@register("task", "nlp")
class NlpTask(DataTask[TrainData, EvalData]):
    """A model of text with its data; data sets are opened when they are first needed.

    Args:
        model: the network.
        problem: what is asked of a text.
        tokenizer: text to token ids; one that builds its vocabulary does so from the training set.
        train: what is trained on; None for a task that only predicts.
        eval: what is evaluated on.
        num_classes: how many classes there must be; None for as many as there are.
        classes: their names in the model's order; None for those of the training set, sorted.
        max_length: tokens of a sequence at most.
        truncation: which text of a pair is cut where it is longer.
        target_tokenizer: of texts that are written, where these have a vocabulary of their own.
        characters: how tokens are spelled, for a model that reads that.
        transforms: applied to each text before it is tokenized.
        task_id: row of the task table added to every token, for ERNIE 2.0 and 3.0.
        layer_decay: factor on the learning rate from each encoder layer to the one below; None for none.
        r_drop: weight of the divergence of two passes (R-Drop, Liang et al. 2021); None for one pass.
        distil: a teacher to learn from beside the labels; None for none.
    """

    train_inputs: tuple[str, ...] = ("ids", "offsets", "segment_ids", "targets")
    eval_inputs: tuple[str, ...] = ("ids", "offsets", "segment_ids")
    processor_class = TextProcessor
    model: TextModel

    def __init__(
        self,
        model: TextModel,
        problem: Problem,
        tokenizer: Tokenizer,
        train: TrainData | None = None,
        eval: EvalData | None = None,
        *,
        num_classes: int | None = None,
        classes: Sequence[str] | None = None,
        max_length: int = 128,
        truncation: Truncation = "longest_first",
        target_tokenizer: Tokenizer | None = None,
        characters: Characters | None = None,
        transforms: Sequence[TextTransform] = (),
        task_id: int = 0,
        layer_decay: float | None = None,
        r_drop: float | None = None,
        distil: Distil | None = None,
        more_eval: Mapping[str, EvalData] | None = None,
    ) -> None:
        super().__init__(train, eval, more_eval)
        self.model = model
        self._problem = problem
        self._given = Sequencer(tokenizer, tuple(transforms), max_length, truncation, target_tokenizer, characters)
        self._num_classes, self._named = num_classes, classes
        self._task_id, self._layer_decay, self._r_drop = task_id, layer_decay, r_drop
        self._adopted: TextProcessor | None = None
        self._distillation = None if distil is None else Distillation(distil, problem)
        self.main_metric, self.lower_is_better = problem.main_metric, problem.lower_is_better
        expect_words(problem, self._given)
        expect_characters(model, problem, characters, taught=distil is not None)
        self._spelled = () if characters is None else (SPELLING,)
        self.eval_inputs = (*problem.inputs, *self._spelled)
        self.train_inputs = (*(problem.learned or problem.inputs), *self._spelled, *problem.targets)
        if target_tokenizer is not None:
            expect_two_sides(model, problem)
        if not 0 <= task_id < max(model.task_types, 1):
            raise ConfigError(f"task_id is {task_id} but the model has {model.task_types} task vectors")

    @property
    def problem(self) -> Problem:
        """What is asked."""
        return self._problem

    @classmethod
    def from_kept(cls, config: Config, kept: Kept) -> Self:
        """The task of a run, with the tokenizers that it keeps."""
        assert isinstance(kept.processor, TextProcessor)
        made = kept.processor.sequencer.parts()
        for name in made:
            if not kept.holds(f"data.{name}"):
                made[name] = config.part(f"data.{name}")
                expect_read_from_file(name, made[name])
        return cls.from_config(config, **made)

    def adopt(self, processor: Processor) -> None:
        """Take vocabulary and classes of a saved run; ConfigError where texts would be cut otherwise than it did."""
        assert isinstance(processor, TextProcessor)
        expect_same_reading(self._given, processor.sequencer)
        self._adopted = processor
        self._check_fit(processor.sequencer)

    @cached_property
    def _train_set(self) -> TextDataset[Any]:
        return opened(self.train_data.dataset)

    @cached_property
    def _eval_set(self) -> TextDataset[Any]:
        return opened(self.eval_data.dataset)

    @cached_property
    def _sequencer(self) -> Sequencer:
        """Texts to sequences; where the vocabulary is built from the training set, this reads it."""
        if self._adopted is not None:
            return self._adopted.sequencer
        sequencer = self._given
        learn(sequencer, lambda: self._train_set)
        self._check_fit(sequencer)
        return sequencer

    @cached_property
    def _classes(self) -> list[str]:
        if self._adopted is not None:
            return self._adopted.classes
        classes = self._named if self._named is not None else self._problem.classes(self._train_set)
        wanted = self._num_classes
        if wanted is not None and wanted != len(classes):
            names = listing(classes[:_SHOWN]) + (", ..." if len(classes) > _SHOWN else "")
            raise ConfigError(
                f"data.num_classes is {wanted} but there are {len(classes)} classes ({names}); "
                "correct data.num_classes, or name the classes in data.classes"
            )
        return list(classes)

    def train_loader(self, *, seed: int, workers: int) -> DataLoader:
        """Shuffled ragged batches of a fixed number of sequences, or bounded by their tokens."""
        self._problem.check_training(self._train_set)
        self._problem.check_evaluation(self._eval_set)
        if self._distillation is None or not self._distillation.begun:  # batches to calibrate on, say
            encoded = self._encoded(self._train_set)
            samples: Dataset | RandomDataset = self._problem.drawn(encoded)
            if isinstance(samples, WithNegatives) and samples.lesson is not None:
                samples.take(answers(samples.lesson, vector_width(self.model)))
            lengths = getattr(samples, "lengths", encoded.lengths)  # where others are drawn from than are encoded
            collate: Any = self._problem.collate((*self._problem.token_keys, *self._spelled))
        else:
            labelled = self._distillation.samples(self._train_set, self._sequencer)
            samples, lengths = labelled, labelled.lengths
            collate = self._distillation.collate
        data = self.train_data
        batch_size, tokens = data.batch_size, data.tokens
        batches = None
        if tokens is not None:
            batches = TokenBatches(lengths, tokens, seed=seed, pool=data.pool)
            batch_size = round(len(samples) / len(batches))
        return DataLoader(
            samples,
            batch_size,
            shuffle=True,
            seed=seed,
            workers=workers,
            drop_last=len(samples) >= batch_size,
            batch_sampler=batches,
            collate=collate,
        )

    def eval_loader(self, *, workers: int) -> DataLoader:
        """The evaluation set in order."""
        samples = self._encoded(self._eval_set)
        batch_size = self.eval_data.batch_size
        collate = self._problem.collate((*self._problem.token_keys, *self._spelled))
        return DataLoader(samples, batch_size, workers=workers, collate=collate)

    def train_step(self, inputs: dict[str, Tensor]) -> dict[str, Loss]:
        """Loss terms by name."""
        if self._distillation is not None and self._distillation.begun:
            return self._distillation.losses(self, inputs)
        if self._r_drop is not None:
            return self._losses_of_two_passes(inputs, self._r_drop)
        outputs = self._asked(self._problem.asked(self.model, training=True), inputs, self._problem.learned)
        return self._problem.losses(outputs, inputs)

    def _losses_of_two_passes(self, inputs: dict[str, Tensor], weight: float) -> dict[str, Loss]:
        first, second = self.outputs(inputs), self.outputs(inputs)
        losses, others = self._problem.losses(first, inputs), self._problem.losses(second, inputs)
        terms = {name: Loss((loss.mean + others[name].mean) * 0.5, loss.weight) for name, loss in losses.items()}
        return terms | {"r_drop": Loss(two_way_divergence(first, second) * weight, count_of(inputs["targets"]))}

    def eval_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """What the problem predicts."""
        outputs = self._asked(self._problem.asked(self.model, training=False), inputs, None)
        return self._problem.predictions(outputs)

    def parts(self, batch: Batch) -> Iterable[Batch]:
        """What is predicted on one after the other for a batch of evaluation, such as the words that are written."""
        return self._problem.parts(batch, self.model)

    def metric(self) -> Metric:
        """A new, empty metric of the evaluation set."""
        return self._problem.metric(self._eval_set, self._classes)

    def features(self, inputs: dict[str, Tensor]) -> Tensor:
        """What the linear layer on an encoder sees of each sequence, [B, D]."""
        if not isinstance(self.model, SequenceClassifier):
            raise NotSupportedError(
                f"{type(self.model).__name__}: does not give features of sequences; a SequenceClassifier does"
            )
        return self.model.features(**self._arguments(inputs, self._problem.inputs))

    def truth(self, batch: Batch) -> np.ndarray:
        """The class of each sequence, int64 [B]."""
        if not isinstance(self._problem, Classification):
            raise NotSupportedError(f"{type(self._problem).__name__}: has no classes of texts; Classification has")
        return np.asarray(batch["targets"])

    def on_training_set(self) -> NlpTask:
        """Its training set, in order."""
        return self.with_eval(replace(self.eval_data, dataset=self.train_data.dataset))

    def processor(self) -> TextProcessor:
        """Tokenizer, transforms and class names; how words are chosen, where texts are written."""
        if isinstance(self._problem, WritingProblem):
            limits = self._problem.limits(self.model, self._sequencer.writing)
            return WritingProcessor(self._problem, self._sequencer, self._classes, limits)
        if self._adopted is not None:
            return self._adopted
        return TextProcessor(self._problem, self._sequencer, self._classes)

    def join(self, others: Sequence[Task]) -> None:
        """Write by the mean of this model's and the others' logits; see `Ensemble`."""
        models: list[TextModel] = [self.model]
        for task in others:
            if not isinstance(task, NlpTask):
                raise ConfigError(f"--with: {type(task).__name__} is of another suite; name runs of nlp")
            expect_writers_alike(self.model, self._problem, self._sequencer, task.model, task.problem, task._sequencer)
            models.append(task.model)
        self.model = Ensemble([model for model in models if isinstance(model, WritingModel)])

    def generator(self, processor: Processor) -> Callable[[CacheSettings], TextGenerator] | None:
        """What makes a generator of a model that writes step by step in pages; None for others."""
        return processor.generator(self.model) if isinstance(processor, WritingProcessor) else None

    def examples(self, count: int) -> list[tuple[str, Any]]:
        """Examples of the evaluation set, evenly spread over it."""
        dataset = self._eval_set
        picked = np.unique(np.linspace(0, len(dataset) - 1, min(count, len(dataset))).round().astype(int)).tolist()
        return [(dataset.name_of(i), dataset[i]) for i in picked]

    def show_case(self, case: Case, predict: Callable[[Any], Any]) -> tuple[str, Marked]:
        """The text of an example."""
        dataset = self._eval_set
        return dataset.name_of(case.index), self._problem.show_mistake(dataset[case.index], case.detail)

    def count(self, tally: Tally, dataset: Any, *, training: bool) -> None:
        """What the problem counts of the examples, tokens of a sequence, and the rows that are wrong."""
        source = self._train_set if training else self._eval_set
        self._problem.count(tally, source.examples)
        if (lengths := getattr(dataset, "lengths", None)) is not None:
            tally.measure("tokens of a sequence", lengths, len(source), whole=True)
        if (left_out := getattr(source, "left_out", None)) is not None:
            tally.merge(left_out.state())

    def start_from(self, path: Path) -> list[str]:
        """Weights of a run of ours, or a published checkpoint: a folder, or a file under another framework's names."""
        if path.suffix == ".safetensors" and any(name in self.model.state_dict() for name in load_tensors(path)):
            return load_what_fits(self.model, path)
        return [str(load_bert(self.model, path, new_head=True))]

    def lr_factors(self) -> dict[str, float]:
        """Smaller learning rates for lower layers, where `layer_decay` says so."""
        decay = self._layer_decay
        names = [name for name, p in self.model.named_parameters() if p.requires_grad]
        return {} if decay is None else layer_factors(names, decay)

    def names(self, batch: Batch) -> list[str]:
        """File and line of each sequence."""
        return list(batch["name"])

    def begin(self, run: Path | None, say: Callable[[str], None], seed: int) -> None:
        """Make ready whom the model learns from, where it has a teacher."""
        if self._distillation is not None:
            self._distillation.begin(run, say, self.model, self._sequencer, self._classes)
            self.train_inputs = (*self._problem.inputs, *self._problem.targets, *self._distillation.inputs)
            self.helpers = self._distillation.projections
            if self.helpers is not None:
                init.initialize(self.helpers, seed)

    def fitting(self) -> Filling | None:
        """Fills batches up with sequences that do not count; not where a loss compares passes or has a teacher."""
        if self._problem.fillers is None or self._r_drop is not None or self._distillation is not None:
            return None
        return Filling(self._problem, few=self._train is not None and self.train_data.tokens is not None)

    def on_host(self, arrays: Mapping[str, Any]) -> bool:
        """See `Problem.on_host`."""
        return self._problem.on_host(arrays)

    def hooks(self) -> list[Hook]:
        """What ends learning from the teacher before the last epoch, where that is asked for."""
        return [] if self._distillation is None else self._distillation.hooks()

    def outputs(self, inputs: Mapping[str, Tensor], *, states: bool = False) -> Any:
        """What the model returns for `eval_inputs`; with `states` also what each layer of its encoder gives."""
        return self._asked(self.model.with_states if states else self.model, inputs, None)

    def _asked(self, run: Callable[..., Any], inputs: Mapping[str, Tensor], names: Sequence[str] | None) -> Any:
        return run(**self._arguments(inputs, names or self._problem.inputs))

    def token_vectors(self, inputs: Mapping[str, Tensor], layer: int | None = None) -> Tensor:
        """A vector for each token, [T, D], of the encoder or one of its layers; `inputs` as of a text alone."""
        return self.model.token_vectors(**self._arguments(inputs, Problem.inputs), layer=layer)

    def _arguments(self, inputs: Mapping[str, Tensor], names: Sequence[str]) -> dict[str, Tensor]:
        given = {name: inputs[name] for name in (*names, *self._spelled)}
        if self._task_id:
            given["task_ids"] = ops.full_like(given["ids"], value=float(self._task_id))
        return given

    def _encoded(self, dataset: TextDataset[Any]) -> Encoded:
        self._problem.check(dataset, self._sequencer)
        sequencer = CountingSequencer(self._sequencer)
        encoded = self._problem.encode(dataset.examples, sequencer, self._classes, dataset.name_of)
        sequencer.warn(dataset.path)
        return encoded

    def _check_fit(self, sequencer: Sequencer) -> None:
        longest = self.model.max_length
        if longest is not None and sequencer.max_length > longest:
            raise ConfigError(
                f"data.max_length is {sequencer.max_length} but the model has positions for {longest} tokens"
            )
        expect_rows(self.model, sequencer)
        self.model.take_tokenizer(sequencer.tokenizer)


def layer_factors(names: list[str], decay: float) -> dict[str, float]:
    """Factors on the learning rate by name: decay^(n - i) in encoder layer i of n, decay^(n + 1) in embeddings.

    Layers are known by `layer.<i>.` or `layers.<i>.` in a name, embeddings by `embedding`; all else has 1.
    """
    layers = {name: int(found[1]) for name in names if (found := _LAYER.search(name))}
    count = max(layers.values(), default=-1) + 1
    if not count:
        raise ConfigError("layer_decay: the model has no encoder layers (`layers.<i>.` in a parameter's name)")
    factors = {name: decay ** (count - i) for name, i in layers.items()}
    return factors | {n: decay ** (count + 1) for n in names if n not in layers and "embedding" in n}
