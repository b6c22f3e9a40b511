"""Texts made of the training texts."""

import numpy as np
import pytest

from framework.errors import AttributeValueError
from suites.nlp.datasets import Labelled
from suites.nlp.slim.augment import UNKNOWN_WORD, Augmenter
from suites.nlp.slim.settings import Augment
from suites.nlp.tokenizers import WordTokenizer

TEXTS = ["a very good film", "a very bad day", "not a good film ."]


def test_the_same_seed_makes_the_same_texts_without_labels():
    examples = [Labelled(text, label="1") for text in TEXTS]
    first = Augmenter(Augment(times=4), TEXTS).examples(examples)
    assert len(first) == 12 and all(example.label == "" for example in first)
    assert first == Augmenter(Augment(times=4), TEXTS).examples(examples)
    assert first != Augmenter(Augment(times=4, seed=1), TEXTS).examples(examples)
    # What is made of one text does not depend on those after it.
    assert first[:4] == Augmenter(Augment(times=4), TEXTS).examples(examples[:1])


def test_each_change_alone():
    rng = np.random.default_rng(0)
    unknown = Augmenter(Augment(unknown=1, swap=0, span=0), TEXTS)
    assert unknown.text("a good film", rng) == f"{UNKNOWN_WORD} {UNKNOWN_WORD} {UNKNOWN_WORD}"
    swap = Augmenter(Augment(unknown=0, swap=1, span=0), TEXTS)
    made = {swap.text("a very good", rng) for _ in range(400)}
    # Each word is one that stands after the same word in the texts: "a" and "not" begin, "very" and "good" follow "a".
    assert made == {f"{x} {y} {z}" for x in ("a", "not") for y in ("very", "good") for z in ("good", "bad")}
    span = Augmenter(Augment(unknown=0, swap=0, span=1), TEXTS)
    assert all(span.text("not a good film .", rng) in "not a good film ." for _ in range(20))


def test_the_unknown_word_is_in_no_vocabulary_and_spaces_stay():
    for pieces in ("words", "characters"):
        tokenizer = WordTokenizer(pieces=pieces)
        tokenizer.learn(TEXTS)
        assert tokenizer.encode([UNKNOWN_WORD])[0].ids.tolist() == [tokenizer.unknown]
    none = Augmenter(Augment(unknown=0, swap=0, span=0, pieces="characters"), TEXTS)
    for text in ("房间 很干净,OK 123!", "", "  "):
        assert none.text(text, np.random.default_rng(0)) == text


def test_pairs_change_both_texts():
    (made,) = Augmenter(Augment(times=1, unknown=1, swap=0, span=0), TEXTS).examples([Labelled("a", "good film", "1")])
    assert (made.text, made.pair) == (UNKNOWN_WORD, f"{UNKNOWN_WORD} {UNKNOWN_WORD}")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"times": 0}, "times is 0; it must be 1 or more"),
        ({"swap": 1.5}, "swap is 1.5; it is a share, from 0 to 1"),
        ({"swap": 0.6, "unknown": 0.6}, "together more than all words"),
    ],
)
def test_wrong_settings_are_told(settings, said):
    with pytest.raises(AttributeValueError, match=said):
        Augment(**settings)
