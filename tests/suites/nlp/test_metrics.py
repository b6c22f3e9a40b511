"""The figures are those of the standard programs: scikit-learn, scipy, seqeval, SQuAD's and CMRC's definitions."""

import random
import re
import string

import numpy as np
import pytest

from suites.nlp.metrics import (
    ClassScores,
    NumberScores,
    ReadingScores,
    answer_figures,
    best_threshold,
    chunk_figures,
    chunks_of,
    mean_reciprocal_rank,
)
from suites.nlp.metrics.reading import Found


def one_hot(found, classes):
    return np.eye(classes, dtype=np.float32)[found]


def test_classes_by_hand():
    metric = ClassScores(["bad", "good"])
    truth, found = np.array([0, 0, 1, 1, 1, 0]), np.array([0, 1, 1, 1, 0, 0])
    metric.update({"scores": one_hot(found[:4], 2)}, {"targets": truth[:4]})
    metric.update({"scores": one_hot(found[4:], 2)}, {"targets": truth[4:]})
    figures = metric.result()
    # tp 2, fp 1, fn 1, tn 2
    assert figures["accuracy"] == pytest.approx(4 / 6) and figures["f1"] == pytest.approx(2 / 3)
    assert figures["mcc"] == pytest.approx((2 * 2 - 1 * 1) / 9) and figures["macro_f1"] == pytest.approx(2 / 3)
    assert figures["f1/good"] == figures["f1"] and "mrr" not in figures


def test_scores_that_are_no_numbers_are_wrong():
    metric = ClassScores(["a", "b", "c"])
    scores = one_hot([0, 1, 2], 3)
    scores[0] = np.nan
    metric.update({"scores": scores}, {"targets": np.array([0, 1, 2])})
    assert metric.result()["accuracy"] == pytest.approx(2 / 3) and "f1" not in metric.result()


def test_reciprocal_ranks_by_hand():
    scores = np.array([0.1, 0.9, 0.5, 0.3, 0.3, 0.2, 0.8])
    right = np.array([0, 0, 1, 1, 0, 0, 0], bool)
    groups = np.array([0, 0, 0, 1, 1, 2, 2])
    # Second in the first group; tied, so second, in the next; the last has no right row and is left out.
    assert mean_reciprocal_rank(scores, right, groups) == pytest.approx((1 / 2 + 1 / 2) / 2)
    metric = ClassScores(["no", "yes"], groups)
    metric.update({"scores": np.stack([1 - scores, scores], axis=1)}, {"targets": right.astype(int)})
    assert metric.result()["mrr"] == pytest.approx(0.5)


def test_correlations():
    metric = NumberScores()
    metric.update({"scores": np.array([1.0, 2.0, 3.0])}, {"targets": np.array([2.0, 4.0, 6.0])})
    metric.update({"scores": np.array([4.0])}, {"targets": np.array([20.0])})
    figures = metric.result()
    assert figures["spearman"] == pytest.approx(1.0) and 0.8 < figures["pearson"] < 1.0
    assert figures["correlation"] == pytest.approx((figures["pearson"] + figures["spearman"]) / 2)
    flat = NumberScores()
    flat.update({"scores": np.ones(3)}, {"targets": np.arange(3.0)})
    assert flat.result()["pearson"] == 0.0 and flat.result()["mean_squared_error"] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("tags", "chunks"),
    [
        ("B-P I-P O B-L", [("P", 0, 1), ("L", 3, 3)]),
        ("I-P I-P O I-L I-P", [("P", 0, 1), ("L", 3, 3), ("P", 4, 4)]),
        ("B-P B-P I-L", [("P", 0, 0), ("P", 1, 1), ("L", 2, 2)]),
        ("B-P M-P E-P S-P S-L O", [("P", 0, 2), ("P", 3, 3), ("L", 4, 4)]),
        ("E-P E-P M-P", [("P", 0, 0), ("P", 1, 1), ("P", 2, 2)]),
        ("O O", []),
        ("", []),
    ],
)
def test_chunks_by_hand(tags, chunks):
    assert chunks_of(tags.split()) == chunks


def drawn_tags(prefixes):
    """200 sentences of random tags, and the same with one tag in five drawn again."""
    draw = random.Random(0).random  # the same numbers in every version of Python
    tags = ["O", *(f"{p}-{k}" for p in prefixes for k in ("PER", "LOC", "ORG"))]

    def tag():
        return tags[int(draw() * len(tags))]

    truth = [[tag() for _ in range(1 + int(19 * draw()))] for _ in range(200)]
    return truth, [[t if draw() < 0.8 else tag() for t in sentence] for sentence in truth]


@pytest.mark.parametrize(
    ("prefixes", "figures"),
    [
        ("BI", [0.7790540541, 0.7838205303, 0.7814300237, 0.8237356034, 0.784, 0.7866273353, 0.7730192719]),
        ("BIES", [0.8216184288, 0.8201650943, 0.8208911183, 0.8157235854, 0.8222424795, 0.8329004329, 0.8073878628]),
        ("IO", [0.754691689, 0.7628726287, 0.7587601078, 0.8237356034, 0.7819253438, 0.7604562738, 0.7305122494]),
    ],
)
def test_chunk_figures_are_those_of_seqeval_1_2_2(prefixes, figures):
    """Computed once with seqeval, which is published as source only and so is not installed with the tests."""
    names = ["precision", "recall", "f1", "accuracy", "f1/LOC", "f1/ORG", "f1/PER"]
    assert chunk_figures(*drawn_tags(prefixes)) == pytest.approx(dict(zip(names, figures, strict=True)), abs=1e-9)


def test_chunk_figures_of_seqevals_own_example():
    name = ["B-PER", "I-PER", "O"]
    truth = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], name]
    found = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], name]
    assert chunk_figures(truth, found) == pytest.approx(
        {"precision": 0.5, "recall": 0.5, "f1": 0.5, "accuracy": 0.8, "f1/MISC": 0.0, "f1/PER": 1.0}
    )


def test_chunk_figures_of_nothing():
    assert chunk_figures([["O"]], [["O"]]) == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 1.0}


@pytest.mark.parametrize(
    ("found", "answers", "language", "exact", "f1"),
    [
        ("The Cat!", ["cat"], "english", 1.0, 1.0),
        ("a big cat", ["cat", "big dog"], "english", 0.0, 2 / 3),
        ("", ["cat"], "english", 0.0, 0.0),
        ("the", ["a"], "english", 1.0, 1.0),
        ("歐洲。", ["歐洲"], "chinese", 1.0, 1.0),
        ("在歐洲", ["歐洲"], "chinese", 0.0, 0.8),
        ("歐大洲", ["歐洲"], "chinese", 0.0, 2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2)),  # a run, not a subsequence
        ("1786年2月", ["1786年"], "chinese", 0.0, 2 * (2 / 4) / (2 / 4 + 1)),
        ("IBM公司", ["ibm 公司"], "chinese", 0.0, 1.0),
        ("", ["歐洲"], "chinese", 0.0, 0.0),
    ],
)
def test_answers_by_hand(found, answers, language, exact, f1):
    assert answer_figures(found, answers, language) == pytest.approx((exact, f1))


@pytest.mark.parametrize("language", ["english", "chinese"])
def test_no_answer_is_right_where_there_is_none(language):
    assert answer_figures("", [], language) == (1.0, 1.0) and answer_figures("x", [], language) == (0.0, 0.0)
    assert answer_figures("", ["x"], language) == (0.0, 0.0)


def test_questions_without_answers_are_counted_apart():
    """By SQuAD 2.0's script: a threshold of 0 answers the first two of four questions."""
    windows = [
        [Found(0, 3.0, "cat", 1.0), Found(1, 5.0, "a dog house", 4.0)],
        [Found(0, 2.0, "mat", 0.5), Found(2, 1.0, "sun", 2.0), Found(3, 1.0, "moon", 4.0)],
    ]
    truth = [["cat"], ["dog"], [], ["moon"]]
    scores = ReadingScores(truth, "english", lambda outputs, batch: windows[batch["number"]], 0.0)
    for number in range(2):
        scores.update({}, {"number": number})
    figures = scores.result()
    f1 = 2 / 3  # of "dog house" (articles do not count) against "dog"
    assert figures["exact"] == pytest.approx(2 / 4) and figures["f1"] == pytest.approx((1 + f1 + 1) / 4)
    assert figures["HasAns_exact"] == pytest.approx(1 / 3) and figures["HasAns_f1"] == pytest.approx((1 + f1) / 3)
    assert figures["NoAns_exact"] == figures["NoAns_f1"] == 1.0
    # Odds -2.5, -1, 1, 3: answering all but none would give 3 + f1 at best, less 1 for the third.
    assert figures["best_f1"] == pytest.approx((1 + f1 + 1) / 4) and figures["best_f1_thresh"] == -1.0
    assert figures["best_exact"] == pytest.approx(2 / 4) and figures["best_exact_thresh"] == -2.5
    always = ReadingScores(truth, "english", lambda outputs, batch: windows[batch["number"]])
    always.update({}, {"number": 0})
    assert set(always.result()) == {"exact", "f1", "average"} and always.result()["exact"] == 0.5


def test_the_best_threshold_is_the_best_of_all():
    rng = np.random.default_rng(0)
    for _ in range(50):
        count = int(rng.integers(1, 12))
        odds, answered = rng.normal(size=count), rng.random(count) < 0.6
        scores, empty = rng.random(count) * answered, rng.random(count) < 0.1
        found, threshold = best_threshold(scores.tolist(), answered.tolist(), empty.tolist(), odds.tolist())

        def mean_at(bound, odds=odds, answered=answered, scores=scores, empty=empty):
            given = odds <= bound
            return np.where(answered, scores * given, 1.0 - (given & ~empty)).mean()

        assert found == pytest.approx(max(mean_at(bound) for bound in [odds.min() - 1, *odds]))
        assert found == pytest.approx(mean_at(threshold)) or threshold == 0.0


def official_figures(questions, given, odds, threshold):
    """SQuAD 2.0's evaluation, written from its published rules (Rajpurkar et al. 2018) and nothing of ours.

    Right answers that normalise to nothing do not count; a question that has none left is answered by nothing. Whether
    a question has answers is asked of all of them. With a threshold a question that is not answered scores 1 where it
    has none, else 0.
    """

    def normal(text):
        kept = "".join(c for c in text.lower() if c not in string.punctuation)
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())

    def f1(gold, said):
        ours, theirs = normal(said).split(), normal(gold).split()
        if not ours or not theirs:
            return int(ours == theirs)
        same, left = 0, list(theirs)
        for word in ours:
            if word in left:
                left.remove(word)
                same += 1
        return 2 * same / (len(ours) + len(theirs)) if same else 0

    exact, overlap = [], []
    for answers, said in zip(questions, given, strict=True):
        golds = [gold for gold in answers if normal(gold)] or [""]
        exact.append(max(int(normal(gold) == normal(said)) for gold in golds))
        overlap.append(max(f1(gold, said) for gold in golds))
    has = [bool(answers) for answers in questions]
    result = {}
    for name, scores in (("exact", exact), ("f1", overlap)):
        chosen = [float(not has[i]) if odds[i] > threshold else scores[i] for i in range(len(has))]
        result[name] = sum(chosen) / len(has)
        for kind, wanted in (("HasAns", True), ("NoAns", False)):
            own = [chosen[i] for i in range(len(has)) if has[i] is wanted]
            result |= {f"{kind}_{name}": sum(own) / len(own)} if own else {}
        best = now = sum(not each for each in has)
        for i in sorted(range(len(has)), key=odds.__getitem__):
            now += scores[i] if has[i] else (-1 if given[i] else 0)
            best = max(best, now)
        result[f"best_{name}"] = best / len(has)
    return result


WORDS = ["the", "a", "an", ".", "The", "Paris", "paris,", "in", "1,000", "1000", "An", "--", "é", "\u00a0", "theatre"]


def test_squad_2_figures_are_those_of_its_published_rules_at_all_edges():
    draw = random.Random(0)

    def text(most):
        return " ".join(draw.choice(WORDS) for _ in range(draw.randrange(most)))

    for _ in range(200):
        questions = [[text(4) for _ in range(draw.choice([0, 1, 1, 2, 3]))] for _ in range(draw.randrange(1, 9))]
        given = [draw.choice([text(4), *answers]) for answers in questions]
        odds = [draw.uniform(-2, 2) for _ in questions]
        told = [Found(i, 0.0, said, odds[i]) for i, said in enumerate(given)]
        scores = ReadingScores(questions, "english", lambda outputs, batch, told=told: told, threshold=0.5)
        scores.update({}, {})
        figures = scores.result()
        for name, value in official_figures(questions, given, odds, 0.5).items():
            assert figures[name] == pytest.approx(value), (name, questions, given, odds)


@pytest.mark.parametrize(
    ("found", "answers", "figures"),
    [
        ("the", [], (1.0, 1.0)),  # nothing is left of what was given
        (" . ", ["the"], (1.0, 1.0)),
        ("Paris", ["."], (0.0, 0.0)),
        ("the", ["Paris", "an"], (0.0, 0.0)),  # "an" does not count beside a real answer
        ("", [""], (1.0, 1.0)),
    ],
)
def test_answers_of_which_nothing_is_left_do_not_count(found, answers, figures):
    assert answer_figures(found, answers) == figures
