"""ResNet has torchvision's parameters under known names, the peer's numbers, and freezes what it says."""

import re

import numpy as np
import pytest

from framework import nn, no_grad, tensor
from framework.errors import AttributeValueError
from framework.io import save_tensors
from framework.nn import init
from suites.engine.weights import load_pretrained
from suites.vision.backbones import ResNet
from tests.suites.peer import Peer

IMAGE = np.random.default_rng(0).standard_normal((1, 64, 96, 3)).astype(np.float32)


def count(model):
    return sum(p.size for p in model.parameters())


@pytest.mark.parametrize(
    ("depth", "variant", "classes", "wanted"),
    [  # torchvision's resnet18 to resnet152, and timm's resnet50d, with their classifiers of 1,000 classes
        (18, "b", 512, 11_689_512),
        (34, "b", 512, 21_797_672),
        (50, "b", 2048, 25_557_032),
        (101, "b", 2048, 44_549_160),
        (152, "b", 2048, 60_192_808),
        (50, "d", 2048, 25_576_264),
    ],
)
def test_parameters_are_as_many_as_published(depth, variant, classes, wanted):
    net = ResNet(depth, variant, out_strides=(32,))
    assert count(net) + classes * 1000 + 1000 == wanted
    assert net.channels == (classes,)


def test_names_translate_to_torchvisions():
    names = {source.names[0] for source in ResNet(18).names_in("torchvision").sources.values()}
    assert len(names) == len(ResNet(18).state_dict())
    assert {"conv1.weight", "bn1.weight", "bn1.running_var", "layer1.0.conv1.weight", "layer4.1.bn2.bias"} <= names
    assert {n for n in names if "downsample" in n and n.endswith(".weight")} == {
        f"layer{i}.0.downsample.{k}.weight" for i in (2, 3, 4) for k in (0, 1)
    }


@pytest.mark.parametrize("variant", ["b", "c", "d"])
@pytest.mark.parametrize(("depth", "expansion"), [(18, 1), (50, 4)])
def test_maps_have_the_strides_and_channels_it_says(depth, expansion, variant):
    net = ResNet(depth, variant, width=8).eval()
    maps = net(tensor(IMAGE))
    assert [m.shape for m in maps] == [(1, 64 // s, 96 // s, 2 * s * expansion) for s in (4, 8, 16, 32)]
    assert all(np.isfinite(m.numpy()).all() for m in maps)


@pytest.mark.parametrize(("output_stride", "dilations"), [(16, [1, 1, 1, 2]), (8, [1, 1, 2, 4])])
def test_an_output_stride_dilates_in_place_of_halving(output_stride, dilations):
    net = ResNet(18, "d", width=8, output_stride=output_stride, out_strides=(4, output_stride)).eval()
    maps = net(tensor(np.ones((1, 33, 65, 3), np.float32)))
    assert [m.shape[3] for m in maps] == [8, 64]
    assert maps[1].shape[1:3] == (-(-33 // output_stride), -(-65 // output_stride))
    assert [stage[1].body[0].conv.dilation[0] for stage in net.stages] == dilations
    assert [stage[0].body[0].conv.dilation[0] for stage in net.stages] == [1, *dilations[:-1]]


def test_a_network_ends_at_its_last_stride():
    assert len(ResNet(18, width=8, out_strides=(4, 8)).stages) == 2


def test_zero_init_makes_every_block_start_as_its_shortcut():
    net = ResNet(50, width=4, zero_init=True)
    init.initialize(net, 0)
    block = net.stages[0][1].eval()
    x = np.abs(np.random.default_rng(0).standard_normal((1, 4, 4, 16))).astype(np.float32)
    np.testing.assert_array_equal(block(tensor(x)).numpy(), x)


def test_frozen_parts_are_neither_trained_nor_move():
    net = ResNet(18, width=8, freeze_at=2)
    still = {name for name, p in net.named_parameters() if not p.requires_grad}
    assert still == {n for n, _ in net.named_parameters() if n.startswith(("stem.", "stages.0."))}
    before = net.stem[0].norm.running_mean.numpy().copy()
    moved = net.stages[1][0].body[0].norm.running_mean.numpy().copy()
    net(tensor(IMAGE))
    np.testing.assert_array_equal(net.stem[0].norm.running_mean.numpy(), before)
    assert (net.stages[1][0].body[0].norm.running_mean.numpy() != moved).any()


def test_frozen_norms_are_frozen_everywhere():
    net = ResNet(18, width=8, frozen_norm=True)
    norms = [layer for _, layer in net.named_layers() if isinstance(layer, nn.BatchNorm)]
    assert all(layer.frozen and not layer.scale.requires_grad for layer in norms)
    assert net.stem[0].conv.weight.requires_grad


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"depth": 42}, r"ResNet: depth is 42; it must be one of \[18, 34, 50, 101, 152\]"),
        ({"variant": "e"}, r"variant is 'e'; it must be one of \['a', 'b', 'c', 'd'\]"),
        ({"width": 7}, "width is 7; it must be even"),
        ({"output_stride": 4}, r"output_stride is 4; it must be one of \[8, 16, 32\]"),
        ({"freeze_at": 6}, "freeze_at is 6"),
        ({"output_stride": 16}, r"out_strides is \[4, 8, 16, 32\]; .* out of \[4, 8, 16\]"),
    ],
)
def test_wrong_arguments_are_refused(arguments, match):
    with pytest.raises(AttributeValueError, match=match):
        ResNet(**arguments)


@pytest.mark.peers
@pytest.mark.parametrize("training", [False, True])
def test_the_numbers_are_the_peers(training):
    from suites.classification.models.classifier import ImageClassifier

    net = ImageClassifier(ResNet(50, out_strides=(32,)), num_classes=10)
    init.initialize(net, 0)
    images = np.random.default_rng(0).standard_normal((4, 96, 96, 3)).astype(np.float32)
    single, exact = (Peer(net, training, dtype).resnet50(images) for dtype in ("float32", "float64"))
    with no_grad():
        ours = net.train(training)(tensor(images)).numpy()
    # 53 layers of float32 roundings stay below 1e-5 of the largest number. In training, statistics over the 36 numbers
    # that this size leaves for a channel at the end multiply them, in the peer alike: its own error is the scale, times
    # ten because Winograd's roundings are up to ten times those of a direct convolution.
    allowed = max(1e-5 * np.abs(exact).max(), 10 * np.abs(single - exact).max())
    assert np.abs(ours - exact).max() <= allowed


@pytest.mark.parametrize("modulated", [True, False], ids=["v2", "v1"])
def test_deformable_stages_start_as_plain_convolutions(tmp_path, modulated):
    """Offsets and shares start with zeros: each tap counts in its place, in version 2 sigmoid(0) = 1/2 times."""
    plain, moving = ResNet(50, width=8), ResNet(50, width=8, deformable=(16, 32), modulated=modulated)
    names = [name for name, _ in moving.named_parameters() if ".offset." in name]
    assert len(names) == 2 * (6 + 3) and {name.split(".")[1] for name in names} == {"2", "3"}
    save_tensors(tmp_path / "w.safetensors", plain.state_dict())
    report = load_pretrained(moving, tmp_path / "w.safetensors")
    assert sorted(report.new) == sorted(names) and len(report.loaded) == len(plain.state_dict())
    for name, weight in moving.named_parameters():
        if name.endswith("conv.weight") and name.replace("conv.weight", "offset.weight") in names:
            weight.set(tensor((2 if modulated else 1) * weight.numpy()))
    with no_grad():
        pairs = zip(plain.eval()(tensor(IMAGE)), moving.eval()(tensor(IMAGE)), strict=True)
        for a, b in pairs:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def test_deformable_stages_are_bottlenecks_of_known_strides():
    for more in ({"depth": 18, "deformable": (32,)}, {"depth": 50, "deformable": (4,)}):
        with pytest.raises(AttributeValueError, match=r"it must be strides out of \[8, 16, 32\], and the blocks"):
            ResNet(**more)


def test_variant_a_halves_in_its_first_convolution():
    strides = {}
    for variant in "ab":
        block = ResNet(50, variant, width=8).stages[1][0]
        strides[variant] = [layer.conv.stride[0] for layer in block.body]
    assert strides == {"a": [2, 1, 1], "b": [1, 2, 1]}


def test_names_are_those_of_detectron2_and_paddleclas():
    net = ResNet(50, deformable=(32,), out_strides=(16, 32))
    names = {ours: source.names[0] for ours, source in net.names_in("detectron2").sources.items()}
    assert set(names) == set(net.state_dict())
    assert names["stem.0.norm.running_var"] == "stem.conv1.norm.running_var"
    assert names["stages.3.0.short.norm.scale"] == "res5.0.shortcut.norm.weight"
    assert names["stages.3.2.body.1.offset.bias"] == "res5.2.conv2_offset.bias"
    net = ResNet(50, "d", out_strides=(8,))
    names = {ours: source.names[0] for ours, source in net.names_in("paddleclas").sources.items()}
    assert names["stem.2.conv.weight"] == "stem.2.conv.weight"
    assert names["stages.1.0.short.norm.running_mean"] == "blocks.3.short.bn._mean"
    assert names["stages.1.3.body.2.conv.weight"] == "blocks.6.conv2.conv.weight"
    assert net.top_names("paddleclas").sources["fc.weight"].axes == (1, 0)
    left = net.names_in("paddleclas").unused
    assert any(re.search(p, "blocks.15.conv0.conv.weight") for p in left) and any(re.search(p, "fc.bias") for p in left)
    assert not any(re.search(p, "blocks.1.conv0.conv.weight") for p in left)
