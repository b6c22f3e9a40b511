"""MMSegmentation's PSPNet becomes ours: its names are written out here from its documentation (1.2, `ResNetV1c`,
`PSPHead`, `FCNHead`), with shapes. No published file was available."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from suites.engine.weights import load_pretrained
from suites.segmentation.models.pspnet import PSPNet
from suites.vision.backbones import MobileNetV2, ResNet

WIDTH, K = 8, 3
RNG = np.random.default_rng(0)


def conv(name, k, c, size, norm):
    found = {f"{name}.weight": (k, c, size, size), f"{norm}.num_batches_tracked": ()}
    return found | {f"{norm}.{leaf}": (k,) for leaf in ("weight", "bias", "running_mean", "running_var")}


def module(name, k, c, size):
    return conv(f"{name}.conv", k, c, size, f"{name}.bn")


def published():
    found = conv("backbone.stem.0", WIDTH // 2, 3, 3, "backbone.stem.1")
    found |= conv("backbone.stem.3", WIDTH // 2, WIDTH // 2, 3, "backbone.stem.4")
    found |= conv("backbone.stem.6", WIDTH, WIDTH // 2, 3, "backbone.stem.7")
    before = WIDTH
    for stage, count in enumerate((3, 4, 6, 3)):
        inner = WIDTH << stage
        for i in range(count):
            at = f"backbone.layer{stage + 1}.{i}"
            found |= conv(f"{at}.conv1", inner, before if i == 0 else 4 * inner, 1, f"{at}.bn1")
            found |= conv(f"{at}.conv2", inner, inner, 3, f"{at}.bn2")
            found |= conv(f"{at}.conv3", 4 * inner, inner, 1, f"{at}.bn3")
            if i == 0:
                found |= conv(f"{at}.downsample.0", 4 * inner, before, 1, f"{at}.downsample.1")
        before = 4 * inner
    deep = 32 * WIDTH
    for i in range(4):
        found |= module(f"decode_head.psp_modules.{i}.1", deep // 4, deep, 1)
    found |= module("decode_head.bottleneck", 16, 2 * deep, 3)
    found |= module("auxiliary_head.convs.0", 12, deep // 2, 3)
    for head, c in (("decode_head", 16), ("auxiliary_head", 12)):
        found |= {f"{head}.conv_seg.weight": (K, c, 1, 1), f"{head}.conv_seg.bias": (K,)}
    return {n: np.asarray(np.abs(RNG.standard_normal(shape)) * 0.1, np.float32) for n, shape in found.items()}


def made(classes=K, **more):
    backbone = ResNet(50, "c", width=WIDTH, out_strides=(8,), output_stride=8)
    return PSPNet(backbone, classes, channels=16, aux_channels=12, **more)


@pytest.mark.parametrize("aux_weight", [0.4, 0.0])
def test_all_tensors_find_their_place(aux_weight, tmp_path):
    arrays = published()
    save_file(arrays, tmp_path / "w.safetensors")
    model = made(aux_weight=aux_weight)
    report = load_pretrained(model, tmp_path / "w.safetensors")
    assert set(report.loaded) == set(model.state_dict())
    assert all(n.endswith("num_batches_tracked") or n.startswith("auxiliary_head") for n in report.unused)
    for ours, theirs in (
        (model.pyramid.branches[3].conv.weight, "decode_head.psp_modules.3.1.conv.weight"),
        (model.pyramid.merge.conv.weight, "decode_head.bottleneck.conv.weight"),
        (model.classifier.weight, "decode_head.conv_seg.weight"),
        (model.backbone.stem[1].conv.weight, "backbone.stem.3.weight"),
    ):
        np.testing.assert_array_equal(ours.numpy(), arrays[theirs].transpose(0, 2, 3, 1))


def test_other_classes_start_new_and_other_backbones_know_no_names(tmp_path):
    save_file(published(), tmp_path / "w.safetensors")
    report = load_pretrained(made(classes=5), tmp_path / "w.safetensors")
    new = " ".join([*report.new, *report.resized])
    assert all(name in new for name in ("classifier.weight", "classifier.bias", "aux.2.weight", "aux.2.bias"))
    assert PSPNet(MobileNetV2(out_strides=(8,), output_stride=8), K).schemes == ()
