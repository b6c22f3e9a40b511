"""Darknet's weight files: what they hold comes under the numbers of the cfg's convolutions, damage is one error."""

import struct

import numpy as np
import pytest

from framework.errors import CheckpointError
from suites.engine.weights import read_weights
from suites.engine.weights.formats.darknet_cfg import Convolution, convolutions, read_cfg

CFG = """
[net]  # a comment
channels=3
[convolutional]
batch_normalize=1
filters=4
size=3
activation=leaky
[maxpool]
size=2
[convolutional]
filters=2
size=1
activation=linear
[route]
layers = -1, 0
[convolutional]
filters=6
groups=2
size=1
activation=linear
"""
LAYERS = [Convolution(4, 3, 3, True), Convolution(2, 4, 1, False), Convolution(6, 3, 1, False)]
ONE = "[net]\n[convolutional]\nactivation=leaky\n"
NEW_HEADER = struct.pack("<iiiQ", 0, 2, 0, 32013312)
COUNT = 4 * 4 + 4 * 3 * 9 + 2 + 2 * 4 + 6 + 6 * 3


def written(folder, header=NEW_HEADER, count=COUNT, cfg=CFG, extra=b""):
    (folder / "net.cfg").write_text(cfg)
    path = folder / "net.weights"
    path.write_bytes(header + np.arange(1, count + 1, dtype="<f4").tobytes() + extra)
    return path


def test_the_cfg_tells_the_convolutions_with_the_channels_of_routes_and_groups(tmp_path):
    written(tmp_path)
    assert convolutions(read_cfg(tmp_path / "net.cfg")) == LAYERS


@pytest.mark.parametrize("header", [struct.pack("<iiiQ", 0, 2, 0, 9), struct.pack("<iiiI", 0, 1, 0, 9)])
def test_both_versions_of_the_header_give_the_numbers_in_darknets_order(tmp_path, header):
    arrays = read_weights(written(tmp_path, header))
    assert {name: a.shape for name, a in arrays.items()} == {
        **{f"0.{n}": (4,) for n in ("bias", "scale", "mean", "variance")},
        **{
            "0.weight": (4, 3, 3, 3),
            "1.bias": (2,),
            "1.weight": (2, 4, 1, 1),
            "2.bias": (6,),
            "2.weight": (6, 3, 1, 1),
        },
    }
    assert arrays["0.bias"].tolist() == [1, 2, 3, 4] and arrays["0.scale"].tolist() == [5, 6, 7, 8]
    assert arrays["2.weight"].reshape(-1)[-1] == COUNT


def test_the_variance_makes_our_norm_divide_as_darknet_does(tmp_path):
    variance = read_weights(written(tmp_path))["0.variance"].astype(np.float64)
    theirs = np.sqrt(np.array([13.0, 14, 15, 16])) + 1e-6
    np.testing.assert_allclose(np.sqrt(variance + 1e-5), theirs, rtol=1e-7)  # float32's rounding of v'
    variance = read_weights(written(tmp_path, struct.pack("<iiiQ", 0, 2, 5, 9)))["0.variance"]
    assert variance.tolist() == [13, 14, 15, 16]  # of Bochkovskiy's program, whose norms are ours


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"count": COUNT - 1}, r"net\.weights: cut off, or not of net\.cfg: that has \d+ numbers in 3 convolutions"),
        ({"extra": b"\0"}, "too long, or not of"),
        ({"header": b"", "count": 2}, "cut off: darknet's header has 16 bytes or more"),
        ({"header": b"PK\3\4aaaaaaaaaaaa"}, "this is no darknet file"),
        ({"cfg": "[convolutional]\nfilters=1\n"}, "does not begin with \\[net\\]"),
        ({"cfg": "[net]\n"}, "it has no layers"),
        ({"cfg": "hello"}, r"net\.cfg:1: expects \[section\] or key=value, found 'hello'"),
        ({"cfg": "[net]\n[convolutional]\nfilters=999999999999\n"}, "filters is '999999999999'; it must be a whole"),
        ({"cfg": ONE + "filters=999999\nsize=999999999\n"}, "cut off, or not of"),
        (
            {"cfg": ONE + "[route]\nlayers=-1,-1\n" * 40000},
            "more than 1048576 channels",
        ),
        (
            {"cfg": ONE + "filters=4\ngroups=2\n"},
            "3 channels in and 4 out do not divide into 2",
        ),
        ({"cfg": CFG.replace("leaky", "plse")}, r"net\.cfg:4: \[convolutional\]: activation is 'plse'; the networks"),
        ({"cfg": ONE + "[shortcut]\nfrom=-2\n"}, "from names -2, which there is not before it"),
        ({"cfg": ONE + "filters=4\n" + ONE[6:] + "[shortcut]\nfrom=-2\n"}, r"adds layers of \[4\] channels to"),
        ({"cfg": ONE + "[route]\nlayers=-1\ngroups=2\n"}, "does not divide into 2 groups of channels"),
        ({"cfg": "[net]\n[route]\nlayers=-3\n"}, "layers names -3, which there is not before it"),
        ({"cfg": "[net]\n[route]\nlayers=x\n"}, "layers is 'x'; it must be whole numbers"),
        ({"cfg": "[net]\n[connected]\noutput=1000\n"}, r"net\.cfg:2: \[connected\]: this kind of layer is not known"),
        ({"cfg": "#" * (1 << 21)}, "are too many for a darknet cfg"),
    ],
)
def test_damage_and_files_that_do_not_belong_together_are_one_error(tmp_path, change, match):
    with pytest.raises(CheckpointError, match=match):
        read_weights(written(tmp_path, **change))


def test_a_weight_file_without_its_cfg_says_what_to_put_where(tmp_path):
    path = written(tmp_path)
    (tmp_path / "net.cfg").rename(tmp_path / "other.cfg")
    assert read_weights(path)  # the only one
    (tmp_path / "third.cfg").write_text(CFG)
    with pytest.raises(
        CheckpointError, match=r"put the network's net\.cfg beside it \(there is other\.cfg, third\.cfg"
    ):
        read_weights(path)


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_of_a_cfg_ends_in_one_error_or_an_answer(tmp_path, seed):
    rng = np.random.default_rng(seed)
    data = bytearray(CFG.encode())
    for _ in range(4):
        data[rng.integers(len(data))] = rng.integers(256)
    path = written(tmp_path)
    (tmp_path / "net.cfg").write_bytes(bytes(data))
    try:
        read_weights(path)
    except CheckpointError as error:
        assert str(error).startswith(str(path))
