"""The section `distil` of an NLP config: whom a model learns from, by what, and on which texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from framework.errors import AttributeValueError
from suites.engine.bonds import bound
from suites.engine.config import Factory, OfRole


@dataclass(kw_only=True)
class Augment:
    """Texts made of the training texts, for the teacher to label (`suites.nlp.slim.augment`).

    Args:
        times: texts made of each training text.
        unknown: share of the words that become one that no vocabulary has.
        swap: share of the words that become another that stands after the same word somewhere in the training texts.
        span: share of the texts of which only a run of words is kept.
        pieces: what a word is: a run between spaces, a character (runs of Latin letters or digits stay whole), or a
            Chinese word by jieba.
        seed: of what is drawn.
    """

    times: int = 10
    unknown: float = 0.1
    swap: float = 0.1
    span: float = 0.1
    pieces: Literal["words", "characters", "jieba"] = "words"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.times < 1:
            raise AttributeValueError(
                f"distil.augment: times is {self.times}; it must be 1 or more, or no augment at all"
            )
        for name in ("unknown", "swap", "span"):
            if not 0 <= getattr(self, name) <= 1:
                raise AttributeValueError(
                    f"distil.augment: {name} is {getattr(self, name)}; it is a share, from 0 to 1"
                )
        if self.unknown + self.swap > 1:
            raise AttributeValueError(
                f"distil.augment: unknown and swap are {self.unknown} and {self.swap}, together more than all words"
            )


@dataclass(kw_only=True)
class LayerMap:
    """Learning what the teacher's layers give, token by token (TinyBERT, Jiao et al. 2020; hidden states alone).

    Args:
        map: teacher's layer by the student's; 0 are the embeddings, the last is what the head reads. Null spreads the
            teacher's layers evenly over the student's.
        weight: of the mean squared difference, each layer's with 1 / layers.
    """

    map: dict[int, int] | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.weight <= 0:
            raise AttributeValueError(f"distil.layers: weight is {self.weight}; it must be above 0, or `layers` null")
        if self.map is not None and not self.map:
            raise AttributeValueError("distil.layers: map is empty; name layers, or leave it out to spread them evenly")


@bound(needs={"layers": ("online", True)})
@dataclass(kw_only=True)
class Distil:
    """Learning from a teacher beside the labels (Hinton et al. 2015; ERNIE Slim's recipe by its options).

    The loss is `hard` times the problem's own plus `soft` times the Kullback-Leibler divergence of the student's
    classes from the teacher's, both at `temperature`.

    Args:
        teachers: run folders or exported models; of several the mean of their probabilities is learnt from.
        online: the teacher runs in the training step, on its own encoding of each text. Otherwise its answers are
            computed once, before training, and kept in a file.
        temperature: that logits are divided by.
        times_square: multiply the soft term by temperature squared, which keeps its gradient's size.
        reduction: of the divergence: the mean over "rows", or over all "elements" of [B, K], as the ERNIE kit has it.
        hard: weight of the problem's own loss.
        soft: weight of the divergence.
        last_epoch_hard: in the last epoch only the labels are learnt from.
        layers: also learn what the teacher's layers give; needs `online`, one teacher and the same tokenizer.
        augment: also train on texts made of the training texts.
        unlabelled: also train on the texts of these data sets; labels in them are not looked at.
        extra_labels: what the hard term sees in texts without a label: "none", or the "teacher"'s class.
        labels: file that keeps the teacher's answers, to share among runs; null for one in the run's folder.
    """

    teachers: list[str]
    online: bool = False
    temperature: float = 1.0
    times_square: bool = True
    reduction: Literal["rows", "elements"] = "rows"
    hard: float = 1.0
    soft: float = 1.0
    last_epoch_hard: bool = False
    layers: LayerMap | None = None
    augment: Augment | None = None
    unlabelled: list[Annotated[Factory[Any], OfRole("dataset")]] = field(default_factory=list)
    extra_labels: Literal["none", "teacher"] = "none"
    labels: str | None = None

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise AttributeValueError(
                f"distil: temperature is {self.temperature}; it must be above 0 (1 changes nothing)"
            )
        if self.hard < 0 or self.soft < 0 or (self.soft == 0 and self.layers is None):
            raise AttributeValueError(
                f"distil: hard is {self.hard} and soft {self.soft}; both must be 0 or more, and with soft 0 and no "
                "`layers` nothing is learnt from the teacher"
            )
        if not self.teachers:
            raise AttributeValueError(
                "distil: teachers is empty; name a run folder or an exported model, or set distil: null"
            )
        if self.online and (len(self.teachers) > 1 or self.labels or self.extra_labels == "teacher"):
            raise AttributeValueError(
                "distil: online takes one teacher, keeps no labels and gives texts no class; set online: false for that"
            )
        if self.last_epoch_hard and not self.hard:
            raise AttributeValueError(
                "distil: in the last epoch nothing would be learnt: last_epoch_hard leaves the labels alone, and hard "
                "is 0; give hard a weight, or leave last_epoch_hard out"
            )
        if self.extra_labels == "teacher" and not (self.hard and (self.augment or self.unlabelled)):
            raise AttributeValueError(
                "distil: extra_labels: teacher would do nothing: it needs texts without a label (augment or "
                "unlabelled) and a weight hard above 0; leave it out"
            )
        if self.layers is not None and not self.online:  # made by code, not by a config
            raise AttributeValueError("distil: layers are learnt from a teacher in the step; set online: true")
