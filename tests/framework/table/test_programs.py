"""Tables in Programs: the same rows as eagerly, effects in order and once, and errors where they cannot go."""

import threading

import numpy as np
import pytest

import framework
from framework import ops, optim, program, scan
from framework.errors import CheckpointError, NotSupportedError, StateError, TraceError
from framework.graph.files import save_program
from framework.table import SGD, Adam, DenseAdam, Limit, Normal, RowOptimizer, Table, Zeros


def state(array, name="w"):
    t = framework.tensor(np.asarray(array, np.float32), requires_grad=True)
    t.persistable, t.name = True, name
    return t


class Model:
    """Two look-ups of one table, one of them with a key more than once, and a dense layer."""

    def __init__(self, rule):
        self.table = Table(4, rule=rule, init=Normal(0.5), seed=5)
        self.w = state(np.linspace(-1, 1, 4)[:, None])
        self.dense = optim.Adam([("w", self.w)], lr=0.01)
        self.rows = RowOptimizer([self.table])

    def step(self, keys, history, labels):
        self.dense.zero_grad()
        self.rows.zero_grad()
        x = self.table.lookup(keys, clicks=labels)
        past = self.table.lookup(history)
        score = ops.matmul(ops.sum(x, axes=1) + past, self.w)[:, 0]
        loss = ops.mean(ops.square(score - labels))
        loss.backward()
        self.dense.step()
        self.rows.step()
        return loss

    def seen(self):
        with framework.no_grad():
            return self.table.lookup(np.arange(30)).numpy().copy()


def batches(count=6):
    rng = np.random.default_rng(0)
    for _ in range(count):
        n = int(rng.integers(2, 9))
        yield rng.integers(0, 20, (n, 3)), rng.integers(0, 20, n), rng.integers(0, 2, n).astype(np.float32)


@pytest.mark.parametrize("rule", [SGD(lr=0.1), Adam(lr=0.05), DenseAdam(lr=0.05)], ids=lambda r: type(r).__name__)
def test_a_program_does_what_the_same_steps_do_eagerly(rule):
    """Without passes bit for bit. With them sums round in another order: a few roundings of numbers up to 8 a step,
    which Adam's division by a small root may make a hundred times larger."""
    eager, plain, fused = Model(rule), Model(rule), Model(rule)
    exact, fast = program(plain.step, pass_names=()), program(fused.step)
    for batch in batches():
        losses = [float(f(*(framework.tensor(a) for a in batch))) for f in (eager.step, exact, fast)]
        assert losses[0] == losses[1]
        assert abs(losses[2] - losses[0]) < 1e-3
    assert (fast.traces_made, exact.traces_made) == (1, 1)  # one trace for any number of keys
    np.testing.assert_array_equal(eager.seen(), plain.seen())
    np.testing.assert_array_equal(eager.w.numpy(), plain.w.numpy())
    np.testing.assert_array_equal(*(m.table.counts(np.arange(30))[:, :3] for m in (eager, fused)))
    np.testing.assert_allclose(eager.seen(), fused.seen(), rtol=0, atol=6 * 100 * 8 * float(np.finfo(np.float32).eps))


def test_look_ups_of_one_table_are_summed_key_by_key():
    table = Table(2, rule=SGD(), init=Zeros())
    rows = RowOptimizer([table], lr=1.0)
    a, b = table.lookup([1, 2, 1]), table.lookup([2, 3])
    (ops.sum(a * 2.0) + ops.sum(b * 5.0)).backward()
    assert len(table.leaf.grad.parts) == 2
    rows.step()
    with framework.no_grad():
        np.testing.assert_array_equal(-table.lookup([1, 2, 3]).numpy()[:, 0], [4, 7, 5])
    assert table.leaf.grad is None  # the step used it up


def test_gradients_of_several_backward_passes_gather_until_the_step():
    table = Table(2, rule=SGD(), init=Zeros())
    for _ in range(3):
        ops.sum(table.lookup([1])).backward()
    RowOptimizer([table], lr=1.0).step()
    with framework.no_grad():
        assert (table.lookup([1]).numpy() == -3).all()
    ops.sum(table.lookup([1])).backward()
    rows = RowOptimizer([table], lr=1.0)
    rows.zero_grad()
    rows.step()
    assert table.stats().steps == 1


def test_the_sum_of_squares_is_that_of_gradients_summed_by_key():
    tables = [Table(2, rule=SGD(), init=Zeros(), name=n) for n in "ab"]
    rows = RowOptimizer(tables, lr=1.0)
    assert rows.sum_of_squares() is None

    def loss():
        return ops.sum(tables[0].lookup([1, 1, 2]) * 3.0) + ops.sum(tables[1].lookup([1]) * 4.0)

    loss().backward()
    assert float(rows.sum_of_squares()) == 2 * (36 + 9 + 16)

    @program
    def clipped(limit):
        rows.zero_grad()
        loss().backward()
        squares = rows.sum_of_squares()
        rows.step(grad_scale=limit / ops.sqrt(squares))
        return squares

    rows.zero_grad()
    assert float(clipped(np.float32(1.0))) == 122
    with framework.no_grad():
        norm = np.sqrt(sum((t.lookup([1, 2]).numpy() ** 2).sum() for t in tables))
    np.testing.assert_allclose(norm, 1.0, rtol=1e-6)


def names(traced, *args):
    return [op.name for op in traced.program_for(*args).program.block]


@pytest.mark.parametrize("device", ["cpu", "xla-cpu"])
def test_a_step_comes_after_the_look_ups_before_it_and_before_those_after_it(device):
    """Also the look-up that nobody's gradient needs, and one whose result only a state's new value needs."""
    if device != "cpu":
        pytest.importorskip("jax", reason="the extra [xla] is not installed")
    table = Table(1, rule=SGD(), init=Zeros())
    rows, kept = RowOptimizer([table], lr=1.0), state([[0.0]], "kept")
    key = np.array([7])

    @program
    def step(key):
        rows.zero_grad()
        used = table.lookup(key)
        other = table.lookup(key)
        kept.set(table.lookup(key).detach() * 1.0)
        loss = ops.sum(used)
        loss.backward()
        rows.step()
        after = table.lookup(key)
        return loss, other * 1.0, after * 1.0, key

    with framework.device(device):
        for i in range(3):
            loss, other, after, same = step(key)
            assert float(loss) == float(other) == float(kept) == -i
            assert float(after) == -i - 1 and same.tolist() == [7]
    order = [n for n in names(step, key) if n.startswith("table")]
    assert order == ["table_gather"] * 3 + ["table_update", "table_gather"]


def test_a_step_is_neither_dropped_nor_repeated():
    """Nobody reads its result, there is none; two equal steps are two."""
    table = Table(1, rule=SGD(), init=Zeros())
    key, grad = np.array([7]), np.ones((1, 1), np.float32)

    @program
    def twice(key, grad):
        table.update(key, grad, framework.tensor(1.0))
        table.update(key, grad, framework.tensor(1.0))
        return grad + 1.0

    twice(key, grad)
    twice(key, grad)
    with framework.no_grad():
        assert float(table.lookup(key)) == -4.0


def test_an_evaluation_in_a_program_reads_zeros_for_unknown_keys_and_leaves_nothing():
    table = Table(2, init=Normal(1.0))
    table.update([1], np.zeros((1, 2)))

    @program
    def evaluate(keys):
        with framework.no_grad():
            return table.lookup(keys) * 1.0

    y = evaluate(np.array([1, 2])).numpy()
    assert (y[0] != 0).all() and (y[1] == 0).all() and len(table) == 1


def test_a_program_without_updates_takes_no_step():
    table = Table(2)
    step = program(lambda k, g: table.update(k, g) or g * 1.0, updates=False)
    step(np.array([1]), np.ones((1, 2), np.float32))
    assert len(table) == 0 and table.stats().steps == 0


def test_keys_from_outside_of_the_trace_are_looked_up_at_each_run():
    table = Table(1, rule=SGD(), init=Zeros())
    looked = program(lambda x: table.lookup([3]) + x)
    assert float(looked(np.zeros((1, 1), np.float32))) == 0
    table.update([3], -np.ones((1, 1)), 1.0)
    assert float(looked(np.zeros((1, 1), np.float32))) == 1


def test_a_table_that_is_full_fails_the_run_and_leaves_states_as_they_were():
    table = Table(2, rule=SGD(), init=Zeros(), limit=Limit(rows=2), name="signs")
    w = state([1.0, 1.0])
    dense, rows = optim.SGD([("w", w)], lr=0.1), RowOptimizer([table], lr=1.0)

    @program
    def step(keys):
        dense.zero_grad()
        rows.zero_grad()
        loss = ops.sum(table.lookup(keys) * w + w)
        loss.backward()
        dense.step()
        rows.step()
        return loss

    step(np.array([1, 2]))
    before = w.numpy().copy()
    with pytest.raises(StateError, match="table signs: 2 rows and 1 new keys are more than its limit of 2"):
        step(np.array([1, 3]))
    np.testing.assert_array_equal(w.numpy(), before)
    np.testing.assert_array_equal(table.counts([1, 2, 3])[:, 0], [1, 1, -1])
    step(np.array([1, 2]))


def test_a_table_lives_as_long_as_a_program_that_uses_it():
    def make():
        table = Table(1, rule=SGD(), init=Zeros())
        return program(lambda k, g: table.update(k, g, framework.tensor(1.0)) or table.lookup(k) * 1.0)

    step = make()
    key, grad = np.array([1]), np.ones((1, 1), np.float32)
    assert [float(step(key, grad)) for _ in range(3)] == [-1, -2, -3]


def test_threads_with_a_program_each_share_a_table_and_lose_nothing():
    """As Hogwild training has it; whole numbers at lr 1 add up exactly in any order."""
    table = Table(4, rule=SGD(), init=Zeros())

    def work(seed):
        rows = RowOptimizer([table], lr=1.0)

        @program
        def step(keys):
            rows.zero_grad()
            loss = -ops.sum(table.lookup(keys))
            loss.backward()
            rows.step()
            return loss

        rng = np.random.default_rng(seed)
        for _ in range(50):
            step(rng.integers(0, 40, 30))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    with framework.no_grad():
        assert table.lookup(np.arange(40)).numpy().sum() == 3 * 50 * 30 * 4
    assert table.counts(np.arange(40))[:, 0].sum() == 3 * 50 * 30


# -- where a table cannot go
def test_a_gradient_that_no_step_uses_is_refused():
    table = Table(2, name="signs")

    @program
    def step(keys):
        loss = ops.sum(table.lookup(keys))
        loss.backward()
        return loss

    with pytest.raises(TraceError, match="gave table 'signs' a gradient of its rows, and no step used it; call step"):
        step(np.array([1]))


def test_the_body_of_a_loop_is_refused():
    table = Table(2, name="signs")
    loop = program(lambda keys: scan(lambda s, k: (s + ops.sum(table.lookup(k)), s), framework.tensor(0.0), keys)[0])
    with pytest.raises(TraceError, match="lookup of table 'signs': a table cannot be used in the body of cond"):
        loop(np.arange(4))


def test_a_program_with_a_table_is_not_saved(tmp_path):
    table = Table(2)
    looked = program(lambda k: table.lookup(k) * 1.0)
    with pytest.raises(NotSupportedError, match=r"save_program: table_gather \(.*\) uses a table, whose rows"):
        save_program(looked.program_for(np.array([1])).program, tmp_path)
    onnx = pytest.importorskip("framework.onnx", reason="the extra onnx is not installed")
    with pytest.raises(NotSupportedError, match="operators cannot be written: table_gather"):
        onnx.export(looked.program_for(np.array([1])).program, tmp_path / "x.onnx")


def test_the_step_s_state_is_its_learning_rates():
    a, b = (RowOptimizer([Table(2, rule=Adam(lr=0.5), name="signs")]) for _ in range(2))
    a.set_lr(0.25)
    b.load_state_dict({n: t.numpy() for n, t in a.state_dict().items()})
    assert float(b.state_dict()["lr/signs"]) == 0.25
    with pytest.raises(CheckpointError, match=r"this state is of tables \['other'\]; it has \['signs'\]"):
        b.load_state_dict({"lr/other": np.float32(1)})
