"""LSTM, GRU and CRF layers: stacked, in both directions, in pieces, and learning; their operators have own tests."""

import itertools

import numpy as np
import pytest

import framework
from framework import nn, ops, optim
from framework.errors import AttributeValueError

OFFSETS = np.array([0, 4, 4, 7, 12])
LAYERS = [nn.LSTM, nn.GRU]


def rows(count: int, width: int, seed: int = 0) -> framework.Tensor:
    return framework.tensor(np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32))


def built(kind, *args, **kwargs):
    layer = kind(*args, **kwargs)
    nn.init.initialize(layer, seed=1)
    return layer


def states(last) -> list[np.ndarray]:
    return [s.numpy() for s in (last if isinstance(last, tuple) else (last,))]


@pytest.mark.parametrize("kind", LAYERS)
def test_layers_stand_on_each_other_and_report_all_last_states(kind):
    layer = built(kind, 3, 5, layers=2, bidirectional=True).eval()
    x = rows(12, 3)
    y, last = layer(x, framework.tensor(OFFSETS))
    below, first, _ = layer.layers[0](x, framework.tensor(OFFSETS), [None] * len(states(last)))
    above, second, _ = layer.layers[1](below, framework.tensor(OFFSETS), [None] * len(states(last)))
    assert y.numpy().tobytes() == above.numpy().tobytes() and y.shape == (12, 10)
    for found, a, b in zip(states(last), first, second, strict=True):
        np.testing.assert_array_equal(found, np.concatenate([a.numpy(), b.numpy()]))
        assert found.shape == (4, 4, 5) and not found[:, 1].any()  # sequence 1 is empty


@pytest.mark.parametrize("kind", LAYERS)
def test_a_sequence_in_two_pieces_goes_on_from_the_state(kind):
    layer = built(kind, 3, 5, layers=2).eval()
    x = rows(7, 3)
    whole, last = layer(x, framework.tensor([0, 7]))
    first, state = layer(x[:4], framework.tensor([0, 4]))
    second, end = layer(x[4:], framework.tensor([0, 3]), state)
    joined = np.concatenate([first.numpy(), second.numpy()])
    assert whole.numpy().tobytes() == joined.tobytes()
    for a, b in zip(states(last), states(end), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("kind", LAYERS)
def test_a_batch_has_the_bits_of_its_sequences_one_by_one(kind):
    # Few columns in the input's product: of 64 or more, products of at most 4 rows are summed in another order.
    layer = built(kind, 3, 7, bidirectional=True).eval()
    x = rows(12, 3)
    together = layer(x, framework.tensor(OFFSETS))[0].numpy()
    alone = [layer(x[a:b], framework.tensor([0, b - a]))[0].numpy() for a, b in [(0, 4), (4, 7), (7, 12)]]
    assert together.tobytes() == np.concatenate(alone).tobytes()


@pytest.mark.parametrize("kind", LAYERS)
def test_one_program_serves_batches_of_all_shapes(kind):
    layer = built(kind, 3, 4, bidirectional=True)
    traced = framework.program(lambda x, offsets: layer(x, offsets)[0])
    for offsets in (OFFSETS, [0, 2], [0, 1, 6, 9]):
        x, offsets = rows(offsets[-1], 3), framework.tensor(offsets)
        assert traced(x, offsets).numpy().tobytes() == layer(x, offsets)[0].numpy().tobytes()


@pytest.mark.parametrize("kind", LAYERS)
def test_dropout_stands_between_layers_and_in_training_only(kind):
    layer = built(kind, 3, 8, layers=2, dropout=0.5)
    x, offsets = rows(12, 3), framework.tensor(OFFSETS)
    assert layer(x, offsets)[0].numpy().tobytes() != layer(x, offsets)[0].numpy().tobytes()
    layer.eval()
    assert layer(x, offsets)[0].numpy().tobytes() == layer(x, offsets)[0].numpy().tobytes()
    single = built(kind, 3, 8, dropout=0.5)
    assert single(x, offsets)[0].numpy().tobytes() == single(x, offsets)[0].numpy().tobytes()


def test_forget_gates_start_open():
    bias = built(nn.LSTM, 3, 2, bidirectional=True).layers[0].bias.numpy()
    np.testing.assert_array_equal(bias, [0, 0, 1, 1, 0, 0, 0, 0] * 2)


@pytest.mark.parametrize("kind", LAYERS)
def test_sizes_below_one_are_refused(kind):
    with pytest.raises(AttributeValueError, match=f"{kind.__name__}: in_features is 3, hidden 0 and layers 1"):
        kind(3, 0)


def test_a_crf_learns_which_tags_follow_each_other():
    """Emissions say nothing; the tags alternate, starting with 1."""
    crf = built(nn.CRF, 2)
    tags, offsets = framework.tensor([1, 0, 1, 0, 1, 1, 0]), framework.tensor([0, 5, 7])
    emissions = framework.tensor(np.zeros((7, 2), np.float32))
    optimizer = optim.Adam(crf.named_parameters(), lr=0.1)

    @framework.program
    def step():
        loss = ops.mean(crf(emissions, tags, offsets))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    first = float(step().numpy())
    for _ in range(60):
        last = float(step().numpy())
    assert last < 0.1 < first
    found, score = crf.decode(emissions, offsets)
    np.testing.assert_array_equal(found.numpy(), tags.numpy())
    assert score.shape == (2,)


def test_a_crf_takes_no_forbidden_path():
    crf = built(nn.CRF, 3)
    emissions = framework.tensor(np.array([[5, 0, 0], [0, 5, 1], [5, 0, 0]], np.float32))
    offsets = framework.tensor([0, 3])
    np.testing.assert_array_equal(crf.decode(emissions, offsets)[0].numpy(), [0, 1, 0])
    transitions, ends = np.zeros((3, 3), np.float32), np.zeros(3, np.float32)
    transitions[0, 1] = -np.inf
    stop = ends.copy()
    stop[0] = -np.inf
    forbidden = tuple(framework.tensor(x) for x in (transitions, ends, stop))
    found = crf.decode(emissions, offsets, forbidden)[0].numpy().tolist()
    assert found[-1] != 0 and (0, 1) not in itertools.pairwise(found)
