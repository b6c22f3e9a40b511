"""Every suite's metric: two halves of an evaluation set, each seen by another metric, give the figures of the whole."""

import numpy as np
import pytest

from framework.errors import DataError
from suites.anomaly.metrics import AnomalyMetric
from suites.ctr.metrics import ClickScores
from suites.ctr.retrieval.scores import RetrievalScores
from suites.detection.metrics import CocoEvaluator, VocEvaluator
from suites.detection.task import BoxMetric
from suites.engine.contract.metric import Metric
from suites.generation.features import Features
from suites.generation.metrics import GenerationMetric
from suites.keypoints.decoding import Reader
from suites.keypoints.metrics import Figures as PoseFigures
from suites.keypoints.metrics import PoseMetric
from suites.nlp.metrics import (
    ChunkScores,
    ClassScores,
    NumberScores,
    PretrainingScores,
    RankingScores,
    ReadingScores,
    VectorScores,
)
from suites.nlp.metrics.language import BothWays, LanguageScores
from suites.nlp.metrics.reading import Found
from suites.nlp.metrics.writing import WrittenScores
from suites.ocr.alphabet import Alphabet
from suites.ocr.metrics import FoundTexts, ReadLines, ToldDirections
from suites.ocr.sample import PageSample
from suites.retrieval.datasets.pairs import Pairs
from suites.retrieval.metrics import Neighbours, Verification
from suites.segmentation.task import Figures, SegmentationMetric
from suites.video.metrics import TaggedVideos
from suites.vision.recognition.metrics import Accuracy, MultiLabel
from suites.vision.structures import Boxes, Instances
from tests.suites.detection.test_metrics import truth_of

RNG = np.random.default_rng(0)
SIZE, HALF = 24, 9


def classes_of(k, key):
    """A feed of scores [N, K] with N labels."""
    scores, truth = RNG.random((SIZE, k)), RNG.integers(0, k, SIZE)

    def feed(metric, part):
        metric.update({"scores": scores[part]}, {key: truth[part]})

    return feed


def numbers():
    truth = RNG.random(SIZE)
    scores = truth + RNG.normal(0, 0.3, SIZE)
    return lambda metric, part: metric.update({"scores": scores[part]}, {"targets": truth[part]})


def pretraining():
    words, pairs = np.log(RNG.dirichlet(np.ones(5), SIZE)), RNG.random((SIZE, 2))
    targets, related = RNG.integers(0, 5, SIZE), RNG.integers(-1, 2, SIZE)
    return lambda metric, part: metric.update(
        {"words": words[part], "pairs": pairs[part]}, {"targets": targets[part], "related": related[part]}
    )


def next_words():
    """Log-probabilities whose sums are exact."""
    rng = np.random.default_rng(6)
    scores, targets = -rng.integers(1, 64, (SIZE, 5)) / 8, rng.integers(0, 5, SIZE)
    characters = rng.integers(1, 9, SIZE).astype(np.float64)
    return lambda metric, part: metric.update(
        {"scores": scores[part]},
        {"targets": targets[part], "characters": characters[part], "bytes": 2 * characters[part]},
    )


def both_ways():
    """Log-probabilities whose sums are exact, of which some count nothing."""
    rng = np.random.default_rng(7)
    scores = -rng.integers(1, 64, (2, SIZE, 5)) / 8
    targets = np.where(rng.random((2, SIZE)) < 0.2, -100, rng.integers(0, 5, (2, SIZE)))
    return lambda metric, part: metric.update(
        {"next": scores[0][part], "previous": scores[1][part]},
        {"targets": targets[0][part], "before": targets[1][part]},
    )


class WrittenTexts:
    """A writer that is done at once."""

    is_done = True

    def __init__(self, texts):
        self.texts = texts

    def take(self, outputs):
        """Nothing is left to write."""


def written():
    rng = np.random.default_rng(7)
    references, texts = ([" ".join(rng.choice(list("abcd"), 5)) for _ in range(SIZE)] for _ in range(2))
    texts[::3] = references[::3]

    def feed(metric, part):
        examples = np.arange(SIZE)[part]
        metric.update({}, {"writer": WrittenTexts([texts[i] for i in examples]), "example": examples})

    return lambda: WrittenScores(references, lambda writer: writer.texts, ("exact",)), feed


def reading():
    """Two windows a question, which the halves share."""
    score, null, right = RNG.random(SIZE), RNG.random(SIZE), RNG.random(SIZE) < 0.6
    answers = [Found(i // 2, score[i], f"answer {i // 2}" if right[i] else "else", null[i]) for i in range(SIZE)]
    metric = lambda: ReadingScores(  # noqa: E731
        [[f"answer {i}"] if i % 3 else [] for i in range(SIZE // 2)], "english", lambda found, _: found["own"], 0.1
    )
    return metric, lambda metric, part: metric.update({"own": answers[part]}, {})


def chunks():
    """Sentences of four words, cut into windows of two, which the halves share."""
    names = ["O", "B-X", "I-X", "B-Y", "I-Y"]
    truth = [[names[k] for k in RNG.integers(0, 5, 4)] for _ in range(SIZE // 2)]
    tags = RNG.integers(0, 5, (SIZE, 3))

    def feed(metric, part):
        rows = range(SIZE)[part]
        metric.update(
            {"tags": tags[part].reshape(-1)},
            {
                "example": np.array([row // 2 for row in rows]),
                "offsets": np.arange(len(rows) + 1) * 3,
                "words": np.concatenate([[-1, row % 2 * 2, row % 2 * 2 + 1] for row in rows]),
            },
        )

    return lambda: ChunkScores(truth, names), feed


def boxes(evaluator):
    def box():
        return tuple(np.array([0, 0, 40, 40]) + np.tile(RNG.integers(0, 20, 2), 2))

    truth = truth_of([[(box(), int(RNG.integers(3))) for _ in range(2)] for _ in range(SIZE)])
    # Few different scores, so that the order of equal ones matters.
    found = [Instances(Boxes(np.array([box(), box()])), RNG.integers(0, 3, 2), RNG.integers(1, 4, 2) / 4)
             for _ in range(SIZE)]  # fmt: skip

    def feed(metric, part):
        for at in range(SIZE)[part]:
            metric._evaluator.add(100 + at, found[at])

    return lambda: BoxMetric(evaluator(truth), truth.image_ids), feed


def label_maps():
    truth, found = RNG.integers(0, 3, (2, SIZE, 4, 5)).astype(np.uint8)

    def feed(metric, part):
        for a, b in zip(truth[part], found[part], strict=True):
            metric.add(a, b)

    return lambda: SegmentationMetric(["a", "b", "c"], Figures(0.2)), feed


def poses():
    """People of 17 points, some of them unlabelled."""
    maps = RNG.random((SIZE, 12, 12, 17)).astype(np.float32)
    truth = np.concatenate([RNG.uniform(0, 48, (SIZE, 17, 2)), RNG.integers(0, 3, (SIZE, 17, 1))], axis=2)
    batch = {"truth": truth, "areas": np.full(SIZE, 4000.0), "sides": np.full((SIZE, 2), 48.0)}
    batch |= {"image_ids": np.arange(SIZE) // 2, "matrices": np.tile(np.eye(2, 3), (SIZE, 1, 1))}

    def feed(metric, part):
        metric.update({"heatmaps": maps[part]}, {name: values[part] for name, values in batch.items()})

    return lambda: PoseMetric(PoseFigures(normaliser=(1, 2)), 17, Reader(4, 2.0)), feed


def several(kind=MultiLabel):
    """Samples with any number of 4 classes."""
    truth, scores = (RNG.random((SIZE, 4)) < 0.4).astype(np.float32), RNG.random((SIZE, 4))

    def feed(metric, part):
        metric.update({"scores": scores[part]}, {"targets": truth[part]})

    return lambda: kind(list("abcd")), feed


def clicks():
    """Rows of three users, with weights; the halves share the users."""
    scores, labels = RNG.random((SIZE, 2)).astype(np.float32), (RNG.random((SIZE, 2)) < 0.5).astype(np.float32)
    more = {"group": np.arange(SIZE) % 3, "weight": RNG.random(SIZE).astype(np.float32)}

    def feed(metric, part):
        metric.update({"scores": scores[part]}, {"labels": labels[part], **{k: v[part] for k, v in more.items()}})

    return lambda: ClickScores(["click", "buy"]), feed


def next_items():
    """Users, the items they clicked and a catalogue of ten."""
    vectors, users = RNG.normal(size=(10, 3)), RNG.normal(size=(SIZE, 3))
    sparse, labels = RNG.integers(0, 12, (SIZE, 1)), (RNG.random((SIZE, 1)) < 0.7).astype(np.float32)

    def feed(metric, part):
        metric.update({"users": users[part]}, {"sparse": sparse[part], "labels": labels[part]})

    return lambda: RetrievalScores(np.arange(10), vectors, item=0, k=3), feed


def found_texts():
    def square(x):
        return np.array([[x, 0], [x + 20, 0], [x + 20, 10], [x, 10]], np.float32)

    def feed(metric, rows):
        for number in range(SIZE)[rows]:
            ignored = np.array([False, number % 3 == 0])
            image, polygons = np.zeros((4, 4, 3), np.uint8), (square(0), square(40))
            sample = PageSample(image=image, polygons=polygons, texts=("ab", "c"), ignored=ignored, number=number)
            metric.add(sample, [square(number % 13), square(40)], ["ab" if number % 2 else "b", "c"])

    return lambda: FoundTexts(reads=True), feed


def read_lines():
    rng = np.random.default_rng(5)
    read, texts = rng.integers(0, 4, (SIZE, 6)), ["".join(rng.choice(list("abc"), 3)) for _ in range(SIZE)]

    def feed(metric, rows):
        outputs = {"characters": read[rows], "scores": np.ones(read[rows].shape, np.float32)}
        metric.update(outputs, {"numbers": np.arange(SIZE)[rows], "texts": texts[rows]})

    return lambda: ReadLines(Alphabet("abc")), feed


def told_directions():
    rng = np.random.default_rng(6)
    down = rng.random(SIZE).astype(np.float32)
    found, true = np.stack([1 - down, down], axis=1), rng.integers(0, 2, SIZE)

    def feed(metric, rows):
        metric.update({"direction": found[rows]}, {"numbers": np.arange(SIZE)[rows], "down": true[rows]})

    return lambda: ToldDirections(0.9), feed


def unit_vectors():
    vectors = RNG.normal(size=(SIZE, 4)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def defects():
    labels, maps = np.arange(SIZE) % 2, RNG.random((SIZE, 6, 5)).astype(np.float32)
    masks = (maps > 0.7).astype(np.uint8) * labels[:, None, None].astype(np.uint8)

    def feed(metric, part):
        batch = {"labels": labels[part], "numbers": np.arange(SIZE)[part], "masks": masks[part]}
        metric.update({"scores": maps[part].max(axis=(1, 2)), "maps": maps[part]}, batch)

    return lambda: AnomalyMetric(masks=True), feed


class Vectors:
    """Stands for a network: a picture's first row is its vector."""

    name, width = "drawn", 4

    def __call__(self, images):
        """[N, 4], whole numbers, whose sums are exact."""
        return images[:, 0, :4, 0]

    def of_real(self, images):
        """As for drawn ones."""
        return self(images)


def drawn_pictures():
    """Numbers are eighths, so that their sums are exact."""
    rng = np.random.default_rng(8)
    images, made, back = (rng.integers(-8, 9, (SIZE, 4, 4, 3)).astype(np.float32) / 8 for _ in range(3))

    def feed(metric, part):
        numbers = np.arange(SIZE)[part]
        given = {"images": images[part], "numbers": numbers, "counts": np.ones((len(numbers), 2), bool)}
        metric.update({"made": made[part], "back": back[part]}, {**given, "name": [str(n) for n in numbers]})

    return lambda: GenerationMetric(Vectors(), Features(subsets=4, subset_size=8)), feed


def neighbours():
    vectors, labels = unit_vectors(), RNG.integers(0, 5, SIZE)

    def feed(metric, part):
        metric.update({"vectors": vectors[part]}, {"labels": labels[part], "numbers": np.arange(SIZE)[part]})

    return Neighbours, feed


def verified():
    """Pairs across both halves, in three folds."""
    vectors, first = unit_vectors(), RNG.integers(0, SIZE, 30)
    pairs = Pairs(first, (first + 1 + np.arange(30)) % SIZE, np.arange(30) % 2 == 0, np.arange(30) // 10)

    def feed(metric, part):
        metric.update({"vectors": vectors[part]}, {"numbers": np.arange(SIZE)[part]})

    return lambda: Verification(pairs), feed


def queries():
    """Scores of six queries of four rows, of which each fits or does not."""
    scores, gains = RNG.random(SIZE), (np.arange(SIZE) % 2).astype(float)
    rows = {"gains": gains, "groups": np.arange(SIZE) // 4}
    return lambda metric, part: metric.update(
        {"scores": scores[part]}, {name: values[part] for name, values in rows.items()}
    )


def pairs_of_vectors(judged):
    """Vectors of the texts of pairs, some of which stand in several."""
    vectors, numbers = RNG.normal(size=(SIZE, 2, 5)).astype(np.float32), np.arange(SIZE)
    vectors[:, 0] = vectors[numbers // 4 * 4, 0]
    rows = {"gains": (numbers % 2).astype(float), "groups": numbers // 4, "anchors": numbers // 4, "matches": numbers}

    def feed(metric, part):
        batch = {name: values[part] for name, values in rows.items()}
        metric.update({"vectors": vectors[part].reshape(-1, 5)}, batch)

    return lambda: VectorScores(judged, (2,)), feed


CASES = {
    "Accuracy": (lambda: Accuracy([str(k) for k in range(7)]), classes_of(7, "labels")),
    "MultiLabel": several(),
    "TaggedVideos": several(TaggedVideos),
    "ClickScores": clicks(),
    "RetrievalScores": next_items(),
    "ClassScores": (lambda: ClassScores(["no", "yes"], np.arange(SIZE) // 4), classes_of(2, "targets")),
    "RankingScores": (RankingScores, queries()),
    "VectorScores": pairs_of_vectors("scores"),
    "VectorScores of groups": pairs_of_vectors("groups"),
    "VectorScores of a corpus": pairs_of_vectors("corpus"),
    "NumberScores": (NumberScores, numbers()),
    "PretrainingScores": (PretrainingScores, pretraining()),
    "LanguageScores": (LanguageScores, next_words()),
    "BothWays": (BothWays, both_ways()),
    "WrittenScores": written(),
    "ReadingScores": reading(),
    "ChunkScores": chunks(),
    "CocoEvaluator": boxes(CocoEvaluator),
    "VocEvaluator": boxes(VocEvaluator),
    "SegmentationMetric": label_maps(),
    "PoseMetric": poses(),
    "FoundTexts": found_texts(),
    "ReadLines": read_lines(),
    "ToldDirections": told_directions(),
    "GenerationMetric": drawn_pictures(),
    "AnomalyMetric": defects(),
    "Neighbours": neighbours(),
    "Verification": verified(),
}


@pytest.mark.parametrize("name", CASES)
def test_two_halves_merged_give_the_figures_of_the_whole(name):
    make, feed = CASES[name]
    whole, first, second, merged = make(), make(), make(), make()
    feed(whole, slice(None))
    feed(first, slice(HALF))
    feed(second, slice(HALF, None))
    for part in (first, second):
        merged.merge(part.state())
    assert merged.result() == whole.result() and merged.report() == whole.report()


@pytest.mark.parametrize("name", sorted({"CocoEvaluator", "VocEvaluator", "ReadingScores", "ChunkScores"}))
def test_the_order_in_which_parts_are_merged_does_not_matter(name):
    make, feed = CASES[name]
    whole, first, second = make(), make(), make()
    feed(whole, slice(None))
    feed(first, slice(HALF))
    feed(second, slice(HALF, None))
    second.merge(first.state())
    assert second.result() == pytest.approx(whole.result(), abs=1e-12)


def test_every_metric_of_the_suites_is_tried():
    def below(cls):
        return {cls, *(sub for child in cls.__subclasses__() for sub in below(child))}

    ours = {c.__name__ for c in below(Metric) if c.__module__.startswith("suites.")} - {"Metric", "ArrayMetric"}
    assert ours == {*(name.partition(" ")[0] for name in CASES), "BoxMetric"} - {"CocoEvaluator", "VocEvaluator"}


def test_an_image_that_two_parts_have_seen_is_refused():
    make, feed = CASES["CocoEvaluator"]
    first, second = make(), make()
    feed(first, slice(HALF))
    feed(second, slice(HALF - 1, None))
    with pytest.raises(DataError, match=r"image 108 was added already; merge parts that share none"):
        first.merge(second.state())
