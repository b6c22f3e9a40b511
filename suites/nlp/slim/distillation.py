"""Distillation: what a student's training has more than others: teacher, texts without labels, further loss terms.

Letters: N samples, B sequences, T tokens, K classes, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from framework import no_grad, ops, tensor
from framework.errors import ConfigError
from framework.tensors import Tensor
from suites.engine.contract.losses import Loss, count_of
from suites.engine.contract.task import Task
from suites.engine.slim.teachers import in_float32
from suites.engine.train.hooks import Hook
from suites.nlp.datasets import Labelled, TextDataset
from suites.nlp.losses import IGNORED
from suites.nlp.models.base import TextModel
from suites.nlp.problems import Classification, Problem
from suites.nlp.sequences import CountingSequencer, Sequencer
from suites.nlp.slim.augment import Augmenter
from suites.nlp.slim.labels import teacher_labels
from suites.nlp.slim.samples import PREFIX, StudentSamples, TwoEncodings
from suites.nlp.slim.settings import Distil
from suites.nlp.slim.states import Projections, layer_pairs
from suites.nlp.slim.teacher import Online, Teachers, open_online

if TYPE_CHECKING:
    from suites.engine.train.loop import TrainingLoop

_TRIAL = 256  # texts of each data set where only a batch will be looked at
_LEAST = 1e-30  # probability whose logarithm is still taken


class Distillation:
    """Learning from a teacher.

    Args:
        settings: the section `distil`.
        problem: what is asked of the texts.

    Attributes:
        inputs: batch arrays that `losses` takes besides the task's; known after `begin`.
        begun: whether `begin` was called; before, texts have labels only.
        projections: of the student's layers to the teacher's width; None where none are needed.
    """

    inputs: tuple[str, ...] = ()
    begun: bool = False
    projections: Projections | None = None

    def __init__(self, settings: Distil, problem: Problem) -> None:
        if not isinstance(problem, Classification):
            raise ConfigError(
                f"distil: takes the problem Classification, not {type(problem).__name__}; set distil: null"
            )
        self._settings = settings
        self._problem = problem
        self._classes: Sequence[str] = ()
        self._trial = False
        self._run: Path | None = None
        self._say: Callable[[str], None] = print
        self._teacher: Online | None = None
        self._teacher_sequencer: Sequencer | None = None  # None where the student's encoding is the teacher's too
        self._order = np.zeros(0, np.int64)
        self._pairs: list[tuple[int, int]] = []
        # A state, not a number of the trace: the last epoch sets it to 0.
        self.share = tensor(np.float32(1.0))
        self.share.persistable, self.share.name = True, "distil/share"

    def begin(
        self,
        run: Path | None,
        say: Callable[[str], None],
        model: TextModel,
        sequencer: Sequencer,
        classes: Sequence[str],
    ) -> None:
        """Open the teacher and see whether it fits the student.

        Args:
            run: folder of the run; None for a trial of a few texts.
            say: takes lines for people.
            model: the student.
            sequencer: the student's.
            classes: K names.
        """
        self._run, self._say, self._classes, self._trial = run, say, classes, run is None
        self.inputs, self.begun = ("teacher",), True
        if self._settings.online:
            self._begin_online(model, sequencer)

    def _begin_online(self, model: TextModel, sequencer: Sequencer) -> None:
        (path,) = self._settings.teachers
        self._teacher, processor, self._order = open_online(path, self._classes)
        for line in in_float32(path, cast("Task", self._teacher)):
            self._say(line)
        if processor.sequencer.characters is not None:
            raise ConfigError(
                f"distil.teachers: {path} reads the characters of words, which a student's batches do not hold; set "
                "distil.online to false"
            )
        if not same_encoding(sequencer, processor.sequencer):
            self._teacher_sequencer = processor.sequencer
        self.inputs = (
            tuple(f"{PREFIX}{key}" for key in ("ids", "offsets", "segment_ids")) if self._teacher_sequencer else ()
        )
        if self._settings.layers is not None:
            if self._teacher_sequencer is not None:
                raise ConfigError(
                    f"distil.layers: {path} cuts texts to other tokens than the student, so their layers do not "
                    "match token by token; give the student the same data.tokenizer, data.transforms, data.max_length "
                    "and data.truncation, or learn by logits alone (distil.layers: null)"
                )
            self._pairs = layer_pairs(self._settings.layers.map, model, self._teacher.model)
            self.projections = Projections.between(model, self._teacher.model, len(self._pairs))

    def samples(self, dataset: TextDataset[Labelled], sequencer: Sequencer) -> StudentSamples:
        """The training set and further texts as the student sees them, with what the teacher needs or says."""
        limit = _TRIAL if self._trial else None
        labelled = list(dataset.examples[:limit])
        extra, names = self._extra(dataset, sequencer, labelled)
        examples = [*labelled, *extra]
        self._say(f"distillation: {len(labelled)} texts with a label, {len(extra)} without")

        def name_of(i: int) -> str:
            return dataset.name_of(i) if i < len(labelled) else names[i - len(labelled)]

        self._problem.check(dataset, sequencer)
        own = self._problem.encode(examples, sequencer, self._classes, name_of, truth=False)
        classes = [self._problem.target_of(e.label, self._classes, name_of(i)) for i, e in enumerate(labelled)]
        targets = np.array([*classes, *[IGNORED] * len(extra)], np.int64)
        if self._teacher is not None:
            theirs = self._teacher_sequencer
            if theirs is None:
                return StudentSamples(own, targets)
            _warn_of_unknown(self._settings.teachers, [theirs], labelled)
            return StudentSamples(
                own, targets, theirs=self._problem.encode(examples, theirs, self._classes, name_of, truth=False)
            )
        teachers = Teachers(self._settings.teachers, self._classes)
        _warn_of_unknown(self._settings.teachers, teachers.sequencers, labelled)
        scores = teacher_labels(self._labels_file(), teachers, examples, self._say)
        if self._settings.extra_labels == "teacher":
            targets[len(labelled) :] = scores[len(labelled) :].argmax(axis=1)
        return StudentSamples(own, targets, scores)

    @property
    def collate(self) -> Any:
        """What makes batches of the samples."""
        keys = self._problem.token_keys
        return TwoEncodings(keys, two=self._teacher_sequencer is not None)

    def losses(self, task: Online, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Loss terms by name: the problem's own, `distillation`, and `layers`."""
        s = self._settings
        logits, states = task.outputs(inputs, states=True) if self._pairs else (task.outputs(inputs), [])
        terms = {name: term * s.hard for name, term in self._problem.losses(logits, inputs).items()} if s.hard else {}
        with no_grad():
            teacher, taught = self._taught(inputs)
        if s.soft:
            sequences = count_of(inputs["targets"])
            terms["distillation"] = Loss(self._divergence(logits, teacher), sequences) * (s.soft * self.share)
        if s.layers is not None:
            tokens = count_of(inputs["ids"])
            terms["layers"] = Loss(self._apart(states, taught), tokens) * (s.layers.weight * self.share)
        return terms

    def hooks(self) -> list[Hook]:
        """The end of learning from the teacher before the last epoch, where that is asked for."""
        return [HardAtLast(self)] if self._settings.last_epoch_hard else []

    def _taught(self, inputs: Mapping[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
        """What the teacher says: logarithms of probabilities [B, K], and what its layers give."""
        if self._teacher is None:
            return ops.log(ops.maximum(inputs["teacher"], _LEAST)), []
        prefix = "" if self._teacher_sequencer is None else PREFIX
        own = {key: inputs[f"{prefix}{key}"] for key in ("ids", "offsets", "segment_ids")}
        found = self._teacher.outputs(own, states=bool(self._pairs))
        logits, states = found if self._pairs else (found, [])
        return ops.log_softmax(ops.gather(logits, tensor(self._order), axis=1)), states

    def _divergence(self, logits: Tensor, teacher: Tensor) -> Tensor:
        """KL(teacher || student) at the temperature, a scalar.  logits: [B, K]; teacher: logarithms [B, K]."""
        s = self._settings
        theirs = ops.log_softmax(
            teacher / s.temperature
        )  # of logarithms of probabilities as of the logits they are from
        ours = ops.log_softmax(logits / s.temperature)
        each = ops.exp(theirs) * (theirs - ours)  # [B, K]
        mean = ops.mean(each) if s.reduction == "elements" else ops.mean(ops.sum(each, axes=(1,)))
        return mean * (s.temperature**2 if s.times_square else 1.0)

    def _apart(self, states: Sequence[Tensor], taught: Sequence[Tensor]) -> Tensor:
        """Mean squared difference of the layers that belong together, a scalar; states: [T, D] each."""
        total: Tensor | None = None
        for place, (ours, theirs) in enumerate(self._pairs):
            x = states[ours] if self.projections is None else self.projections(states[ours], place)
            term = ops.mean(ops.square(x - taught[theirs]))
            total = term if total is None else total + term
        assert total is not None
        return total / float(len(self._pairs))

    def _labels_file(self) -> Path | None:
        if self._run is None:
            return None
        return Path(self._settings.labels) if self._settings.labels else self._run / "teacher_labels.safetensors"

    def _extra(
        self, dataset: TextDataset[Labelled], sequencer: Sequencer, labelled: Sequence[Labelled]
    ) -> tuple[list[Labelled], list[str]]:
        """Texts without a label, and what messages call them."""
        extra, names = [], []
        augment = self._settings.augment
        if augment is not None:
            extra += Augmenter(augment, dataset.texts()).examples(labelled)
            names += [f"{dataset.name_of(i // augment.times)} (changed)" for i in range(len(extra))]
        for factory in self._settings.unlabelled:
            more: TextDataset[Labelled] = factory()
            self._problem.check(more, sequencer)
            count = min(len(more), _TRIAL) if self._trial else len(more)
            extra += more.examples[:count]
            names += [more.name_of(i) for i in range(count)]
        return extra, names


def _warn_of_unknown(paths: Sequence[str], sequencers: Sequence[Sequencer], examples: Sequence[Labelled]) -> None:
    """Say where a teacher does not know much of what the first texts hold, such as one of another language."""
    texts = [text for each in examples[:_TRIAL] for text in (each.text, each.pair) if text]
    for path, sequencer in zip(paths, sequencers, strict=True):
        seen = CountingSequencer(sequencer)
        seen.tokens(texts)
        seen.warn(f"distil.teachers: the texts, as {path} reads them")


class HardAtLast(Hook):
    """Only the labels count in the last epoch (the ERNIE kit's recipe).

    Args:
        distillation: whose terms it turns off.
    """

    priority: ClassVar[int] = 10

    def __init__(self, distillation: Distillation) -> None:
        self._distillation = distillation

    def before_step(self, loop: TrainingLoop) -> None:
        """Set the share of the teacher's terms: 1, or 0 in the last epoch."""
        last = loop.step >= loop.total_steps - loop.steps_per_epoch
        self._distillation.share.set(tensor(np.float32(0.0 if last else 1.0)))


def same_encoding(a: Sequencer, b: Sequencer) -> bool:
    """Whether both make the same sequences of all texts."""
    if (a.max_length, a.truncation) != (b.max_length, b.truncation):
        return False
    if [(type(t), vars(t)) for t in a.transforms] != [(type(t), vars(t)) for t in b.transforms]:
        return False
    return a.tokenizer.metadata() == b.tokenizer.metadata()
