"""VGG has its paper's parameters and torchvision's names; SSD's form keeps stride 16 and dilates."""

import numpy as np
import pytest

from framework import tensor
from framework.errors import AttributeValueError
from framework.io import save_tensors
from suites.engine.weights import load_pretrained
from suites.engine.weights.matching import rename
from suites.vision.backbones import VGG
from suites.vision.backbones.vgg import torchvision_name

IMAGE = tensor(np.random.default_rng(0).standard_normal((1, 75, 96, 3)).astype(np.float32))


def count(model):
    return sum(p.size for p in model.parameters())


@pytest.mark.parametrize(("depth", "wanted"), [(16, 14_714_688), (19, 20_024_384)])
def test_parameters_are_as_many_as_published(depth, wanted):
    assert count(VGG(depth)) == wanted


def test_names_are_torchvisions():
    names = [torchvision_name(n) for n, _ in VGG(width=1).named_parameters() if n.endswith("weight")]
    assert names == [f"features.{i}.weight" for i in (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)]
    assert torchvision_name("convs.15.bias", 19) == "features.34.bias"


def test_torchvisions_weights_load_whole_and_cut_short(tmp_path):
    shapes = {0: (1, 3), 2: (1, 1), 5: (2, 1), 7: (2, 2), 10: (4, 2)}
    arrays = {f"features.{i}.bias": tensor(np.full(s[0], i, np.float32)) for i, s in shapes.items()}
    arrays |= {f"features.{i}.weight": tensor(np.zeros((*s, 3, 3), np.float32)) for i, s in shapes.items()}
    save_tensors(tmp_path / "vgg.safetensors", arrays)
    net = VGG(width=1, out_strides=(2,), pretrained=str(tmp_path / "vgg.safetensors"))
    assert [float(c.bias.numpy()[0]) for c in net.convs] == [0, 2, 5, 7]


def test_ssds_form_starts_from_a_classifier_with_new_fc6_and_fc7(tmp_path):
    whole, tops = (
        VGG(width=1),
        ["classifier.0.weight", "pre_logits.fc1.weight", "head.fc.weight"],
    )  # the others are timm's
    arrays = {n: tensor(a) for n, a in rename(whole, whole.names_in("torchvision").sources).items()}
    save_tensors(
        tmp_path / "vgg.safetensors", {**arrays, **{name: tensor(np.zeros((2, 2), np.float32)) for name in tops}}
    )
    report = load_pretrained(VGG(width=1, out_strides=(8, 16), reduced_fc=True), tmp_path / "vgg.safetensors")
    assert report.new == ["fc6.weight", "fc6.bias", "fc7.weight", "fc7.bias"] and len(report.loaded) == 26
    assert sorted(report.unused) == sorted(tops)


@pytest.mark.parametrize("strides", [(1, 2, 4), (8, 16, 32), (4, 32)])
def test_maps_have_the_strides_and_channels_it_says(strides):
    net = VGG(width=2, out_strides=strides)
    shapes = [m.shape for m in net(IMAGE)]
    assert shapes == [(1, -(-75 // s), -(-96 // s), c) for s, c in zip(strides, net.channels, strict=True)]


def test_ssds_form_has_1024_channels_at_stride_16():
    net = VGG(width=4, out_strides=(8, 16), reduced_fc=True)
    assert net.channels == (32, 64) and net.fc6.dilation == (6, 6)
    assert [m.shape for m in net(IMAGE)] == [(1, 10, 12, 32), (1, 5, 6, 64)]
    # conv4_3 and fc7 of 300 pixels have 38 and 19 cells a side
    image = tensor(np.zeros((1, 300, 300, 3), np.float32))
    assert [m.shape[1] for m in net(image)] == [38, 19]
    assert VGG(out_strides=(8, 16), reduced_fc=True).channels == (512, 1024)


def test_frozen_blocks_are_not_trained():
    still = [n for n, p in VGG(width=1, freeze_at=1).named_parameters() if not p.requires_grad]
    assert still == [f"convs.{i}.{leaf}" for i in range(4) for leaf in ("weight", "bias")]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"depth": 12}, "VGG: depth is 12"),
        ({"width": 0}, "width 0"),
        ({"freeze_at": 6}, "freeze_at is 6"),
        ({"reduced_fc": True}, r"out_strides is \[8, 16, 32\]; .* out of \[1, 2, 4, 8, 16\]"),
    ],
)
def test_wrong_arguments_are_refused(arguments, match):
    with pytest.raises(AttributeValueError, match=match):
        VGG(**arguments)
