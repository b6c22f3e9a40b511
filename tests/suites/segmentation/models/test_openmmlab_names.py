"""MMSegmentation's PSPNet and DeepLabV3+ become ours: their names are written out here from its documentation (1.2,
`ResNetV1c`, `PSPHead`, `DepthwiseSeparableASPPHead`, `FCNHead`), with shapes. No published file was available."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from framework import tensor
from framework.errors import AttributeValueError
from suites.engine.weights import load_pretrained
from suites.segmentation.models.deeplab_v3plus import DeepLabV3Plus
from suites.segmentation.models.pspnet import PSPNet
from suites.vision.backbones import MobileNetV2, ResNet

WIDTH, K = 8, 3
RNG = np.random.default_rng(0)


def conv(name, k, c, size, norm):
    found = {f"{name}.weight": (k, c, size, size), f"{norm}.num_batches_tracked": ()}
    return found | {f"{norm}.{leaf}": (k,) for leaf in ("weight", "bias", "running_mean", "running_var")}


def module(name, k, c, size):
    return conv(f"{name}.conv", k, c, size, f"{name}.bn")


def backbone():
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
    return found


def drawn(shapes, channels):
    """Numbers for the tensors of a backbone and a head, with both heads' classifiers."""
    found = backbone() | shapes | module("auxiliary_head.convs.0", 12, 16 * WIDTH, 3)
    for head, c in (("decode_head", channels), ("auxiliary_head", 12)):
        found |= {f"{head}.conv_seg.weight": (K, c, 1, 1), f"{head}.conv_seg.bias": (K,)}
    return {n: np.asarray(np.abs(RNG.standard_normal(shape)) * 0.1, np.float32) for n, shape in found.items()}


def published():
    deep, found = 32 * WIDTH, {}
    for i in range(4):
        found |= module(f"decode_head.psp_modules.{i}.1", deep // 4, deep, 1)
    return drawn(found | module("decode_head.bottleneck", 16, 2 * deep, 3), 16)


def separable(name, k, c):
    depthwise = conv(f"{name}.depthwise_conv.conv", c, 1, 3, f"{name}.depthwise_conv.bn")
    return depthwise | module(f"{name}.pointwise_conv", k, c, 1)


def published_deeplab():
    deep, found = 32 * WIDTH, module("decode_head.image_pool.1", 16, 32 * WIDTH, 1)
    found |= module("decode_head.aspp_modules.0", 16, deep, 1)
    for i in (1, 2, 3):
        found |= separable(f"decode_head.aspp_modules.{i}", 16, deep)
    found |= module("decode_head.bottleneck", 16, 5 * 16, 3) | module("decode_head.c1_bottleneck", 6, 4 * WIDTH, 1)
    for i, c in enumerate((16 + 6, 16)):
        found |= separable(f"decode_head.sep_bottleneck.{i}", 16, c)
    return drawn(found, 16)


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


def deeplab(**more):
    backbone = ResNet(50, "c", width=WIDTH, out_strides=(4, 8), output_stride=8)
    return DeepLabV3Plus(backbone, K, (12, 24, 36), 16, 6, **more)


@pytest.mark.parametrize("aux_weight", [0.4, 0.0])
def test_deeplab_takes_the_pooled_branch_from_their_first_channels(aux_weight, tmp_path):
    arrays = published_deeplab()
    save_file(arrays, tmp_path / "w.safetensors")
    model = deeplab(merge_kernel=3, aux_channels=12, aux_weight=aux_weight)
    report = load_pretrained(model, tmp_path / "w.safetensors")
    assert set(report.loaded) == set(model.state_dict())
    assert all(n.endswith("num_batches_tracked") or n.startswith("auxiliary_head") for n in report.unused)
    theirs = arrays["decode_head.bottleneck.conv.weight"].transpose(0, 2, 3, 1)
    ours = model.pyramid.merge.conv.weight.numpy()
    np.testing.assert_array_equal(ours[..., -16:], theirs[..., :16])  # joined before the 1x1 branch there, last here
    np.testing.assert_array_equal(ours[..., :-16], theirs[..., 16:])
    source = model.names_in("openmmlab").sources["pyramid.merge.conv.weight"]
    np.testing.assert_array_equal(source.theirs(ours), arrays["decode_head.bottleneck.conv.weight"])


def test_deeplab_with_another_merge_knows_no_names_and_learns_from_both_heads():
    assert deeplab().schemes == ()
    images = tensor(np.zeros((2, 32, 32, 3), np.float32))
    assert [list(each.shape) for each in deeplab(aux_weight=0.4).outputs(images)] == [[2, 8, 8, K], [2, 4, 4, K]]
    with pytest.raises(AttributeValueError, match="merge_kernel is 2"):
        deeplab(merge_kernel=2)
