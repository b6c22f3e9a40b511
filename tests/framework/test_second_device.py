"""What a Program promises holds on a second device, whose memory the host cannot touch: `locked_device`."""

import copy
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import framework
from framework import _core, nn, ops, optim
from framework.errors import AttributeValueError
from framework.ops import dispatch, registry
from framework.tensors import numpy_of
from tests.framework.locked_device import LockedArray, locked_device
from tests.framework.ops import specs as _specs  # noqa: F401  (fills SPECS)
from tests.framework.ops.harness import SPECS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="protects memory as Linux does")


@pytest.fixture
def device():
    with locked_device() as found:
        yield found


def state(values, name=None):
    t = framework.tensor(np.asarray(values, np.float32))
    t.persistable, t.name = True, name
    return t


def outputs(function, given):
    out = function(given)
    return [np.array(t.numpy()) for t in (out if isinstance(out, tuple) else (out,))]


@pytest.mark.parametrize("name", SPECS)
def test_an_operator_gives_the_bits_of_the_cpu(name, device):
    kind = "float64" if list(SPECS[name].dtypes) == ["float64"] else "float32"
    for sample in SPECS[name].samples:

        @framework.program
        def function(given, sample=sample):
            left = iter(given)
            inputs = [None if x is None else next(left) for x in sample.inputs]
            return dispatch.call_by_name(name, inputs, **sample.attrs)

        given = [t for t in sample.tensors(kind) if t is not None]
        expected = copy.deepcopy(given)
        with framework.device("cpu"):
            native = outputs(function, expected)
        before = device.to_device
        for a, b in zip(outputs(function, given), native, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        assert device.to_device - before >= len(given)


class Network(nn.Layer):
    """Convolution, batch norm, dropout, embedding: each kind of state and of gradient."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm(8)
        self.table, self.dropout = nn.Embedding(20, 8), nn.Dropout(0.25)
        self.last = nn.Linear(16, 4)

    def forward(self, x, ids):
        image = ops.mean(ops.relu(self.norm(self.conv(x))), axes=(1, 2))
        words = ops.mean(self.dropout(self.table(ids)), axes=(1,))
        return self.last(ops.concat([image, words], axis=-1))


def trained(steps=3):
    """Losses and states after some steps of AdamW."""
    framework.random.seed(7)
    network = Network()
    optimizer = optim.AdamW(network.named_parameters(), weight_decay=0.01)

    @framework.program
    def step(x, ids, labels, lr):
        loss = ops.mean(ops.cross_entropy(network(x, ids), labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step(lr)
        return loss

    rng, losses = np.random.default_rng(3), []
    for _ in range(steps):
        x, ids = rng.standard_normal((4, 6, 6, 3)).astype(np.float32), rng.integers(0, 20, (4, 5))
        losses.append(step(x, ids, rng.integers(0, 4, 4), np.float32(0.05)))
    return losses, [*network.state_dict().values()]


def test_training_gives_the_bits_of_the_cpu_and_states_stay_there(device):
    losses, states = trained()
    assert all(isinstance(t._data, LockedArray) for t in states) and device.to_host == 0
    with framework.device("cpu"):
        expected_losses, expected = trained()
    for a, b in zip(losses + states, expected_losses + expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert device.to_host == len(losses + states) and losses[0].item() != losses[-1].item()


def test_control_flow_runs_there(device):
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


def test_results_go_from_program_to_program_without_the_host(device):
    double, same = framework.program(lambda x: x * 2.0), framework.program(lambda x: ops.copy(x))
    y = same(double(double(np.ones(3, np.float32))))
    assert (device.to_device, device.to_host) == (1, 0)
    assert y.shape == (3,) and y.dtype == "float32" and y.size == 3 and device.to_host == 0
    assert y.tolist() == y.tolist() == [4.0, 4.0, 4.0] and device.to_host == 1


def test_a_program_that_is_traced_later_finds_states_where_they_are(device):
    w = state([1.0, 2.0])
    step = framework.program(lambda: w.set(w + 1.0))
    step()
    read = framework.program(lambda x: w * x)
    y = read(np.ones(2, np.float32))
    assert (device.to_device, device.to_host) == (2, 0) and y.tolist() == [2.0, 3.0]


def test_eager_operators_snapshots_and_sets_bring_states_to_the_host_and_back(device):
    w = state([1.0, 2.0])
    step = framework.program(lambda: w.set(w + 1.0))
    array = w.numpy()
    step()
    snapshot, copied = w.detach(), copy.deepcopy(w)
    step()
    assert (w * 10.0).tolist() == [30.0, 40.0]
    assert (array.tolist(), snapshot.tolist(), copied.tolist()) == ([1.0, 2.0], [2.0, 3.0], [2.0, 3.0])
    w.set(framework.tensor([10.0, 20.0]))
    step()
    assert isinstance(w._data, LockedArray) and w.tolist() == [11.0, 21.0]


def test_states_are_saved_and_loaded(device, tmp_path):
    w = state([1.0, 2.0], "w")
    step = framework.program(lambda: w.set(w + 1.0))
    step()
    framework.save({"w": w}, tmp_path / "w.safetensors")
    step()
    w.set(framework.load(tmp_path / "w.safetensors")["w"])
    step()
    assert w.tolist() == [3.0, 4.0]


def test_a_program_is_kept_for_each_device(device):
    w = state([1.0])
    step = framework.program(lambda: w.set(w + 1.0))
    for _ in range(2):
        step()
        with framework.device("cpu"):
            step()
    assert w.tolist() == [5.0] and step.traces_made == 2


def test_no_update_is_lost_when_threads_run_one_program(device):
    w, x = state(np.zeros(1000)), framework.program(lambda: framework.ones(1000) * 1.0)()
    step = framework.program(lambda x: w.set(w + x))

    def run():
        with locked_device(device):
            for _ in range(50):
                step(x)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(run) for _ in range(4)]:
            done.result()
    assert w.tolist() == [200.0] * 1000 and isinstance(x._data, LockedArray)


def test_refused_data_leaves_states_as_they_were(device):
    table = state(np.ones((4, 2)))

    @framework.program
    def read(ids):
        taken = ops.embedding(table, ids)
        table.set(table * 2.0)
        return taken

    with pytest.raises(AttributeValueError, match=r"ids\[1\] is 4"):
        read(np.array([0, 4]))
    assert table.tolist() == np.ones((4, 2)).tolist()


def test_a_kernel_does_not_take_what_lies_there(device):
    y = framework.program(lambda x: x * 2.0)(np.ones(3, np.float32))
    with pytest.raises(RuntimeError):
        _core.call(registry.OPS["relu"].native, (y._data,), ())
    with pytest.raises(AttributeError):
        numpy_of(y._data)


SILENT_ACCESS = """
import ctypes
import numpy as np
import framework
from tests.framework.locked_device import locked_device

with locked_device():
    y = framework.program(lambda x: x * 2.0)(np.ones(3, np.float32))
    print(y.tolist() if {asks} else ctypes.string_at(y._data.address, 4))
"""


@pytest.mark.parametrize(("asks", "status"), [(True, 0), (False, -signal.SIGSEGV)])
def test_memory_that_is_read_past_the_door_ends_the_process(asks, status):
    done = subprocess.run([sys.executable, "-c", SILENT_ACCESS.format(asks=asks)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (status, "[2.0, 2.0, 2.0]\n" if asks else "")
