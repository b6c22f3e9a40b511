"""Vocabularies and models: who learns from which texts, and whether a model has rows for all tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framework.errors import ConfigError
from suites.engine.config import plain
from suites.nlp.datasets import TextDataset
from suites.nlp.datasets.pairs import PairDataset
from suites.nlp.models.base import TextModel
from suites.nlp.models.writing import WritingModel
from suites.nlp.problems import Problem
from suites.nlp.problems.writing import WritingProblem
from suites.nlp.sequences import Sequencer
from suites.nlp.tokenizers import Tokenizer
from suites.nlp.tokenizers.characters import Characters


def learn(sequencer: Sequencer, train_set: Callable[[], TextDataset[Any]]) -> None:
    """Let tokenizers that have no vocabulary yet learn theirs: of both sides together, or each of its own side.

    Raises ConfigError for two tokenizers on a data set that has no sides.
    """
    source, target = sequencer.tokenizer, sequencer.target
    if sequencer.characters is not None and sequencer.characters.learns:
        sequencer.characters.learn(sequencer.change(text) for text in train_set().texts())
    if target is None:
        if source.learns:
            source.learn(sequencer.change(text) for text in train_set().texts())
        return
    for place, tokenizer in enumerate((source, target)):
        if tokenizer.learns:
            dataset = train_set()
            if not isinstance(dataset, PairDataset):
                raise ConfigError(f"data.target_tokenizer: {type(dataset).__name__} has no texts that are written")
            tokenizer.learn(sequencer.change(text) for text in dataset.sides()[place])


def expect_two_sides(model: TextModel, problem: Problem) -> None:
    """Raise ConfigError where a vocabulary of targets would mean nothing, or two would number rows of one table."""
    if not problem.writes_targets:
        raise ConfigError(
            f"data.target_tokenizer: {type(problem).__name__} writes no text from another one; take it away, or set "
            "problem.type to TextToText"
        )
    if not isinstance(model, WritingModel) or model.tables is None:
        raise ConfigError(
            f"data.target_tokenizer: {type(model).__name__} has one table of word vectors; Transformer and "
            "AttentionRnn have one a side"
        )
    if model.copies:
        raise ConfigError(
            "data.target_tokenizer: the model copies words by their numbers (model.copying), which two vocabularies do "
            "not share; take one of the two away"
        )
    if model.shared:
        raise ConfigError(
            "data.target_tokenizer: the model's word vectors are shared by both sides (model.shared), but two "
            "vocabularies give a number two meanings; set model.shared to false, or take target_tokenizer away"
        )


def expect_characters(model: TextModel, problem: Problem, characters: Characters | None, *, taught: bool) -> None:
    """Raise ConfigError where a model that reads characters is given none, or other ones, or the other way round.

    Args:
        model: the network.
        problem: what is asked.
        characters: how tokens are spelled.
        taught: whether it learns from a teacher.
    """
    layers, name = model.characters, type(model).__name__
    if characters is None:
        if layers is not None:
            raise ConfigError(
                f"model.characters: {name} reads how words are spelled, but data.characters is not set; set it, such "
                "as data.characters: {length: 16}, or take model.characters away"
            )
        return
    if layers is None:
        raise ConfigError(
            f"data.characters: {name} as it is set does not read how words are spelled; set model.characters (BiDAF, "
            "BiLanguageModel and ElmoClassifier have it), or take data.characters away"
        )
    if not problem.spells:
        raise ConfigError(f"data.characters: {type(problem).__name__} does not spell words; take it away")
    if taught:
        raise ConfigError("data.characters: a student that learns from a teacher reads no characters; take one away")
    if characters.length < layers.widest:
        raise ConfigError(
            f"data.characters.length is {characters.length}, but the widest filter of model.characters.filters sees "
            f"{layers.widest} characters; raise length to {layers.widest} or more, or take narrower filters"
        )
    if characters.max_size > layers.rows:
        raise ConfigError(
            f"data.characters.max_size is {characters.max_size} but model.characters.rows is {layers.rows}; write "
            'rows: "${data.characters.max_size}"'
        )


def expect_words(problem: Problem, sequencer: Sequencer) -> None:
    """Raise ConfigError where texts are written by a tokenizer that makes none of ids."""
    if isinstance(problem, WritingProblem) and not sequencer.writing.writes:
        place = "target_tokenizer" if sequencer.target is not None else "tokenizer"
        raise ConfigError(
            f"data.{place}: {type(sequencer.writing).__name__} as it is set makes no text of ids, and "
            f"{type(problem).__name__} writes texts; SubwordTokenizer, CharacterTokenizer, a WordTokenizer with pieces "
            "words and ngrams 1, and published tokenizers do"
        )


def expect_rows(model: TextModel, sequencer: Sequencer) -> None:
    """Raise ConfigError where a tokenizer has more tokens than the model rows for them."""
    rows = (model.vocab_size, model.vocab_size)
    if sequencer.target is not None and isinstance(model, WritingModel) and model.tables is not None:
        rows = model.tables
    names = ("tokenizer", "tokenizer") if sequencer.target is None else ("source's tokenizer", "target's tokenizer")
    for name, most, tokenizer in zip(names, rows, (sequencer.tokenizer, sequencer.writing), strict=True):
        if tokenizer.size > most:
            raise ConfigError(
                f"the {name} has {tokenizer.size} tokens but the model's embedding {most} rows; "
                "the vocabulary is another model's, or model.vocab_size is too small"
            )


def expect_read_from_file(name: str, part: Tokenizer | Characters | None) -> None:
    """Raise ConfigError where the part of `data` of this name, which replaces that of a run, would learn anew."""
    if part is not None and part.learns:
        raise ConfigError(f"data.{name}: the run keeps its own, which its model was trained with; leave it as it is")


def expect_same_reading(given: Sequencer, kept: Sequencer) -> None:
    """Raise ConfigError where a config says that texts are read otherwise than a run does, which keeps to its own.

    Args:
        given: what the config says; what learns its vocabulary from the training set may be of any.
        kept: that of the run.
    """
    said = "the run keeps its own, which its model was trained with; leave it as it is, or train anew"
    for name in ("max_length", "truncation"):
        now, own = getattr(given, name), getattr(kept, name)
        if now != own:
            raise ConfigError(f"data.{name} is {now} but was {own}; {said}")
    if plain(given.transforms, suite="nlp") != plain(kept.transforms, suite="nlp"):
        raise ConfigError(f"data.transforms: they are others than the run's; {said}")
    parts, own_parts = given.parts(), kept.parts()
    for name in (*parts, *own_parts):
        part, own = parts.get(name), own_parts.get(name)
        if part is own or (part is not None and part.learns):
            continue
        if part is None or own is None or part.metadata() != own.metadata():
            raise ConfigError(f"data.{name}: it is another than the run's; {said}")


def expect_writers_alike(
    model: TextModel,
    problem: Problem,
    sequencer: Sequencer,
    other: TextModel,
    other_problem: Problem,
    others: Sequencer,
) -> None:
    """Raise ConfigError where two models cannot write together: the same words must have the same numbers."""
    if not isinstance(model, WritingModel) or not isinstance(other, WritingModel):
        wrong = type(other if isinstance(model, WritingModel) else model).__name__
        raise ConfigError(
            f"--with: {wrong} writes no texts; models that do answer together by the mean of their logits"
        )
    if type(problem) is not type(other_problem):
        raise ConfigError(
            f"--with: one model is for {type(problem).__name__}, the other for {type(other_problem).__name__}"
        )
    sides = [("source's", sequencer.tokenizer, others.tokenizer), ("target's", sequencer.writing, others.writing)]
    for side, one, another in sides:
        if one.metadata() != another.metadata():
            raise ConfigError(
                f"--with: the {side} vocabularies of the models differ; train all with one file "
                "(`paddock data vocab`, data.tokenizer.vocabulary)"
            )
    if plain(sequencer.transforms, suite="nlp") != plain(others.transforms, suite="nlp"):
        raise ConfigError("--with: the models' data.transforms differ, so they would read different texts")
