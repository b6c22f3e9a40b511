"""Mistakes of text models: which examples, in which order, and their texts with marks."""

import numpy as np

from suites.nlp.datasets import Labelled, Question, Tagged
from suites.nlp.metrics import ChunkScores, ClassScores, NumberScores, ReadingScores
from suites.nlp.metrics.reading import Found
from suites.nlp.problems.classification import Classification
from suites.nlp.problems.reading import Reading
from suites.nlp.problems.tagging import Tagging

SURE = "Most confident mistakes"


def whys(cases):
    return [(case.index, case.why) for case in cases]


def test_texts_go_by_the_score_of_the_wrong_class():
    metric = ClassScores(["no", "yes"])
    scores = np.array([[0.9, 0.1], [0.3, 0.7], [0.8, 0.2], [np.nan, 1.0]])
    metric.update({"scores": scores}, {"targets": np.array([0, 0, 1, 0]), "example": np.array([3, 5, 1, 2])})
    assert whys(metric.worst(9)[SURE]) == [(1, "no 0.80, but it is yes"), (5, "yes 0.70, but it is no")]
    unnumbered = ClassScores(["no", "yes"])
    unnumbered.update({"scores": scores[:3]}, {"targets": np.array([1, 1, 0])})
    assert unnumbered.worst(9)[SURE] == []


def test_numbers_go_by_how_far_they_are_off_and_are_plotted():
    metric = NumberScores()
    metric.update(
        {"scores": np.array([1.0, 4.0, np.nan])}, {"targets": np.array([1.0, 0.5, 2]), "example": np.arange(3)}
    )
    assert whys(metric.worst(9)["Largest errors"]) == [(1, "said 4, but it is 0.5")]
    (plot,) = metric.plots()
    assert plot.series["measured"] == ([0.5, 1.0, 2.0], [4.0, 1.0, None])


def test_sentences_go_by_their_wrong_tags_which_are_marked():
    truth = [("O", "B-X", "I-X"), ("B-X", "O"), ("O",)]
    metric = ChunkScores(truth, ["O", "B-X", "I-X"])
    batch = {"example": np.array([0, 1, 2]), "offsets": np.array([0, 3, 5, 6]), "words": np.array([0, 1, 2, 0, 1, 0])}
    metric.update({"tags": np.array([1, 0, 2, 0, 0, 0])}, batch)
    cases = metric.worst(9)["Most wrong tags"]
    assert whys(cases) == [(0, "2 of 3 tags are wrong"), (1, "1 of 2 tags are wrong")]
    runs = Tagging("spaces").show_mistake(Tagged(("the", "big", "<b>dog"), truth[0]), cases[0].detail)
    assert [run for run in runs if run[1]] == [("the", "wrong"), ("big", "wrong"), ("<b>dog ", "right")]
    assert (" (B-X, not O) ", "") in runs


def test_answers_that_share_nothing_with_the_right_one_are_marked_in_the_passage():
    passage = "x" * 500 + " the red fox saw the blue whale " + "y" * 500
    found = [Found(0, 5.0, "red fox", 0.0), Found(1, 9.0, "blue whale", 0.0), Found(2, 7.0, "red fox", 0.0)]
    metric = ReadingScores([["blue whale"], ["blue whale"], []], "english", lambda outputs, _: outputs["own"], 100.0)
    metric.update({"own": found}, {})
    cases = metric.worst(9)[SURE]
    assert whys(cases) == [
        (2, "said 'red fox', but it is '(no answer)'"),
        (0, "said 'red fox', but it is 'blue whale'"),
    ]
    right = passage.index("blue whale")
    question = Question("k", "What?", passage, ("blue whale",), (right,))
    runs = list(Reading().show_mistake(question, cases[1].detail))
    assert ("red fox", "wrong") in runs and ("blue whale", "right") in runs
    assert sum(len(text) for text, _ in runs) < 520 and runs[0][0].startswith("What?")
    everything = "".join(text for text, _ in Reading().show_mistake(Question("k", "Q", "short", ("short",), (0,)), ""))
    assert everything == "Q\n\nshort"


def test_pairs_are_shown_as_both_texts():
    assert list(Classification(pair=True).show_mistake(Labelled("a", "b"), None)) == [("a\n\n", ""), ("b", "")]
    assert list(Classification().show_mistake(Labelled("a"), None)) == [("a", "")]
