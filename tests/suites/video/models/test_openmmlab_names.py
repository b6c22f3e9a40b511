"""MMAction2's files become our TSN and TSM: their names are written out here from its documentation (1.2, `ResNet`,
`ResNetTSM`, `TSNHead`, `TSMHead`), with shapes. No published file was available."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from framework import tensor
from framework.errors import CheckpointError
from suites.engine.weights import load_pretrained
from suites.engine.weights.pretrained import has_our_names
from suites.video.models.tsm import TSM
from suites.video.models.tsn import TSN
from suites.vision.backbones import MobileNetV2, ResNet

WIDTH, K = 8, 3
RNG = np.random.default_rng(0)


def conv_module(name, k, c, size, shift=""):
    """mmcv's ConvModule: a convolution without bias and its norm; TSM puts the convolution into a TemporalShift."""
    found = {f"{name}.conv{shift}.weight": (k, c, size, size), f"{name}.bn.num_batches_tracked": ()}
    return found | {f"{name}.bn.{leaf}": (k,) for leaf in ("weight", "bias", "running_mean", "running_var")}


def published(shift):
    found = conv_module("backbone.conv1", WIDTH, 3, 7)
    before = WIDTH
    for stage, count in enumerate((3, 4, 6, 3)):
        inner = WIDTH << stage
        for i in range(count):
            at = f"backbone.layer{stage + 1}.{i}"
            found |= conv_module(f"{at}.conv1", inner, before if i == 0 else 4 * inner, 1, ".net" if shift else "")
            found |= conv_module(f"{at}.conv2", inner, inner, 3) | conv_module(f"{at}.conv3", 4 * inner, inner, 1)
            if i == 0:
                found |= conv_module(f"{at}.downsample", 4 * inner, before, 1)
        before = 4 * inner
    found |= {"cls_head.fc_cls.weight": (K, 32 * WIDTH), "cls_head.fc_cls.bias": (K,)}
    return {n: np.asarray(np.abs(RNG.standard_normal(shape)) * 0.1, np.float32) for n, shape in found.items()}


def made(kind, classes=K):
    return kind(ResNet(50, width=WIDTH, out_strides=(32,)), classes)


@pytest.mark.parametrize("kind", [TSN, TSM])
def test_all_tensors_find_their_place(kind, tmp_path):
    arrays = published(kind is TSM)
    save_file(arrays, tmp_path / "w.safetensors")
    model = made(kind)
    report = load_pretrained(model, tmp_path / "w.safetensors")
    assert set(report.loaded) == set(model.state_dict()) and not report.new
    assert all(name.endswith("num_batches_tracked") for name in report.unused)
    block, shift = model.backbone.stages[1][0], ".net" if kind is TSM else ""
    for ours, theirs in (
        (block.body[0].conv.weight, f"backbone.layer2.0.conv1.conv{shift}.weight"),
        (block.body[1].conv.weight, "backbone.layer2.0.conv2.conv.weight"),
        (block.short.conv.weight, "backbone.layer2.0.downsample.conv.weight"),
        (model.backbone.stem[0].conv.weight, "backbone.conv1.conv.weight"),
    ):
        np.testing.assert_array_equal(ours.numpy(), arrays[theirs].transpose(0, 2, 3, 1))
    theirs = arrays["backbone.layer2.0.conv3.bn.running_var"]
    np.testing.assert_array_equal(block.body[2].norm.running_var.numpy(), theirs)
    np.testing.assert_array_equal(model.fc.weight.numpy(), arrays["cls_head.fc_cls.weight"])


def test_other_classes_start_new_and_a_file_of_the_other_network_is_refused(tmp_path):
    save_file(published(shift=False), tmp_path / "w.safetensors")
    report = load_pretrained(made(TSN, classes=5), tmp_path / "w.safetensors")
    assert {name for name in [*report.new, *report.partly, *report.resized] if name.startswith("fc")}
    with pytest.raises(CheckpointError, match=r"missing: backbone.stages.0.0.body.0.conv.weight .*net.weight"):
        load_pretrained(made(TSM), tmp_path / "w.safetensors")


def test_only_the_networks_that_they_have_know_the_names(tmp_path):
    assert TSN(MobileNetV2(out_strides=(32,)), K).schemes == ()
    assert TSN(ResNet(50, "d", width=WIDTH, out_strides=(32,)), K).schemes == ()
    model = made(TSN)
    save_file({n: t.numpy() for n, t in model.state_dict().items()}, tmp_path / "own.safetensors")
    assert has_our_names(model, tmp_path / "own.safetensors")


def test_the_shift_goes_as_theirs_does():
    """`TemporalShift.shift`: an eighth of the channels comes from the frame after, the next from the frame before."""
    from framework import ops

    x = RNG.standard_normal((2, 5, 3, 3, 16)).astype(np.float32)
    wanted = x.copy()
    wanted[:, :-1, ..., :2], wanted[:, -1, ..., :2] = x[:, 1:, ..., :2], 0
    wanted[:, 1:, ..., 2:4], wanted[:, 0, ..., 2:4] = x[:, :-1, ..., 2:4], 0
    np.testing.assert_array_equal(ops.temporal_shift(tensor(x), channels=2).numpy(), wanted)
