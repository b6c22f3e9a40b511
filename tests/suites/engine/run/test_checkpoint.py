"""Checkpoints survive a crash and a full disk, give back exactly what was saved, and fit their own model only."""

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from framework import from_numpy, nn
from framework import io as tensor_io
from framework.errors import CheckpointError
from framework.io import save_tensors
from suites.engine.run.checkpoint import Checkpoints, load, save
from suites.engine.weights import load_weights

RNG = np.random.default_rng(0)


def numbers(*shape):
    return from_numpy(RNG.standard_normal(shape).astype(np.float32))


def example(step=1):
    return {
        "model": {"conv.weight": numbers(3, 3, 2, 4), "scale": from_numpy(np.float32(2.5).reshape(()))},
        "optimizer": {"slots": [{"momentum": numbers(4)}, {"momentum": numbers(2, 2)}], "count": step},
        "trainer": {"step": step, "loss": 0.1 + 0.2, "best": None, "name": "épée", "done": False},
    }


def assert_equal(a, b):
    if isinstance(a, dict):
        assert isinstance(b, dict) and a.keys() == b.keys()
        for key in a:
            assert_equal(a[key], b[key])
    elif isinstance(a, list):
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            assert_equal(left, right)
    elif hasattr(a, "numpy"):
        assert a.shape == b.shape and a.dtype == b.dtype
        assert a.numpy().tobytes() == b.numpy().tobytes()
    else:
        assert a == b and type(a) is type(b)


def test_a_checkpoint_comes_back_exactly(tmp_path):
    saved = example()
    save(tmp_path / "c", saved)
    assert_equal(saved, load(tmp_path / "c"))
    assert {p.name for p in (tmp_path / "c").iterdir()} == {
        "model.safetensors",
        "optimizer.safetensors",
        "state.json",
        "SHA256SUMS",
    }


def test_the_digests_are_those_that_sha256sum_checks(tmp_path):
    save(tmp_path / "c", example())
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path / "c", capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count(": OK") == 3


def test_the_newest_k_stay(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (5, 10, 100, 15):
        checkpoints.save(step, example(step))
    assert checkpoints.steps() == [15, 100]
    assert checkpoints.latest()["trainer"]["step"] == 100
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step_00000015", "step_00000100"]


def test_no_checkpoint_is_none(tmp_path):
    assert Checkpoints(tmp_path).latest() is None


def test_saving_again_at_the_same_step_replaces(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2, 3):
        checkpoints.save(3, example(step))
        assert checkpoints.latest()["trainer"]["step"] == step
        assert len(list(tmp_path.iterdir())) == 1 and checkpoints.steps() == [3]


@pytest.mark.parametrize("fails", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_a_full_disk_loses_nothing_that_was_saved(tmp_path, fails):
    """A real write that runs out of room: the system refuses files larger than a few kB."""
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, example(1))
    big = example(2)
    group = fails.split(".")[0]
    if group == "state":
        big["trainer"]["text"] = "x" * 100_000
    else:
        big[group]["big"] = numbers(25_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(
            CheckpointError, match=r"checkpoint cannot be written.*untouched; free some space.*`ulimit -f"
        ):
            checkpoints.save(2, big)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [p.name for p in tmp_path.iterdir()] == ["step_00000001"]
    assert checkpoints.latest()["trainer"]["step"] == 1


def test_no_space_left_is_named(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tensor_io.safetensors.numpy, "save", full)
    with pytest.raises(CheckpointError, match="No space left on device"):
        save(tmp_path / "c", example())
    assert list(tmp_path.iterdir()) == []


KILLED = """
    import os, signal, sys
    from pathlib import Path
    import numpy as np
    from framework import from_numpy, atomic
    from suites.engine.run.checkpoint import Checkpoints
    checkpoints = Checkpoints(Path(sys.argv[1]), keep=1)
    def at(step):
        return {"model": {"w": from_numpy(np.full(1000, step, np.float32))}, "trainer": {"step": step}}
    checkpoints.save(1, at(1))
    calls = 0
    flush = atomic.flush
    def deadly(path):
        global calls
        calls += 1
        if calls == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        flush(path)
    atomic.flush = deadly
    checkpoints.save(2, at(2))
"""


@pytest.mark.parametrize("call", [1, 2, 3, 4, 5, 6])
def test_kill_9_while_saving_leaves_a_whole_checkpoint(tmp_path, call):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), tmp_path, str(call)], timeout=30)
    assert done.returncode == -signal.SIGKILL
    latest = Checkpoints(tmp_path).latest()
    step = latest["trainer"]["step"]
    assert step in (1, 2) and np.all(latest["model"]["w"].numpy() == step)
    assert all(path.name.startswith("step_") for path in tmp_path.iterdir())  # leftovers are tidied up


@pytest.mark.parametrize("name", ["model.safetensors", "state.json"])
@pytest.mark.parametrize("keep", [0, 0.5])
def test_a_damaged_file_is_named(tmp_path, name, keep):
    save(tmp_path / "c", example())
    path = tmp_path / "c" / name
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(CheckpointError, match=name):
        load(tmp_path / "c")


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json", "SHA256SUMS"])
def test_one_flipped_bit_anywhere_is_found(tmp_path, name):
    save(tmp_path / "c", example())
    data = bytearray((tmp_path / "c" / name).read_bytes())
    data[len(data) // 2] ^= 4
    (tmp_path / "c" / name).write_bytes(data)
    with pytest.raises(CheckpointError, match=r"damaged, its SHA-256 is not|cannot be read"):
        load(tmp_path / "c")


def test_a_damaged_newest_checkpoint_is_passed_over_and_kept_under_another_name(tmp_path, caplog):
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(1, example(1))
    save(tmp_path / "step_00000002", example(2))
    (tmp_path / "step_00000002/model.safetensors").write_bytes(b"")
    assert checkpoints.latest()["trainer"]["step"] == 1
    assert "step_00000002/model.safetensors: damaged" in caplog.text
    assert "it is kept as step_00000002.damaged, and step_00000001 is taken instead" in caplog.text
    checkpoints.save(2, example(3))
    assert checkpoints.latest()["trainer"]["step"] == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step_00000002", "step_00000002.damaged"]


def test_where_no_checkpoint_is_whole_the_newest_is_named_and_none_is_touched(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        checkpoints.save(step, example(step))
        (tmp_path / f"step_0000000{step}/state.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"step_00000002/state\.json: damaged"):
        checkpoints.latest()
    assert checkpoints.steps() == [1, 2]


def test_a_lost_file_is_said(tmp_path):
    save(tmp_path / "c", example())
    (tmp_path / "c" / "optimizer.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"optimizer\.safetensors: cannot be read \(No such file"):
        load(tmp_path / "c")


class Model(nn.Layer):
    """Two weights."""

    def __init__(self, classes=3):
        super().__init__()
        self.conv = nn.parameter(RNG.standard_normal((1, 1, 4, 8)).astype(np.float32))
        self.head = nn.parameter(RNG.standard_normal((8, classes)).astype(np.float32))


def values(model):
    return {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}


def test_weights_of_the_model_itself_load(tmp_path):
    model, other = Model(), Model()
    save_tensors(tmp_path / "w.safetensors", model.state_dict())
    assert load_weights(other, tmp_path / "w.safetensors") == []
    np.testing.assert_equal(values(model), values(other))


def test_weights_of_another_model_are_refused_with_names(tmp_path):
    save_tensors(tmp_path / "w.safetensors", {"head": numbers(8, 20), "neck": numbers(2)})
    model = Model()
    before = values(model)
    with pytest.raises(CheckpointError) as caught:
        load_weights(model, tmp_path / "w.safetensors")
    assert str(caught.value) == (
        f"{tmp_path}/w.safetensors: Model: this state does not fit the model; 1 missing: conv; 1 unexpected: neck; "
        "1 different: head (float32 [8, 20], the model has float32 [8, 3])"
    )
    np.testing.assert_equal(before, values(model))


def test_partial_loading_takes_what_fits_and_lists_the_rest(tmp_path):
    source, model = Model(classes=20), Model()
    save_tensors(tmp_path / "w.safetensors", source.state_dict())
    before = values(model)
    lines = load_weights(model, tmp_path / "w.safetensors", partial=True)
    assert lines == ["1 different: head (float32 [8, 20], the model has float32 [8, 3])"]
    np.testing.assert_equal(values(model), {"conv": values(source)["conv"], "head": before["head"]})


def test_partial_loading_of_nothing_is_an_error(tmp_path):
    save_tensors(tmp_path / "w.safetensors", {"x": numbers(1)})
    with pytest.raises(CheckpointError, match="2 missing: conv, head; 1 unexpected: x"):
        load_weights(Model(), tmp_path / "w.safetensors", partial=True)


def test_a_file_of_another_format_is_refused(tmp_path):
    (tmp_path / "w.pdparams").write_bytes(b"\x80\x04not tensors")
    with pytest.raises(CheckpointError, match=r"w\.pdparams"):
        load_weights(Model(), tmp_path / "w.pdparams")
