"""What a Program on a device promises: the numbers, the states, the errors of the native executor."""

import logging
import subprocess
import sys

import numpy as np
import pytest

import framework
from framework import nn, ops, optim
from framework.errors import AttributeValueError, NotSupportedError, ShapeError, StateError
from tests.devices import DEVICE

jax = pytest.importorskip("jax", reason="the extra [xla] is not installed")

from framework.xla import runtime  # noqa: E402
from framework.xla.device_array import DeviceArray  # noqa: E402


@pytest.fixture(autouse=True)
def _on_xla():
    with framework.device(DEVICE):
        yield


def state(values, name=None):
    t = framework.tensor(np.asarray(values, np.float32))
    t.persistable, t.name = True, name
    return t


class Network(nn.Layer):
    """Convolution, batch norm, dropout, attention over rows, embedding: each kind of state and of gradient."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1, bias=False)  # its gradient before a norm is rounding
        self.norm = nn.BatchNorm(8)
        self.table = nn.Embedding(20, 8)
        self.dropout = nn.Dropout(0.25)
        self.last = nn.Linear(16, 4)

    def forward(self, x, ids):
        image = ops.mean(ops.relu(self.norm(self.conv(x))), axes=(1, 2))
        words = ops.mean(self.dropout(self.table(ids)), axes=(1,))
        return self.last(ops.concat([image, words], axis=-1))


OPTIMIZERS = {
    "sgd": lambda params: optim.SGD(params, weight_decay=1e-3),
    "momentum": lambda params: optim.Momentum(params, momentum=0.9, nesterov=True),
    "adamw": lambda params: optim.AdamW(params, weight_decay=0.01),
    "rmsprop": lambda params: optim.RMSProp(params),
    "adagrad": lambda params: optim.Adagrad(params),
    "lamb": lambda params: optim.LAMB(params, weight_decay=0.01),
}


def trained(device, make_optimizer, steps=3, devices=1, batch=4, look=lambda optimizer: None):
    """Losses and states after some steps in float64; `look` sees the optimizer before the first and after the last."""
    framework.random.seed(7)
    network = Network()
    for t in network.state_dict().values():
        if t.dtype == "float32":
            values = np.random.default_rng(t.size).standard_normal(t.shape) * 0.3
            t._data = framework.tensor(values if t.requires_grad else np.abs(values) + 0.1).array()
    optimizer = make_optimizer(network.named_parameters())
    lr = framework.tensor(np.asarray(0.05, np.float64))

    @framework.program
    def step(x, ids, labels, lr):
        loss = ops.mean(ops.cross_entropy(network(x, ids), labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step(lr)
        return loss

    rng = np.random.default_rng(3)
    losses = []
    with framework.device(device, devices):
        look(optimizer)
        for _ in range(steps):
            x, ids = rng.standard_normal((batch, 6, 6, 3)), rng.integers(0, 20, (batch, 5))
            losses.append(step(x, ids, rng.integers(0, 4, batch), lr).item())
        look(optimizer)
    states = {name: p.numpy().copy() for name, p in network.named_parameters()}
    return losses, states


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_in_float64_gives_the_native_states(name):
    losses, states = trained(DEVICE, OPTIMIZERS[name])
    native_losses, native_states = trained("cpu", OPTIMIZERS[name])
    np.testing.assert_allclose(losses, native_losses, rtol=1e-10)
    assert losses[0] != losses[-1]
    for name, values in native_states.items():
        np.testing.assert_allclose(states[name], values, rtol=1e-7, atol=1e-9, err_msg=name)


def test_states_stay_on_the_device_until_somebody_reads_them():
    w = state([1.0, 2.0])
    step = framework.program(lambda x: w.set(w + x))
    for _ in range(3):
        step(np.float32(1.0))
        assert isinstance(w._data, DeviceArray)
        assert w.shape == (2,) and w.dtype == "float32" and w.ndim == 1 and w.size == 2
    assert w.tolist() == [4.0, 5.0]
    assert not isinstance(w._data, DeviceArray)
    step(np.float32(1.0))
    assert (w * 2.0).tolist() == [10.0, 12.0]  # an eager operator reads it too


def test_a_state_that_was_set_on_the_host_is_taken_up():
    w = state([1.0])
    step = framework.program(lambda: w.set(w * 2.0))
    step()
    w.set(framework.tensor([10.0]))
    step()
    assert w.tolist() == [20.0]


def test_snapshots_and_numpy_arrays_keep_their_values():
    w = state([1.0, 2.0])
    step = framework.program(lambda: w.set(w + 1.0))
    array = w.numpy()
    step()
    snapshot = w.detach()
    step()
    step()
    assert (array.tolist(), snapshot.tolist(), w.tolist()) == ([1.0, 2.0], [2.0, 3.0], [4.0, 5.0])


def test_results_may_be_given_to_the_next_program():
    double = framework.program(lambda x: x * 2.0)
    y = double(double(np.ones(3, np.float32)))
    with framework.device("cpu"):
        z = double(y)
    assert z.tolist() == [8.0, 8.0, 8.0]


def test_a_program_runs_where_it_is_called_and_is_kept_for_each_device():
    w = state([1.0])
    step = framework.program(lambda: w.set(w + 1.0))
    for device in (DEVICE, "cpu", DEVICE, "cpu"):
        with framework.device(device):
            assert framework.current_device() == device
            step()
    assert w.tolist() == [5.0]
    assert step.traces_made == 2


def test_gradients_stay_in_grad_and_are_gathered():
    w = state([1.0, 2.0])
    w.requires_grad = True

    @framework.program
    def backward(x):
        ops.sum(w * x).backward()

    backward(np.float32([3.0, 4.0]))
    backward(np.float32([1.0, 1.0]))
    assert w.grad.tolist() == [4.0, 5.0]


def test_new_shapes_are_compiled_once_each():
    double = framework.program(lambda x: ops.sum(x, axes=(0,)))
    compiled = double.program_for(np.ones((2, 3), np.float32))
    for rows in (2, 5, 2, 5):
        assert double(np.ones((rows, 3), np.float32)).tolist() == [rows] * 3
    assert compiled.plans_made == 2
    assert "MB of inputs and states" in str(compiled.memory_report())
    compiled.forget_plans()
    assert double(np.ones((2, 3), np.float32)).tolist() == [2] * 3


@pytest.mark.parametrize(
    ("use", "values", "text"),
    [
        (lambda t, i: ops.embedding(t, i), [0, 7], r"embedding: ids holds 7 but must lie in \[0, 3\]"),
        (lambda t, i: ops.gather(t, i), [0, -5], r"gather: indices holds -5 but must lie in \[-4, 3\]"),
        (lambda t, i: ops.cross_entropy(t[:2], i), [1, 2], r"cross_entropy: label 2 is outside of \[0, 2\)"),
    ],
)
def test_indices_out_of_range_are_refused_and_states_stay(use, values, text):
    table, count = state(np.ones((4, 2))), state([0.0])

    @framework.program
    def step(ids):
        loss = ops.sum(use(table, ids))
        count.set(count + loss)
        return loss

    loss = step(np.array([0, 1]))
    good = loss.item()
    bad = step(np.array(values))
    with pytest.raises(AttributeValueError, match=text + r".*test_executor\.py:\d+"):
        bad.item()
    assert count.tolist() == pytest.approx([good])


def test_refused_data_is_reported_by_a_later_run_when_nobody_reads_the_result():
    table, count = state(np.ones((4, 2))), state([0.0])
    step = framework.program(lambda ids: count.set(count + ops.sum(ops.embedding(table, ids))))
    step(np.array([9]))
    step(np.array([1]))
    with pytest.raises(AttributeValueError, match="ids holds 9"):
        step(np.array([1]))
    step(np.array([1]))
    assert count.tolist() == [4.0]


def test_nan_gets_into_states_as_it_does_natively():
    w = state([1.0])
    framework.program(lambda x: w.set(w * x))(np.float32(np.nan))
    assert np.isnan(w.item())


def test_wrong_shapes_are_refused_with_the_users_line():
    product = framework.program(lambda a, b: ops.matmul(a, b))
    product(np.ones((2, 3), np.float32), np.ones((3, 2), np.float32))
    with pytest.raises(ShapeError, match=r"matmul.*test_executor\.py:\d+"):
        product(np.ones((2, 3), np.float32), np.ones((4, 2), np.float32))


def test_control_flow_runs_on_the_device():
    @framework.program
    def collatz(n):
        def step(n, count):
            return framework.cond(n % 2 == 0, lambda: n // 2, lambda: n * 3 + 1), count + 1

        return framework.while_loop(lambda n, _: n > 1, step, (n, framework.tensor(np.int64(0))))[1]

    assert [collatz(framework.tensor(np.int64(n))).item() for n in (1, 6, 27)] == [0, 8, 111]

    @framework.program
    def running(xs):
        return framework.scan(lambda total, x: (total + x, total * x), framework.tensor(0.0), xs, reverse=True)

    last, rows = running(np.float32([1, 2, 3]))
    assert (last.item(), rows.tolist()) == (6.0, [5.0, 6.0, 0.0])


def test_a_bad_index_inside_of_a_loop_is_refused():
    table = state(np.ones((4, 2)))

    @framework.program
    def read(ids):
        return framework.scan(lambda s, i: (s + ops.sum(ops.embedding(table, i)), i), framework.tensor(0.0), ids)[0]

    assert read(np.array([0, 3])).item() == 4.0
    with pytest.raises(AttributeValueError, match="ids holds 4"):
        read(np.array([0, 4])).item()


def test_a_loop_that_must_end_and_does_not_is_refused():
    def run(x):
        return framework.while_loop(lambda n: n > 0, lambda n: n + 1, x, max_iterations=5, must_end=True)

    with pytest.raises(AttributeValueError, match="loop: it does not end after 5 steps"):
        framework.program(run)(framework.tensor(np.int64(1))).item()


def test_ragged_rows_are_compiled_for_few_lengths():
    attend = framework.program(lambda q, at: ops.ragged_self_attention(q, at, heads=2)[0])
    rng = np.random.default_rng(0)
    q = rng.standard_normal((40, 24)).astype(np.float32)
    compiled = attend.program_for(q, np.array([0, 10, 40]))
    for at in ([0, 10, 40], [0, 12, 40], [0, 20, 40], [0, 5, 40]):
        with framework.device("cpu"):
            native = attend(q, np.array(at)).numpy()
        np.testing.assert_allclose(attend(q, np.array(at)).numpy(), native, rtol=1e-5, atol=1e-6)
    assert compiled.plans_made == 2  # for at most 32 rows a sequence, and for all 40


def test_large_constants_are_arguments():
    table = framework.tensor(np.arange(1000, dtype=np.float32))
    pick = framework.program(lambda i: ops.gather(table, i))
    assert pick(np.array([3, 999])).tolist() == [3.0, 999.0]


def test_an_operator_without_a_rule_runs_on_the_host_and_says_so(caplog):
    masks, boxes = np.ones((1, 4, 4), np.float32), np.float32([[1, 1, 3, 3]])
    paste = framework.program(lambda m, b: ops.paste_masks(m, b, height=4, width=4))
    with caplog.at_level(logging.WARNING, "paddock"):
        got = paste(masks, boxes).numpy()
    assert "paste_masks: this operator runs on the host" in caplog.text
    with framework.device("cpu"):
        np.testing.assert_array_equal(got, paste(masks, boxes).numpy())


OUT_OF_MEMORY = (
    r"out of memory \(RESOURCE_EXHAUSTED: no room\); inputs and states hold 0 MB; the largest values between are "
    r"1\.0 MB of \w+ \[262144\] \(.*test_executor\.py:\d+.*\).*; make the batch or the images smaller"
)


def test_a_run_that_fails_makes_the_states_it_used_up_errors_to_read(monkeypatch):
    w = state([1.0], name="layer.weight")
    step = framework.program(lambda: w.set(ops.sum(ops.pad(w, (0, 2**18 - 1)), keepdims=True) + 1.0))
    step()
    (compiled,) = step.program_for().execution._compiled.values()
    run = compiled.function

    def fails(*arguments):
        run(*arguments)
        raise RuntimeError("RESOURCE_EXHAUSTED: no room")

    monkeypatch.setattr(compiled, "function", fails)
    with pytest.raises(framework.errors.DeviceMemoryError, match=OUT_OF_MEMORY):
        step()
    with pytest.raises(StateError, match=r"layer.weight: a run of a Program failed on the device"):
        w.numpy()
    monkeypatch.undo()
    w.set(framework.tensor([5.0]))
    step()
    assert w.tolist() == [6.0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_are_close_to_native(dtype):
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((2, 8, 8, 4)), rng.standard_normal((6, 3, 3, 4))

    @framework.program
    def network(x, w):
        y = ops.conv2d(ops.cast(x, dtype=dtype), ops.cast(w, dtype=dtype), padding=1)
        return ops.cast(ops.softmax(y * 2.0), dtype="float32")

    given = (x.astype(np.float32), w.astype(np.float32))
    got = network(*given).numpy()
    with framework.device("cpu"):
        np.testing.assert_allclose(got, network(*given).numpy(), atol=0.02 if dtype == "bfloat16" else 0.003)


def test_unknown_devices_and_devices_that_are_not_there_are_named():
    with pytest.raises(AttributeValueError, match="there is no 'cuda'; there are cpu, gpu, tpu, xla-cpu"):
        framework.set_device("cuda")
    if not any(d.platform == "tpu" for d in jax.devices()):
        with pytest.raises(NotSupportedError, match=r"there is no tpu that JAX .* can use"):
            framework.set_device("tpu")
    assert framework.current_device() == DEVICE


@pytest.mark.parametrize(("version", "text"), [("0.4.30", "JAX 0.4.30 is too old"), (None, "JAX is not installed")])
def test_jax_missing_or_too_old_is_one_error_with_the_command(monkeypatch, version, text):
    runtime.jax.cache_clear()
    if version is None:
        monkeypatch.setitem(sys.modules, "jax", None)
    else:
        monkeypatch.setattr(jax, "__version__", version)
    with pytest.raises(NotSupportedError, match=rf"{text}.*pip install 'jax>="):
        runtime.find_devices(DEVICE, 1)
    runtime.jax.cache_clear()


def test_a_run_on_the_cpu_never_imports_jax():
    code = (
        "import sys, numpy as np, framework\n"
        "with framework.device('cpu'):\n"
        "    framework.program(lambda x: x * 2)(np.ones(2))\n"
        "assert not any(m == 'jax' or m.startswith('framework.xla') for m in sys.modules), 'JAX was imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
