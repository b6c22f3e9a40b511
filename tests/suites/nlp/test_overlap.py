"""ROUGE by its definition (Lin 2004), on sentences of the paper and against a plain table of common subsequences."""

import numpy as np
import pytest

from suites.nlp.metrics.overlap import longest_common, rouge_l, rouge_n, words_of


def table(a, b):
    """The longest common subsequence by the usual table."""
    found = np.zeros((len(a) + 1, len(b) + 1), int)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            found[i + 1, j + 1] = found[i, j] + 1 if x == y else max(found[i, j + 1], found[i + 1, j])
    return found[-1, -1]


def test_the_order_of_words_counts_as_in_the_paper():
    """Section 3.1: both candidates share the bigram "the gunman" with the reference; only the first has its order."""
    reference = "police killed the gunman"
    assert rouge_l("police kill the gunman", reference) == pytest.approx(3 / 4)
    assert rouge_l("the gunman kill police", reference) == pytest.approx(2 / 4)
    assert rouge_n("police kill the gunman", reference, 2) == rouge_n("the gunman kill police", reference, 2) == 1 / 3


def test_words_that_come_again_count_as_often_as_both_have_them():
    assert rouge_n("the the the cat", "the cat", 1) == pytest.approx(2 * 2 / 6)


def test_common_subsequences_are_those_of_a_table():
    rng = np.random.default_rng(0)
    for length in (0, 1, 7, 64, 65, 130):
        a, b = ([str(n) for n in rng.integers(0, 5, size)] for size in (length, 90))
        assert longest_common(a, b) == table(a, b)


@pytest.mark.parametrize("score", [lambda a, b: rouge_n(a, b, 1), lambda a, b: rouge_n(a, b, 2), rouge_l])
def test_a_text_equals_itself_and_nothing_has_no_share(score):
    assert score("two small words", "two small words") == 1.0
    assert score("", "a b") == score("a b", "") == score("", "") == score("a b", "c d") == 0.0


def test_words_are_letters_and_digits_and_chinese_characters_alone():
    assert words_of("It's 3.5_km, ÄRGER!") == ["it", "s", "3", "5", "km", "ärger"]
    assert words_of("我爱NLP模型") == ["我", "爱", "nlp", "模", "型"]
