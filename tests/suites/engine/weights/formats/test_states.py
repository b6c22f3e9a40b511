"""Files of training scripts: the network is found in an order that is written down, what lies beside it stays inert."""

import argparse
import collections
import datetime
import itertools
import logging
import pathlib
import pickle
import types
import zipfile

import numpy as np
import pytest

from framework import nn
from framework.errors import CheckpointError
from framework.io import save_tensors
from framework.tensors import from_numpy
from suites.engine.weights import load_pretrained, read_weights
from suites.engine.weights.formats.states import STATE_KEYS

W = np.arange(6, dtype=np.float32).reshape(2, 3)


def state(by=0.0):
    return {"fc.weight": W + np.float32(by), "fc.bias": np.float32([by, by])}


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    schemes = ()


def saved(path, value, protocol=2):
    path.write_bytes(pickle.dumps(value, protocol))
    return path


BESIDE = {
    "a namespace": argparse.Namespace(lr=0.1, sizes=[1, 2]),
    "a simple namespace": types.SimpleNamespace(a=1),
    "a NumPy scalar": np.float64(0.7),
    "a NumPy whole number": np.int64(7),
    "a NumPy text": np.str_("x"),
    "a defaultdict": collections.defaultdict(list, {"a": [1]}),
    "a counter": collections.Counter("aab"),
    "a deque": collections.deque([1, 2]),
    "a set": {1, 2},
    "a frozen set": frozenset({1}),
    "an ordered dict": collections.OrderedDict(a=1),
    "a path": pathlib.PurePosixPath("a/b"),
    "a date": datetime.datetime(2024, 1, 2),
    "a key of two": {("a", 1): 2},
    "an optimizer": {"state": {0: {"exp_avg": W}}, "param_groups": [{"lr": 0.1, "params": [0]}]},
}


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("what", BESIDE)
def test_what_lies_beside_the_weights_is_inert(tmp_path, what, protocol):
    path = saved(tmp_path / "a.pdparams", {"model": state(), "optimizer": BESIDE[what], "epoch": 3}, protocol)
    np.testing.assert_array_equal(read_weights(path)["fc.weight"], W)


def test_devices_types_and_sizes_of_pytorch_are_inert(tmp_path):
    """Written by hand: torch.device('cpu'), torch.float32, torch.Size([2])."""
    body = (
        b"\x80\x02}(X\x06\x00\x00\x00devicectorch\ndevice\nX\x03\x00\x00\x00cpu\x85R"
        b"X\x05\x00\x00\x00dtypectorch\nfloat32\nX\x04\x00\x00\x00sizectorch\nSize\n(K\x02t\x85R"
    )
    weights = pickle.dumps(state(), 2)[2:-1]
    path = tmp_path / "a.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", body + b"X\x05\x00\x00\x00model" + weights + b"u.")
    np.testing.assert_array_equal(read_weights(path)["fc.weight"], W)


@pytest.mark.parametrize("key", STATE_KEYS)
def test_the_weights_are_found_under_each_key(tmp_path, key):
    assert list(read_weights(saved(tmp_path / "a.pdparams", {"epoch": 1, key: state()}))) == ["fc.weight", "fc.bias"]


def test_the_first_in_the_order_counts_wherever_it_stands_and_is_said(tmp_path, caplog):
    names = list(STATE_KEYS)
    with caplog.at_level(logging.INFO):
        for first, second in itertools.pairwise(names):
            path = saved(tmp_path / "a.pdparams", {second: state(1), first: state(0)})
            np.testing.assert_array_equal(read_weights(path)["fc.weight"], W)
            np.testing.assert_array_equal(read_weights(path, second)["fc.weight"], W + 1)
    words = "the weights are those under 'state_dict'; it also has 'model_state_dict': add '#model_state_dict'"
    assert words in caplog.text


def test_a_state_in_a_container_of_a_container(tmp_path):
    path = saved(tmp_path / "a.pdparams", {"model": {"state_dict": state()}, "ema": {"module": state(1)}})
    np.testing.assert_array_equal(read_weights(path)["fc.weight"], W)
    np.testing.assert_array_equal(read_weights(path, "ema")["fc.weight"], W + 1)


def test_one_state_under_a_key_of_ones_own_is_taken_and_several_are_asked_for(tmp_path):
    one, two = {"mine": state()}, {"left": state(), "right": state(1)}
    np.testing.assert_array_equal(read_weights(saved(tmp_path / "a.pdparams", one))["fc.weight"], W)
    path = saved(tmp_path / "b.pdparams", two)
    with pytest.raises(CheckpointError, match=r"several networks, under 'left', 'right'; add '#' and one of them"):
        read_weights(path)
    np.testing.assert_array_equal(read_weights(path, "right")["fc.weight"], W + 1)
    with pytest.raises(CheckpointError, match=r"no tensors under 'middle'; it has them under 'left', 'right'"):
        read_weights(path, "middle")


PAIRS = [("module.encoder_q.", "module.encoder_k."), ("teacher.", "student."), ("model.", "ema.")]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("turned", [False, True])
def test_of_two_copies_in_the_names_the_first_in_the_order_is_taken(tmp_path, pair, turned, caplog):
    arrays = {prefix + name: a for by, prefix in enumerate(pair) for name, a in state(by).items()}
    arrays = dict(reversed(arrays.items())) if turned else arrays
    ours = {name: from_numpy(a) for name, a in arrays.items()}
    save_tensors(tmp_path / "a.safetensors", ours)
    net = Net()
    with caplog.at_level(logging.INFO):
        load_pretrained(net, tmp_path / "a.safetensors")
    np.testing.assert_array_equal(net.fc.bias.numpy(), [0, 0])
    key = pair[1].rstrip(".").rpartition(".")[2]
    assert f"under '{pair[0]}'; add '#{key}' for those under '{pair[1]}'" in caplog.text
    load_pretrained(net, f"{tmp_path}/a.safetensors#{key}")
    np.testing.assert_array_equal(net.fc.bias.numpy(), [1, 1])
    with pytest.raises(CheckpointError, match="no tensors under 'nobody'"):
        load_pretrained(net, f"{tmp_path}/a.safetensors#nobody")


def test_a_file_whose_own_name_has_a_hash_is_a_file(tmp_path):
    net = Net()
    save_tensors(tmp_path / "a#b", net.state_dict())
    (tmp_path / "a#b").rename(tmp_path / "x#1.safetensors")
    assert len(load_pretrained(net, tmp_path / "x#1.safetensors").loaded) == 2


def test_the_page_lists_the_order():
    page = " ".join((pathlib.Path(__file__).parents[5] / "docs/howto/pretrained.md").read_text().split())
    assert ", ".join(f"`{key}`" for key in STATE_KEYS) in page
