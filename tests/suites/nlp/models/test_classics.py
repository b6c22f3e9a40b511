"""The recurrent classifier, the CRF tagger and SimNet: what they compute, and that they learn."""

import numpy as np
import pytest

import framework
from framework import nn, ops, optim
from framework.errors import AttributeValueError
from suites.nlp.models.crf import CrfTagger, forbidden_transitions
from suites.nlp.models.recurrent import RecurrentClassifier
from suites.nlp.models.simnet import SimNet, cosine, hinge_loss, split_pairs
from suites.nlp.models.words import following

IDS = framework.tensor(np.array([3, 4, 5, 6, 4, 9, 9, 2], np.int64))
OFFSETS = framework.tensor(np.array([0, 3, 4, 8]))
BMES = ["O", "B-X", "M-X", "E-X", "S-X", "B-Y", "E-Y"]


def built(model, seed=0):
    nn.init.initialize(model, seed=seed)
    return model


def trained(model, loss, batches, steps, lr=5e-3):
    """`loss(*batch)` made small over batches in turn."""
    optimizer = optim.Adam(model.named_parameters(), lr=lr)

    @framework.program
    def step(*batch):
        value = loss(*batch)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return value

    for i in range(steps):
        step(*batches[i % len(batches)])
    return model.eval()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("pooling", ["max", "mean", "last"])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_a_text_alone_has_the_logits_it_has_in_a_batch(cell, pooling, bidirectional):
    kwargs = {"cell": cell, "pooling": pooling, "bidirectional": bidirectional, "pairs": 50}
    model = built(RecurrentClassifier(12, 3, width=8, hidden=6, **kwargs)).eval()
    together = model(IDS, OFFSETS).numpy()
    assert together.shape == (3, 3)
    for b, (first, last) in enumerate([(0, 3), (3, 4), (4, 8)]):
        alone = model(IDS[first:last], framework.tensor([0, last - first])).numpy()
        # The same sums of at most 72 terms; a product may cut them another way for another number of rows.
        np.testing.assert_allclose(alone[0], together[b], rtol=0, atol=72 * np.finfo(np.float32).eps)


def test_the_token_after_each_one_stays_within_its_text():
    np.testing.assert_array_equal(following(IDS, OFFSETS).numpy(), [4, 5, 0, 0, 9, 9, 2, 0])


def test_a_classifier_learns_the_order_of_words():
    """Whether 3 stands before 4: no bag of words can tell."""
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(4):
        texts = [rng.permutation([3, 4, *rng.integers(5, 12, rng.integers(1, 9))]) for _ in range(32)]
        labels = np.array([int(np.argmax(t == 3) < np.argmax(t == 4)) for t in texts])
        batches.append((np.concatenate(texts), np.cumsum([0, *map(len, texts)]), labels))
    model = built(RecurrentClassifier(12, 2, width=16, hidden=16, dropout=0.0))
    trained(model, lambda ids, offsets, y: ops.mean(ops.cross_entropy(model(ids, offsets), y)), batches, 80, 1e-2)
    ids, offsets, labels = batches[0]
    found = model(framework.tensor(ids), framework.tensor(offsets)).numpy().argmax(-1)
    assert (found == labels).mean() >= 0.95


def test_transitions_that_prefixes_forbid():
    transitions, start, stop = forbidden_transitions(BMES)
    allowed = {(BMES[i], BMES[j]) for i, j in np.argwhere(transitions == 0)}
    assert {b for a, b in allowed if a == "B-X"} == {b for a, b in allowed if a == "M-X"} == {"M-X", "E-X"}
    assert {b for a, b in allowed if a == "E-X"} == {b for a, b in allowed if a == "O"} == {"O", "B-X", "S-X", "B-Y"}
    assert {t for t, s in zip(BMES, start, strict=True) if s == 0} == {"O", "B-X", "S-X", "B-Y"}
    assert {t for t, s in zip(BMES, stop, strict=True) if s == 0} == {"O", "E-X", "S-X", "E-Y"}


def test_transitions_of_a_scheme_without_ends():
    tags = ["O", "B-X", "I-X", "I-Y"]
    transitions, start, stop = forbidden_transitions(tags)
    allowed = {(tags[i], tags[j]) for i, j in np.argwhere(transitions == 0)}
    assert {b for a, b in allowed if a == "B-X"} == {"O", "B-X", "I-X"}
    assert np.isinf(start).tolist() == [False, False, True, True] and not stop.any()


def test_an_untrained_tagger_decodes_only_what_prefixes_allow():
    model = built(CrfTagger(12, len(BMES), width=8, hidden=6, tags=BMES), seed=4).eval()
    transitions, start, stop = forbidden_transitions(BMES)
    for seed in range(5):
        ids = np.random.default_rng(seed).integers(0, 12, 9)
        tags = ops.crf_decode(*model(framework.tensor(ids), framework.tensor([0, 4, 9])))[0].numpy()
        for a, b in ((0, 4), (4, 9)):
            assert start[tags[a]] == stop[tags[b - 1]] == 0
            assert all(transitions[i, j] == 0 for i, j in zip(tags[a:b], tags[a + 1 : b], strict=False))


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_tagger_learns_chunks(cell):
    """Runs of words above 6 are chunks; their tags depend on the words to both sides."""
    rng = np.random.default_rng(1)

    def tags_of(words):
        inside = [0, *(w > 6 for w in words), 0]
        kinds = {(0, 0): "S-X", (0, 1): "B-X", (1, 1): "M-X", (1, 0): "E-X"}
        return [BMES.index(kinds[inside[i] > 0, inside[i + 2] > 0]) if w > 6 else 0 for i, w in enumerate(words)]

    batches = []
    for _ in range(4):
        texts = [rng.integers(3, 12, rng.integers(1, 9)) for _ in range(16)]
        tags = np.concatenate([tags_of(t) for t in texts])
        batches.append((np.concatenate(texts), tags, np.cumsum([0, *map(len, texts)])))
    model = built(CrfTagger(12, len(BMES), width=16, hidden=16, cell=cell, dropout=0.0, tags=BMES))

    def loss(ids, tags, offsets):
        scores = model(ids, offsets)
        return ops.mean(ops.crf_loss(*scores[:4], tags, offsets))

    trained(model, loss, batches, 80, 1e-2)
    ids, tags, offsets = batches[0]
    found = ops.crf_decode(*model(framework.tensor(ids), framework.tensor(offsets)))[0].numpy()
    assert (found == tags).mean() >= 0.98


PAIRS = framework.tensor(np.array([0, 0, 1, 0, 0, 0, 1, 1], np.int64))
PAIR_OFFSETS = framework.tensor(np.array([0, 3, 8]))


def test_pairs_are_cut_where_the_second_text_begins():
    np.testing.assert_array_equal(split_pairs(PAIR_OFFSETS, PAIRS).numpy(), [0, 2, 3, 6, 8])


@pytest.mark.parametrize("reader", ["bow", "cnn", "gru"])
def test_the_vectors_of_a_pair_are_those_of_its_texts(reader):
    model = built(SimNet(12, 2, reader=reader, width=8, hidden=6)).eval()
    first, second = model.vectors(IDS, PAIR_OFFSETS, PAIRS)
    swapped = framework.tensor(np.array([5, 3, 4], np.int64))
    other_second, _ = model.vectors(swapped, framework.tensor([0, 3]), framework.tensor([0, 1, 1]))
    np.testing.assert_allclose(other_second.numpy()[0], second.numpy()[0], rtol=0, atol=1e-6)
    assert model(IDS, PAIR_OFFSETS, PAIRS).shape == (2, 2) and first.shape == (2, 6)


@pytest.mark.parametrize("reader", ["bow", "cnn", "gru"])
def test_simnet_learns_which_texts_match(reader):
    """Pairwise: a query's text shares its words, the other does not."""
    rng = np.random.default_rng(2)

    def pair(query, text):
        return [*query, *text], [0] * len(query) + [1] * len(text)

    def batch():
        queries = [rng.integers(3, 30, 4) for _ in range(32)]
        right = [pair(q, rng.permutation(q)) for q in queries]
        wrong = [pair(q, rng.integers(3, 30, 4)) for q in queries]
        parts = []
        for pairs in (right, wrong):
            offsets = np.cumsum([0, *(len(ids) for ids, _ in pairs)])
            parts += [np.concatenate([ids for ids, _ in pairs]), offsets, np.concatenate([s for _, s in pairs])]
        return parts

    model = built(SimNet(30, 1, reader=reader, width=16, hidden=16, score="cosine"))
    trained(
        model,
        lambda *parts: hinge_loss(model(*parts[:3]), model(*parts[3:]), 0.5),
        [batch() for _ in range(8)],
        120,
        1e-2,
    )
    parts = [framework.tensor(x) for x in batch()]
    assert (model(*parts[:3]).numpy() > model(*parts[3:]).numpy()).mean() >= 0.85


def test_cosine_and_hinge():
    a = framework.tensor(np.array([[1.0, 0], [1, 1], [0, 0]], np.float32))
    b = framework.tensor(np.array([[0.0, 2], [2, 2], [1, 0]], np.float32))
    np.testing.assert_allclose(cosine(a, b).numpy(), [0, 1, 0], atol=1e-6)
    right, wrong = (framework.tensor(np.array(x, np.float32)) for x in ([0.9, 0.2], [0.1, 0.4]))
    assert float(hinge_loss(right, wrong).numpy()) == pytest.approx((0 + 0.3) / 2)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: RecurrentClassifier(0, 2), "vocab_size is 0"),
        (lambda: RecurrentClassifier(9, 0), "num_classes is 0"),
        (lambda: CrfTagger(9, 3, tags=["O"]), "num_classes is 3 but tags names 1"),
        (lambda: CrfTagger(9, 1, tags=["X-1"]), "each must be O, or B-, I-, M-, E- or S-"),
        (lambda: SimNet(9, 2, score="cosine"), "num_classes 1 with score: cosine"),
    ],
)
def test_bad_arguments_are_refused(make, match):
    with pytest.raises(AttributeValueError, match=match):
        make()
