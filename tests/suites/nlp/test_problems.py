"""Problems turn examples into the sequences of BERT's recipes, and predictions back into what they say of the text."""

import numpy as np
import pytest

from framework import from_numpy
from framework.errors import AttributeValueError, ConfigError, DataError
from suites.nlp.datasets import Labelled, Question, Tagged, Tsv
from suites.nlp.losses import IGNORED, CrossEntropy, SpanCrossEntropy, SquaredError, two_way_divergence
from suites.nlp.problems import Classification, Reading, Regression, Tagging
from suites.nlp.problems.reading import Decoding, _parts, _widest, best_answers
from suites.nlp.sequences import Encoded, Sequencer
from suites.nlp.tokenizers import BertTokenizer, WordTokenizer
from suites.nlp.transforms import RemoveSpaces

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PAD, UNK, CLS, SEP = range(4)
BERT = BertTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *LETTERS, *(f"##{c}" for c in LETTERS)])


def ids(text):
    return [4 + LETTERS.index(c) for c in text]


def encoder(**options):
    return Sequencer(BERT, **{"max_length": 12, **options})


def one(problem, example, enc, classes=("0", "1"), **options):
    return problem.encode([example], enc, list(classes), lambda i: f"f.tsv:{i + 1}", **options)[0]


def test_single_texts_are_cut_to_fit():
    sample = one(Classification(), Labelled(" ".join(LETTERS), label="1"), encoder())
    assert sample["ids"].tolist() == [CLS, *ids("abcdefghij"), SEP] and sample["targets"] == 1
    assert not sample["segment_ids"].any() and sample["name"] == "f.tsv:1"


def test_an_empty_text_is_its_special_tokens():
    assert one(Classification(), Labelled("", label="0"), encoder())["ids"].tolist() == [CLS, SEP]
    words = WordTokenizer()
    words.learn(["a b"])
    sample = one(Classification(), Labelled(" ", label="0"), Sequencer(words))
    assert sample["ids"].tolist() == [words.unknown]  # a sequence has a token


@pytest.mark.parametrize(
    ("truncation", "first", "second"),
    [("longest_first", "abcde", "mnop"), ("only_first", "abc", "mnopqr"), ("only_second", "abcdefg", "mn"),
     ("half", "abcde", "mnop")],
)  # fmt: skip
def test_pairs_are_cut_as_asked(truncation, first, second):
    example = Labelled("a b c d e f g", "m n o p q r", "1")
    sample = one(Classification(pair=True), example, encoder(truncation=truncation))
    assert sample["ids"].tolist() == [CLS, *ids(first), SEP, *ids(second), SEP]
    assert sample["segment_ids"].tolist() == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def test_the_longer_text_loses_tokens_until_both_fit():
    """As popping the longer one, the second where both are equal, does."""
    for a in range(0, 14):
        for b in range(0, 14):
            first, second = list(range(a)), list(range(b))
            while len(first) + len(second) > 9:
                (first if len(first) > len(second) else second).pop()
            cut = encoder().cut(np.arange(a), np.arange(b))
            assert (len(cut[0]), len(cut[1])) == (len(first), len(second)), (a, b)


def test_pairs_of_words_are_separated():
    words = WordTokenizer()
    words.learn(["a b c"])
    sample = one(Classification(pair=True), Labelled("a b", "c", "1"), Sequencer(words))
    assert sample["ids"].tolist() == [3, 4, words.closing, 5] and sample["segment_ids"].tolist() == [0, 0, 0, 1]


def test_labels_not_seen_in_training_are_named():
    with pytest.raises(DataError, match=r"f.tsv:1: label 'x' was not seen in training; known are 0, 1"):
        one(Classification(), Labelled("a", label="x"), encoder())
    with pytest.raises(DataError, match=r"f.tsv:1: label 'nan' is no number"):
        one(Regression(pair=False), Labelled("a", label="nan"), encoder())
    with pytest.raises(DataError, match=r"f.tsv:1: tag 'B-X' was not seen in training; known are O"):
        one(Tagging(), Tagged(("a",), ("B-X",)), encoder(), ["O"])


def test_texts_and_pairs_are_not_mixed():
    with pytest.raises(DataError, match=r"f.tsv:1: has one text but problem.pair is true"):
        one(Classification(pair=True), Labelled("a", label="0"), encoder())
    with pytest.raises(DataError, match=r"f.tsv:1: has two texts but problem.pair is false"):
        one(Classification(), Labelled("a", "b", "0"), encoder())


def test_a_problem_refuses_other_examples(tmp_path):
    (tmp_path / "a.tsv").write_text("label\ttext_a\n0\ta\n")
    with pytest.raises(ConfigError, match="Tagging: takes Tagged examples but Tsv has Labelled"):
        Tagging().check(Tsv(str(tmp_path / "a.tsv")), encoder())


def test_classes_are_not_learnt_from_texts_of_one(tmp_path):
    (tmp_path / "a.tsv").write_text("text_a\tlabel\na\tpos\nb\tpos\n")
    with pytest.raises(DataError, match="all 2 samples are of one class, 'pos'"):
        Classification().check_training(Tsv(str(tmp_path / "a.tsv")))


def test_a_word_is_tagged_by_its_first_piece():
    example = Tagged(("ab", "c", "de"), ("B-X", "O", "I-X"))
    sample = one(Tagging("spaces"), example, encoder(), ["O", "B-X", "I-X"])
    b, e = (4 + 26 + LETTERS.index(c) for c in "be")
    assert sample["ids"].tolist() == [CLS, ids("a")[0], b, ids("c")[0], ids("d")[0], e, SEP]
    assert sample["words"].tolist() == [-1, 0, -1, 1, 2, -1, -1]
    assert sample["targets"].tolist() == [IGNORED, 1, IGNORED, 0, 2, IGNORED, IGNORED]


def test_long_sentences_are_cut_between_words_and_put_together_again():
    words = tuple("ab" if i % 3 else "c" for i in range(17))
    tags = tuple("B-X" if i % 2 else "O" for i in range(17))
    problem, classes = Tagging("spaces"), ["O", "B-X"]
    encoded = problem.encode([Tagged(words, tags)], encoder(), classes, lambda i: "f:1")
    samples = [encoded[i] for i in range(len(encoded))]
    assert len(samples) == 3 and all(len(s["ids"]) <= 12 for s in samples)
    offsets = np.cumsum([0, *(len(s["ids"]) for s in samples)])
    batch = {k: np.concatenate([s[k] for s in samples]) for k in ("words", "targets")}
    batch |= {"offsets": offsets, "example": np.array([s["example"] for s in samples])}
    outputs = {"tags": np.maximum(batch["targets"], 0)}
    (result,) = problem.results(outputs, batch, [Tagged(words)], classes)
    assert result["tags"] == list(tags) and result["chunks"][0] == {"type": "X", "text": words[1], "words": [1, 1]}


def test_tag_classes_are_all_prefixes_of_all_types(tmp_path):
    (tmp_path / "a.tsv").write_text("")
    from suites.nlp.datasets import CharTags

    (tmp_path / "a.bmes").write_text("a B-Y\nb E-Y\nc O\nd S-X\n")
    assert Tagging().classes(CharTags(str(tmp_path / "a.bmes"))) == ["O", "B-X", "E-X", "S-X", "B-Y", "E-Y", "S-Y"]


def test_windows_cover_a_passage_and_share_its_tokens():
    assert _parts(10, 6, 3) == [(0, 6), (3, 9), (6, 10)] and _parts(4, 6, 3) == [(0, 4)] and _parts(0, 6, 3) == [(0, 0)]
    for length, room, stride in ((10, 6, 3), (100, 17, 5), (7, 7, 7)):
        parts = _parts(length, room, stride)
        best = _widest(parts, length)
        counted = np.zeros(length)
        for (first, last), own in zip(parts, best, strict=True):
            counted[first:last] += own
        assert (counted == 1).all()
    # BERT's rule: the smaller of the contexts at both sides, and a hundredth of the window's length.
    assert best[0].all() and _widest([(0, 6), (3, 9)], 9)[0].tolist() == [True] * 4 + [True, False]


def test_the_windows_of_a_very_long_passage_need_memory_for_its_tokens_alone():
    parts = _parts(2_000_000, 200, 128)  # of windows by tokens it would be 250 GB
    assert sum(own.sum() for own in _widest(parts, 2_000_000)) == 2_000_000


def test_answers_have_places_in_their_windows():
    passage = "a b c d e f g h i j k l m n o p"
    example = Question("7", "q r", passage, ("l m",), (passage.index("l"),))
    encoded = Reading(doc_stride=4).encode([example], encoder(max_length=14), [], lambda i: "q7")
    windows = [encoded[i] for i in range(len(encoded))]
    assert len(windows) == 3 and [w["ids"][:4].tolist() for w in windows] == [[CLS, *ids("qr"), SEP]] * 3
    for window in windows:
        start, end = window["targets"].tolist()
        if start:
            assert window["ids"][start : end + 1].tolist() == ids("lm")
            assert passage[window["spans"][start, 0] : window["spans"][end, 1]] == "l m"
    assert [w["targets"][0] > 0 for w in windows] == [False, True, True]


def test_a_question_longer_than_the_room_is_cut():
    example = Question("7", " ".join(LETTERS), "x y z", ("y",), (2,))
    sample = one(Reading(), example, encoder())
    assert len(sample["ids"]) <= 12 and sample["targets"][0] > 0


@pytest.mark.parametrize(
    ("problem", "enc", "example", "match"),
    [
        (Reading(), encoder(transforms=[RemoveSpaces()]), Question("7", "q", "a", ("a",), (0,)), "moves characters"),
        (
            Reading(),
            Sequencer(WordTokenizer(vocabulary=["[PAD]", "[UNK]", "[SEP]"])),
            Question("7", "q", "a"),
            "needs a",
        ),
        (Reading(), encoder(), Question("7", "q", "a"), "f.tsv:1: has no answer to learn from"),
        (Reading(unanswerable=True), encoder(), Question("7", "q", "a"), "f.tsv:1: has no answer to learn from"),
        (Reading(), encoder(), Question("7", "q", "a", impossible=True), "learn from; .* set problem.unanswerable"),
        (Reading(), encoder(), Question("7", "q", "a  b", ("  ",), (1,)), "f.tsv:1: no token covers the answer"),
    ],
)
def test_what_cannot_be_read_is_said(problem, enc, example, match):
    with pytest.raises(DataError, match=match):
        one(problem, example, enc)
    with pytest.raises(AttributeValueError, match="doc_stride is 0"):
        Reading(doc_stride=0)
    with pytest.raises(AttributeValueError, match="n_best is 0"):
        Decoding(n_best=0)


def test_the_best_answers_start_before_they_end():
    spans = np.array([[-1, -1], [0, 1], [2, 3], [4, 5], [-1, -1]])
    widest = np.array([False, True, True, True, False])
    starts, ends = np.array([9.0, 1, 2, 3, 9]), np.array([9.0, 3, 2, 1, 9])
    found = best_answers(starts, ends, spans, widest, Decoding(n_best=3, max_answer=2))
    # All three of one token have 4; those of two tokens 3.
    assert sorted((a.score, a.start, a.end) for a in found) == [(4.0, 0, 1), (4.0, 2, 3), (4.0, 4, 5)]
    assert best_answers(starts, ends, spans, widest & (spans[:, 0] == 2), Decoding())[0] == (4.0, 2, 3)
    assert best_answers(starts, ends, np.full_like(spans, -1), np.zeros(5, bool), Decoding()) == []


def test_an_answer_has_its_n_best():
    problem = Reading()
    enc = encoder()
    example = Question("", "q", "a b c")
    encoded = problem.encode([example], enc, [], lambda i: "", truth=False)[0]
    assert "targets" not in encoded
    batch = {**encoded, "offsets": np.array([0, len(encoded["ids"])]), "example": np.array([0])}
    logits = np.zeros(len(encoded["ids"]), np.float32)
    logits[4] = 5.0  # [CLS] q [SEP] a b c [SEP]
    (result,) = problem.results({"starts": logits, "ends": logits}, batch, [example], [])
    assert result["answer"] == "b" and result["n_best"][0] == {
        "text": "b",
        "start": 2,
        "probability": pytest.approx(0.98, abs=0.02),
    }
    assert sum(row["probability"] for row in result["n_best"]) == pytest.approx(1, abs=1e-4)


def test_no_answer_is_learned_at_the_first_token():
    example = Question("7", "q", "a b c d e f g h i", impossible=True)
    encoded = Reading(unanswerable=True, doc_stride=3).encode([example], encoder(max_length=10), [], lambda i: "q7")
    assert len(encoded) == 2 and not any(encoded[i]["targets"].any() for i in range(2))


@pytest.mark.parametrize(("threshold", "answer"), [(0.0, ""), (2.0, "b")])
def test_no_answer_is_given_where_its_score_is_higher_by_the_threshold(threshold, answer):
    problem = Reading(unanswerable=True, decoding=Decoding(null_threshold=threshold))
    example, enc = Question("", "q", "a b c"), encoder()
    encoded = problem.encode([example], enc, [], lambda i: "", truth=False)[0]
    batch = {**encoded, "offsets": np.array([0, len(encoded["ids"])]), "example": np.array([0])}
    logits = np.zeros(len(encoded["ids"]), np.float32)
    logits[0], logits[4] = 3.0, 2.5  # [CLS] q [SEP] a b c [SEP]: 6 for none, 5 for "b"
    (result,) = problem.results({"starts": logits, "ends": logits}, batch, [example], [])
    assert result["answer"] == answer and result["null_odds"] == 1.0 and result["n_best"][0]["text"] == ""
    assert sum(row["probability"] for row in result["n_best"]) == pytest.approx(1, abs=1e-4)
    assert problem.describe(example, result) == f"q -> {answer or '(no answer)'}"


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def test_losses_by_hand():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4, 3)).astype(np.float32)
    targets = np.array([0, IGNORED, 2, 1])
    expected = np.mean([-np.log(softmax(logits[i])[t]) for i, t in enumerate(targets) if t >= 0])
    loss = CrossEntropy()(from_numpy(logits), from_numpy(targets))["cross_entropy"]
    assert float(loss.mean) == pytest.approx(expected, rel=1e-6) and float(loss.weight) == 3
    nothing = CrossEntropy()(from_numpy(logits), from_numpy(np.full(4, IGNORED)))["cross_entropy"]
    assert float(nothing.mean) == float(nothing.weight) == 0.0
    numbers = from_numpy(np.array([1.0, 2.0], np.float32))
    guesses = from_numpy(np.array([[1.5], [1.0]], np.float32))
    assert float(SquaredError()(guesses, numbers)["squared_error"].mean) == pytest.approx(0.625)
    starts, ends = (rng.normal(size=7).astype(np.float32) * 30 for _ in range(2))
    places, offsets = np.array([[1, 2], [0, 3]]), np.array([0, 3, 7])
    losses = SpanCrossEntropy()(*map(from_numpy, (starts, ends, offsets, places)))
    for name, scores, column in (("start", starts, 0), ("end", ends, 1)):
        parts = [
            -np.log(softmax(scores[a:b].astype(np.float64))[p])
            for a, b, p in ((0, 3, places[0, column]), (3, 7, places[1, column]))
        ]
        assert float(losses[name].mean) == pytest.approx(np.mean(parts), rel=1e-5, abs=1e-6)
    with pytest.raises(AttributeValueError, match="label_smoothing is 1"):
        CrossEntropy(1.0)


def test_two_predictions_diverge_by_the_mean_of_both_ways():
    rng = np.random.default_rng(0)
    first, second = (rng.normal(size=(5, 3)).astype(np.float32) for _ in range(2))
    pairs = [(softmax(a.astype(np.float64)), softmax(b.astype(np.float64))) for a, b in zip(first, second, strict=True)]
    expected = np.mean([(np.sum(p * np.log(p / q)) + np.sum(q * np.log(q / p))) / 2 for p, q in pairs])
    assert float(two_way_divergence(from_numpy(first), from_numpy(second))) == pytest.approx(expected, rel=1e-5)
    assert float(two_way_divergence(from_numpy(first), from_numpy(first))) == 0.0


def test_encoded_samples_know_their_names():
    samples = [{"ids": np.arange(n), "targets": np.int64(n)} for n in (2, 1)]
    encoded = Encoded(samples, ["ids"], ["data/\ud83d.tsv:1", "b.tsv:22"].__getitem__)
    assert [encoded.name_of(i) for i in range(2)] == ["data/?.tsv:1", "b.tsv:22"]
    assert encoded.lengths.tolist() == [2, 1] and encoded[1]["targets"] == 1
    with pytest.raises(AttributeValueError, match="max_length is 4"):
        Sequencer(BERT, max_length=4)
