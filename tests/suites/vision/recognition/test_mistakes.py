"""The most confident mistakes of classifiers: which samples, in which order, and how they look."""

import numpy as np
import pytest

from suites.classification.processor import ClassificationProcessor
from suites.video.processor import VideoProcessor
from suites.vision.recognition.metrics import Accuracy, Mistake, MultiLabel

TITLE = "Most confident mistakes"


def feed(metric, scores, key, truth, numbers):
    batch = {key: np.asarray(truth), "numbers": np.asarray(numbers)}
    metric.update({"scores": np.asarray(scores, np.float32)}, batch)
    return metric


def test_wrong_samples_go_by_the_score_of_the_wrong_class():
    scores = [[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.05, 0.95, 0.0], [np.nan, 1.0, 0.0], [0.5, 0.5, 0.0]]
    metric = feed(Accuracy(["cat", "dog", "cow"]), scores, "labels", [0, 2, 0, 1, 0], [7, 3, 5, 9, 11])
    cases = metric.worst(9)[TITLE]
    assert [(case.index, case.why) for case in cases] == [
        (5, "dog 0.95, but it is cat"),
        (3, "dog 0.70, but it is cow"),
        (11, "dog 0.50, but it is cat"),
    ]
    assert cases[0].detail == Mistake(("cat",), (("dog", pytest.approx(0.95)),))
    assert len(metric.worst(1)[TITLE]) == 1


def test_samples_that_tell_no_number_are_no_cases():
    metric = Accuracy(["cat", "dog"])
    metric.update({"scores": np.array([[0.1, 0.9]])}, {"labels": np.array([0])})
    assert metric.worst(5)[TITLE] == [] and metric.result()["top1"] == 0


def test_cases_of_merged_parts_are_those_of_the_whole():
    rng = np.random.default_rng(0)
    scores, labels, numbers = rng.random((30, 4)), rng.integers(0, 4, 30), rng.permutation(30)
    names = list("abcd")
    whole = feed(Accuracy(names), scores, "labels", labels, numbers)
    first = feed(Accuracy(names), scores[:11], "labels", labels[:11], numbers[:11])
    first.merge(feed(Accuracy(names), scores[11:], "labels", labels[11:], numbers[11:]).state())
    assert first.worst(12) == whole.worst(12)


def test_of_several_classes_the_surest_wrong_answer_counts():
    truth, scores = [[1, 0, 1], [0, 0, 0], [1, 1, 0]], [[0.9, 0.95, 0.8], [0.1, 0.2, 0.3], [0.9, 0.1, 0.2]]
    cases = feed(MultiLabel(["cat", "dog", "cow"]), scores, "targets", truth, [4, 5, 6]).worst(9)[TITLE]
    assert [(case.index, case.why) for case in cases] == [
        (4, "dog 0.95, which it has not; it is cat, cow"),
        (6, "dog 0.10, which it has; it is cat, dog"),
    ]
    assert [name for name, _ in cases[0].detail.said] == ["dog", "cat", "cow"]


@pytest.mark.parametrize("shape", [(60, 80, 3), (1, 5000, 3), (900, 30, 3)])
def test_a_mistake_is_drawn_with_words_below_the_picture(shape):
    processor = ClassificationProcessor([], ["cat", "d" * 300])
    mistake = Mistake(("cat",), (("d" * 300, 0.99),))
    picture = processor.draw_mistake(np.full(shape, 100, np.uint8), mistake)
    assert picture.dtype == np.uint8 and picture.shape[2] == 3
    below = picture[-picture.shape[0] // 3 :].reshape(-1, 3) if shape[0] < 100 else picture[-40:].reshape(-1, 3)
    assert (below == 255).all(axis=1).any() and (below != 255).any()


def test_a_mistake_of_a_clip_is_a_strip_of_its_frames():
    processor = VideoProcessor([], ["run", "jump"], (4, 1, 1, 1))
    mistake = Mistake(("run",), (("jump", 0.9),))
    frames = np.repeat(np.arange(4, dtype=np.uint8)[:, None, None, None] * 60, 40, 1).repeat(60, 2).repeat(3, 3)
    strip = processor.draw_mistake(frames, mistake)
    assert strip.shape[1] > 3 * 240 and len(np.unique(strip[80, ::40, 0])) >= 4
