"""A trainer's step on rows that came from elsewhere is the step of one process."""

import numpy as np
import pytest

from framework import optim
from framework.errors import StateError
from framework.table.remote import unique
from suites.ctr import CtrTask, DeepFM, TrainData
from suites.ctr.cluster.dense import DenseWeights, Exchange
from suites.ctr.cluster.rows import BatchRows, with_places
from suites.ctr.cluster.step import RemoteStep
from suites.ctr.datasets import Columns
from suites.ctr.models.din import DIN
from suites.ctr.train.step import CtrStep
from suites.engine.config import Factory
from suites.engine.config.building import init
from suites.engine.config.settings import Runtime
from suites.engine.train.train_step import optimizer_of
from tests.suites.ctr.helpers import columns, schema


@pytest.mark.parametrize("clip_norm", [None, 0.05])
@pytest.mark.parametrize("model", [DeepFM, DIN])
def test_rows_that_are_an_input_learn_as_rows_of_a_table(model, clip_norm):
    """The same losses, dense weights, rows and counters as one process, to the rounding of a few float32 sums."""
    options = {"dim": 4, "hidden": [8]} if model is DeepFM else {"dim": 4}
    local, remote = (_task(model, options) for _ in range(2))
    runtime = Runtime(epochs=1, clip_norm=clip_norm)
    whole = CtrStep.of(local, optim.Adam, runtime)
    table = remote.model.table
    remote.model.table = BatchRows(table)
    step = RemoteStep(remote, optimizer_of(remote, optim.Adam), runtime)
    for batch in local.train_loader(seed=0, workers=0):
        expected = whole([batch], 0.01)
        placed, found = with_places(remote.model, batch)
        rows = table.lookup(found.keys).numpy()
        made, grads = step.learn(placed, rows, 0.01)
        for name, value in expected.losses.items():
            assert made.losses[name] == pytest.approx(value, rel=1e-5), name
        np.testing.assert_allclose(made.arrays["scores"], expected.arrays["scores"], atol=1e-5)
        table._native.push(*(_array(a) for a in (found.keys, grads, found.shows, found.clicks)), 0.01)
    np.testing.assert_allclose(DenseWeights(remote.model).get(), DenseWeights(local.model).get(), rtol=1e-3, atol=2e-5)
    keys = found.keys
    np.testing.assert_array_equal(table.counts(keys), local.model.table.counts(keys))
    np.testing.assert_allclose(table.lookup(keys).numpy(), local.model.table.lookup(keys).numpy(), rtol=1e-3, atol=2e-5)


def _array(a):
    from framework.tensors import from_numpy

    return from_numpy(np.ascontiguousarray(a)).array()


def _task(model, options):
    data = Columns(schema(), columns(200))
    made = CtrTask(model=Factory.of(model, **options), schema=schema(), train=TrainData(dataset=data, batch_size=64))
    init.initialize(made.model, 3)
    made._train_set  # noqa: B018  (learns the scales)
    return made


def test_places_lead_to_the_signs_of_every_feature():
    made = _task(DIN, {"dim": 4})
    batch = next(iter(made.train_loader(seed=0, workers=0)))
    placed, found = with_places(made.model, batch)
    for name in made.model.signs:
        np.testing.assert_array_equal(found.keys[placed[name]], batch[name])
        assert placed[name].shape == batch[name].shape
    signs = np.concatenate([batch[name].ravel() for name in made.model.signs])
    assert found.shows.sum() == signs.size
    np.testing.assert_array_equal(np.sort(found.keys), np.unique(signs))
    assert placed["labels"] is batch["labels"]


def test_rows_that_nobody_asked_for_are_an_error():
    made = _task(DeepFM, {"dim": 4, "hidden": [8]})
    with pytest.raises(StateError, match="rows are on shards"):
        BatchRows(made.model.table).lookup(unique(np.zeros(1, np.int64)).inverse)


def test_dense_weights_come_back_as_they_went():
    made = _task(DeepFM, {"dim": 4, "hidden": [8]})
    weights = DenseWeights(made.model)
    values = np.arange(weights.size, dtype=np.float32)
    weights.set(values)
    np.testing.assert_array_equal(weights.get(), values)
    assert weights.size == sum(p.size for p in made.model.parameters())


class CommonWeights:
    """Shards that answer at once."""

    done = True

    def __init__(self, values):
        self.values = values

    def dense(self):
        return self.values


def test_common_weights_move_by_a_trainers_share_and_what_it_moved_meanwhile_stays_on_top():
    weights = DenseWeights(_task(DeepFM, {"dim": 4, "hidden": [8]}).model)
    shards = CommonWeights(np.zeros(weights.size, np.float32))
    exchange = Exchange(weights, shards)
    exchange.begin()
    weights.set(np.full(weights.size, 3.0, np.float32))
    change = exchange.change(2)
    np.testing.assert_array_equal(change, 1.5)
    shards.values = shards.values + change
    exchange.sent(shards)
    weights.set(weights.get() + 0.25)  # a batch, before the answer is there
    exchange.take()
    np.testing.assert_array_equal(weights.get(), 1.75)
    np.testing.assert_array_equal(exchange.change(2), 0.125)  # of that batch alone
