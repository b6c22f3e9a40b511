"""The sections of an NLP config."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any

from suites.engine.bonds import bound
from suites.engine.config import Config, Factory, OfRole, rule
from suites.engine.config.class_rules import add_rules
from suites.engine.config.sections import RunConfig
from suites.engine.registry import register
from suites.nlp.models.base import TextModel
from suites.nlp.problems import Problem
from suites.nlp.sequences import Truncation
from suites.nlp.slim.settings import Distil
from suites.nlp.tokenizers import Tokenizer
from suites.nlp.tokenizers.characters import Characters
from suites.nlp.transforms import TextTransform


@dataclass(kw_only=True)
class EvalData:
    """What is evaluated on.

    Args:
        dataset: the examples with their truth.
        batch_size: sequences a step.
    """

    dataset: Annotated[Factory[Any], OfRole("dataset")]
    batch_size: int = 32


@bound(needs={"pool": "tokens"})
@dataclass(kw_only=True)
class TrainData:
    """What is trained on.

    Args:
        dataset: the examples with their truth.
        batch_size: sequences a step.
        tokens: with a number, a batch holds as many sequences as fit into so many tokens, in place of `batch_size`.
        pool: with `tokens` and a number above 0, the sequences of so many batches are sorted by length before they are
            cut to batches, so that a batch holds sequences of similar length.
    """

    dataset: Annotated[Factory[Any], OfRole("dataset")]
    batch_size: int = 32
    tokens: int | None = None
    pool: int = 0


@dataclass(kw_only=True)
class Data:
    """The data of a run.

    Args:
        tokenizer: text to token ids; one that builds its vocabulary does so from the training set.
        train: what is trained on.
        eval: what is evaluated on.
        more_eval: further evaluation sets by name, whose figures have it before them, such as `test/AP`.
        num_classes: classes of the data sets; the model's is `${data.num_classes}`. 1 for a number, null for answers.
        classes: names of the classes in the model's order; null for those of the training set, sorted.
        max_length: tokens of a sequence at most.
        truncation: which text of a pair is cut where it is longer.
        target_tokenizer: of the texts that are written, where these have a vocabulary of their own; null where both
            sides share `tokenizer`.
        characters: how tokens are spelled, for models with `characters`; null for models that read none.
        transforms: applied to each text before it is tokenized, also to texts to predict on.
        root: folder or zip of the data, for `${data.root}` in the data sets.
    """

    tokenizer: Annotated[Tokenizer, OfRole("tokenizer")]
    train: TrainData
    eval: EvalData
    num_classes: int | None = None
    classes: list[str] | None = None
    max_length: int = 128
    truncation: Truncation = "longest_first"
    transforms: list[TextTransform] = field(default_factory=list)
    root: str | None = None
    more_eval: dict[str, EvalData] = field(default_factory=dict)
    target_tokenizer: Annotated[Tokenizer, OfRole("tokenizer")] | None = None
    characters: Characters | None = None


@register("config", "nlp")
@dataclass(kw_only=True)
class NlpConfig(RunConfig):
    """A run on text.

    Args:
        model: the network.
        data: what it is trained and evaluated on.
        problem: what is asked of a text.
        task_id: row of the task table added to every token, for ERNIE 2.0 and 3.0; 2 in their recipes for BQ and THUC.
        layer_decay: factor on the learning rate from each encoder layer to the one below; null for none. Layer i of n
            learns with layer_decay^(n - i), embeddings with layer_decay^(n + 1), all else in full (Clark et al. 2020).
        r_drop: R-Drop (Liang et al. 2021): each batch goes through the model twice, under different dropout. Minimised
            are the mean of both losses and, so many times, the two-way divergence of both predictions; null for once.
        distil: a teacher to learn from beside the labels; null for none.
    """

    model: Annotated[TextModel, OfRole("text_model")]
    data: Data
    problem: Problem
    task_id: int = 0
    layer_decay: float | None = None
    r_drop: float | None = None
    distil: Distil | None = None


add_rules("nlp")


@rule("layer_decay", suite="nlp")
def layers_decay_by_a_share(config: Config) -> Iterator[tuple[str, str]]:
    """The factor of each layer is a share."""
    factor = config["layer_decay"]
    if factor is not None and not 0 < factor <= 1:
        yield "layer_decay", f"is {factor}; it must be above 0 and at most 1, or null"


@rule("r_drop", suite="nlp")
def two_passes_are_of_classes_without_a_teacher(config: Config) -> Iterator[tuple[str, str]]:
    """R-Drop compares two distributions over classes."""
    weight = config["r_drop"]
    if weight is None:
        return
    if weight <= 0:
        yield "r_drop", f"is {weight}; it must be above 0, or null"
    if config["problem.type"] != "Classification":
        yield "r_drop", f"is for Classification, not for {config['problem.type']}; set it to null"
    if config["distil"] is not None:
        yield "r_drop", "does not go with distil, whose teacher says what to predict; set one of them to null"
