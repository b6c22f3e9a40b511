"""TSM, Non-local, StNet, I3D and R(2+1)D equal readings of their papers in NumPy, weights copied."""

import numpy as np
import pytest

from framework import from_numpy, no_grad, ops, program
from framework.errors import AttributeValueError, NotSupportedError
from framework.nn import init
from suites.video.models.non_local import NonLocal, NonLocalBlock
from suites.video.models.resnet3d import I3D, MC3, R3D, R2Plus1D
from suites.video.models.stnet import StNet, TemporalBlock, TemporalXception
from suites.video.models.tsm import TSM
from suites.video.models.tsn import TSN
from suites.vision.backbones import DarkNet53, MobileNetV2, ResNet
from tests.suites.video.models.reference import batch_norm, conv3d, depthwise, relu, softmax, weights_of

RNG = np.random.default_rng(0)
CLIPS = RNG.standard_normal((2, 4, 32, 32, 3)).astype(np.float32)
LONG = RNG.standard_normal((2, 6, 32, 32, 3)).astype(np.float32)


def resnet(**arguments):
    return ResNet(18, width=8, out_strides=(32,), **arguments)


def drawn(layer, seed=0):
    """Random weights everywhere: norms and biases that start at 0 or 1 would hide a mistake."""
    init.initialize(layer, seed)
    rng = np.random.default_rng(seed)
    for parameter in layer.parameters():
        if parameter.ndim == 1:
            parameter.set(from_numpy(rng.standard_normal(parameter.shape).astype(np.float32)))
    return layer


def size_of(net):
    """Parameters of a network."""
    return sum(np.prod(p.shape) for p in net.parameters())


MODELS = {
    "tsm": lambda: TSM(resnet(), 5),
    "tsm_mobilenetv2": lambda: TSM(MobileNetV2(0.25, out_strides=(32,)), 5, top=True),
    "non_local": lambda: NonLocal(resnet(), 5),
    "stnet": lambda: StNet(resnet(in_channels=6), 5, frames=2),
    "i3d": lambda: I3D(5, width=4),
    "r2plus1d": lambda: R2Plus1D(5, width=8),
    "r3d": lambda: R3D(5, width=4),
    "mc3": lambda: MC3(5, width=4),
}


@pytest.mark.parametrize("name", MODELS)
def test_one_program_takes_any_number_of_clips_and_frames(name):
    net = drawn(MODELS[name]()).eval()
    traced = program(lambda x: net(x))
    with no_grad():
        for clips in (CLIPS, CLIPS[:1], np.repeat(CLIPS, 2, axis=1)):
            expected = net(from_numpy(clips)).numpy()
            assert expected.shape == (len(clips), 5)
            np.testing.assert_allclose(traced(clips).numpy(), expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    assert not traced.program_for(from_numpy(CLIPS)).program.shape_reads


@pytest.mark.parametrize("name", MODELS)
def test_a_gradient_reaches_every_parameter(name):
    net = drawn(MODELS[name]())
    ops.mean(ops.cross_entropy(net(from_numpy(CLIPS)), from_numpy(np.array([0, 1])))).backward()
    assert all(p.grad is not None and np.isfinite(p.grad.numpy()).all() for p in net.parameters())


@pytest.mark.parametrize("name", ["tsm", "stnet", "i3d", "r2plus1d"])
def test_the_order_of_frames_matters(name):
    net = drawn(MODELS[name]()).eval()
    with no_grad():
        one, other = (net(from_numpy(np.ascontiguousarray(c))).numpy() for c in (CLIPS, CLIPS[:, ::-1]))
    assert np.abs(one - other).max() > 1e-3 * np.abs(one).max()


def test_tsm_shifts_an_eighth_each_way_for_the_body_and_not_for_the_shortcut(monkeypatch):
    net = drawn(TSM(resnet(), 5)).eval()
    x = RNG.standard_normal((8, 8, 8, 8)).astype(np.float32)  # two clips of four frames
    shifted = x.reshape(2, 4, 8, 8, 8).copy()
    shifted[:, :-1, ..., :1], shifted[:, -1, ..., :1] = shifted[:, 1:, ..., :1].copy(), 0
    shifted[:, 1:, ..., 1:2], shifted[:, 0, ..., 1:2] = shifted[:, :-1, ..., 1:2].copy(), 0
    seen = []
    block = net.backbone.stages[0][0]
    with no_grad():
        expected = relu(block.body(from_numpy(shifted.reshape(x.shape))).numpy() + x)
        first, _ = net.backbone.placed()[0]
        walk = "suites.video.models.tsm.walk"
        monkeypatch.setattr(walk, lambda backbone, frames, visit: seen.append(visit(first, block, from_numpy(x))))
        net.maps(None, from_numpy(CLIPS))
    np.testing.assert_allclose(seen[0].numpy(), expected, rtol=1e-5, atol=1e-5)


def test_mobilenetv2_is_shifted_in_blocks_with_a_shortcut_only():
    backbone = MobileNetV2(out_strides=(32,))
    assert sum(block.shortcut for block in backbone.blocks) == 10


def test_a_non_local_block_is_the_papers():
    block = drawn(NonLocalBlock(6))
    x = RNG.standard_normal((8, 4, 6, 6))  # two clips of four frames
    w = weights_of(block)
    theta, phi, g = (
        np.einsum("fhwc,kc->fhwk", x, w[f"{n}.weight"][:, 0, 0]) + w[f"{n}.bias"] for n in ("theta", "phi", "g")
    )
    pooled = [part.reshape(8, 2, 2, 3, 2, 3).max((2, 4)).reshape(2, -1, 3) for part in (phi, g)]
    weights = softmax(theta.reshape(2, -1, 3) @ pooled[0].transpose(0, 2, 1) / np.sqrt(3))
    seen = (weights @ pooled[1]).reshape(8, 4, 6, 3) @ w["out.weight"][:, 0, 0].T + w["out.bias"]
    expected = x + batch_norm(seen, w["norm.scale"], w["norm.bias"])
    found = block(from_numpy(x.astype(np.float32)), from_numpy(CLIPS)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_non_local_blocks_start_as_the_identity_and_stand_where_the_paper_puts_them():
    net = NonLocal(ResNet(50, width=4, out_strides=(32,)), 5)
    assert sorted(net._at) == [(8, 1), (8, 3), (16, 1), (16, 3), (16, 5)]
    init.initialize(net, 0)
    plain = TSN(net.backbone, 5)
    plain.fc = net.fc
    with no_grad():
        np.testing.assert_array_equal(net.eval()(from_numpy(CLIPS)).numpy(), plain.eval()(from_numpy(CLIPS)).numpy())


def test_stnets_temporal_block_convolves_then_rectifies_then_normalises_then_adds():
    block = drawn(TemporalBlock(5))
    x = RNG.standard_normal((8, 3, 3, 5))
    w = weights_of(block)
    kernel = w["conv.weight"].reshape(5, 3, 1, 1, 5)
    y = relu(conv3d(x.reshape(2, 4, 3, 3, 5), kernel, w["conv.bias"], padding=(1, 0, 0)))
    expected = x + batch_norm(y, w["norm.scale"], w["norm.bias"]).reshape(x.shape)
    found = block(from_numpy(x.astype(np.float32)), from_numpy(CLIPS)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_stnets_temporal_xception_is_paddles():
    block = drawn(TemporalXception(6, 4))
    x = RNG.standard_normal((2, 7, 6))
    w = weights_of(block)

    def norm(name, value):
        return batch_norm(value, w[f"{name}.scale"], w[f"{name}.bias"])

    def pointwise(name, value):
        return value @ w[f"{name}.weight"][:, 0, 0].T + w[f"{name}.bias"]

    start = norm("norm", x)
    y = depthwise(start, w["depthwise1.weight"][:, :, 0, 0], w["depthwise1.bias"])
    y = relu(norm("inner_norm", pointwise("pointwise1", y)))
    y = pointwise("pointwise2", depthwise(y, w["depthwise2.weight"][:, :, 0, 0], w["depthwise2.bias"]))
    expected = relu(norm("last_norm", y + pointwise("short", start)))
    found = block(from_numpy(x[:, :, None].astype(np.float32))).numpy()[:, :, 0]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_stnets_super_image_of_one_frame_repeated_is_seen_as_that_frame():
    """Weights of an image network, spread over the frames of a super-image, see their mean."""
    image, supers = drawn(resnet()), drawn(resnet(in_channels=9))
    theirs = {name: p.numpy() for name, p in image.state_dict().items()}
    source = supers.names_in("torchvision").sources["stem.0.conv.weight"]
    kernel = source.ours(theirs["stem.0.conv.weight"].transpose(0, 3, 1, 2))
    frame = from_numpy(RNG.standard_normal((1, 32, 32, 3)).astype(np.float32))
    alone = ops.conv2d(frame, from_numpy(theirs["stem.0.conv.weight"]), stride=2, padding=3).numpy()
    film = ops.concat([frame] * 3, axis=3)
    together = ops.conv2d(film, from_numpy(np.ascontiguousarray(kernel)), stride=2, padding=3).numpy()
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(source.theirs(kernel), theirs["stem.0.conv.weight"].transpose(0, 3, 1, 2), rtol=1e-6)


def test_r2plus1d_18_has_the_published_number_of_parameters():
    """31,505,325 of torchvision's r2plus1d_18 for 400 classes."""
    assert size_of(R2Plus1D(400)) == 31_505_325


def test_i3d_r50_has_the_published_number_of_parameters():
    """28.04 million of PySlowFast's I3D R50 8x8 for 400 classes (its model zoo)."""
    assert round(size_of(I3D(400)) / 1e6, 2) == 28.04


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: TSM(resnet(), 5, share=1), AttributeValueError, "share is 1; it must be 2 or more"),
        (lambda: TSM(DarkNet53(), 5), NotSupportedError, "is not made of blocks"),
        (lambda: NonLocal(resnet(), 5, at=(2,)), AttributeValueError, r"no block of ResNet is chosen"),
        (lambda: StNet(resnet(), 5), AttributeValueError, r"must take 15 channels .* this ResNet takes 3"),
        (lambda: I3D(0), AttributeValueError, "num_classes is 0; it must be 1 or more"),
    ],
)
def test_wrong_arguments_are_refused(make, error, match):
    with pytest.raises(error, match=match):
        make()


def test_stnet_refuses_clips_that_hold_no_whole_super_image():
    net = drawn(StNet(resnet(in_channels=15), 5))
    with pytest.raises(Exception, match="4 frames with its padding; a window takes 5"):
        net(from_numpy(CLIPS))


def test_mobilenets_first_convolution_is_spread_over_the_frames_of_a_super_image():
    supers = MobileNetV2(0.25, in_channels=15)
    theirs = RNG.standard_normal((8, 3, 3, 3))
    found = supers.names_in("timm").sources["stem.conv.weight"].ours(theirs)
    assert found.shape == supers.stem.conv.weight.shape == (8, 3, 3, 15)
    summed = found.reshape(8, 3, 3, 5, 3).sum(axis=3)  # a frame repeated is seen as that frame
    np.testing.assert_allclose(summed, theirs.transpose(0, 2, 3, 1), rtol=1e-6)
    assert StNet(supers, 2)(from_numpy(np.zeros((1, 10, 32, 32, 3), np.float32))).shape == (1, 2)
