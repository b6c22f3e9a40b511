"""What every segmentation network promises: a step traced as well as eager, any image size, export, ONNX."""

import numpy as np
import pytest

from framework import from_numpy, no_grad, program, tensor
from framework.errors import AttributeValueError, NotSupportedError
from framework.graph.files import save_program
from framework.graph.passes import INFERENCE_PASSES
from framework.nn import init
from framework.predictor import Predictor
from suites.segmentation.losses import CrossEntropy
from suites.segmentation.models.bisenet_v2 import BiSeNetV2
from suites.segmentation.models.deeplab_v3plus import DeepLabV3Plus
from suites.segmentation.models.fast_scnn import FastSCNN
from suites.segmentation.models.hrnet import FCN, OCRNet
from suites.segmentation.models.icnet import ICNet
from suites.segmentation.models.pspnet import PSPNet
from suites.segmentation.models.unet import UNet
from suites.segmentation.task import SegmentationTask
from suites.vision.backbones import HRNet, MobileNetV1, MobileNetV2, MobileNetV3, ResNet, UNetEncoder, Xception
from tests.suites.segmentation.models.zoo import TINY, K, dilated, tiny


def images_of(*size, count=2, seed=0):
    return np.random.default_rng(seed).standard_normal((count, *size, 3)).astype(np.float32)


@pytest.mark.parametrize("name", TINY)
def test_a_step_is_the_same_eagerly_and_as_a_program(name):
    """Losses of all outputs, and a gradient for every parameter."""
    net = tiny(name)
    task = SegmentationTask(net, [CrossEntropy()])

    def step(images, labels):
        for parameter in net.parameters():
            parameter.grad = None
        terms = {key: term.mean for key, term in task.train_step({"images": images, "labels": labels}).items()}
        sum(terms.values(), start=tensor(np.float32(0))).backward()
        return terms

    given = tensor(images_of(32, 48)), tensor(np.random.default_rng(1).integers(0, K, (2, 32, 48)).astype(np.int32))
    buffers = {key: buffer.numpy().copy() for key, buffer in net.named_buffers()}
    found = []
    for run in (step, program(step)):
        for key, buffer in net.named_buffers():
            buffer.set(tensor(buffers[key]))
        terms = {key: float(term) for key, term in run(*given).items()}
        found.append((terms, {key: p.grad.numpy().copy() for key, p in net.named_parameters() if p.grad is not None}))
    (eager, ours), (traced, theirs) = found
    assert len(eager) == len(net.loss_weights) and traced == pytest.approx(eager, rel=1e-4)
    assert len(ours) == len(theirs) == len(net.parameters())
    for key, gradient in ours.items():
        assert np.isfinite(gradient).all()
        # Norms over few pixels multiply roundings: of two orders of sums, a percent of the largest may remain.
        np.testing.assert_allclose(theirs[key], gradient, rtol=2e-2, atol=1e-2 * np.abs(gradient).max() + 1e-6)


@pytest.mark.parametrize("name", TINY)
def test_one_program_takes_any_image_size_and_its_export_predicts_the_same(name, tmp_path):
    net = tiny(name).eval()
    traced = program(lambda x: net(x), pass_names=INFERENCE_PASSES)
    with no_grad():
        save_program(traced.program_for(from_numpy(images_of(32, 48))).program, tmp_path)
        predictor = Predictor(tmp_path)
        for size in ((32, 48), (33, 49), (8, 57), (1, 1)):  # 8 n + 1 is what the papers' crops are
            images = images_of(*size)
            wanted = net(from_numpy(images)).numpy()
            assert wanted.shape == (2, *size, K)
            for found in (traced(images).numpy(), predictor.run([images])[0]):
                np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())
    assert not traced.program_for(from_numpy(images)).program.shape_reads


@pytest.mark.parametrize("name", TINY)
def test_onnx_runtime_gives_the_same(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    from framework.onnx import EXPORT_PASSES, export

    net = tiny(name).eval()
    with no_grad():
        exported = program(lambda x: net(x), pass_names=EXPORT_PASSES).program_for(from_numpy(images_of(32, 48)))
        export(exported.program, tmp_path / "model.onnx", output_names=["logits"])
        session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
        (given,) = session.get_inputs()
        for size in ((32, 48), (41, 33)):
            images = images_of(*size)
            wanted = net(from_numpy(images)).numpy()
            (found,) = session.run(None, {given.name: images})
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


def count(net):
    return sum(p.size for p in net.parameters())


def test_parameters_are_as_many_as_published():
    with init.undrawn():
        # PaddleSeg's summary of U-Net counts 13,404,354 at 2 classes: with a bias before each norm (one a channel) and
        # the norms' running statistics (two a channel), which are no parameters here; 3,968 channels.
        assert count(UNet(UNetEncoder(), 2)) + 3 * 3968 == 13_404_354
        # 65.9 million in the paper's table of Cityscapes, 70.3 million with OCR in the authors' list.
        assert count(FCN(HRNet(48), 19)) == 65_858_659
        assert count(OCRNet(HRNet(48), 19)) == 70_371_446
        # 1.11 million in the paper.
        assert round(count(FastSCNN(19, aux_weight=0)) / 1e6, 1) == 1.1
        # timm's xception41, 65 and 71 with the classifier of 1,000 classes: 26.97, 39.92 and 42.34 million.
        found = [round((count(Xception(d)) + 2049 * 1000) / 1e6, 2) for d in (41, 65, 71)]
        assert found == [26.97, 39.92, 42.34]


def test_xception_dilates_instead_of_halving_below_its_output_stride():
    with init.undrawn():
        nets = {s: Xception(65, (4, s), s) for s in (8, 16, 32)}
    found = {s: [next(iter(b.body))[0].conv.dilation[0] for b in net.blocks] for s, net in nets.items()}
    assert found[32] == [1] * 21
    assert found[16] == [1] * 20 + [2]
    assert found[8] == [1] * 3 + [2] * 17 + [4]
    assert nets[8].channels == nets[16].channels == (256, 2048)


def test_mobilenet_v3_dilates_instead_of_halving_below_its_output_stride():
    with init.undrawn():
        net = MobileNetV3("large", out_strides=(4, 16), output_stride=16)
    depthwise = [next(layer.conv for layer in b.body if layer.conv.groups > 1) for b in net.blocks]
    assert [conv.dilation[0] for conv in depthwise] == [1] * 12 + [2] * 3


def test_auxiliary_heads_can_be_left_out():
    with init.undrawn():
        nets = [PSPNet(dilated(), K, 16, aux_weight=0), FastSCNN(K, aux_weight=0), BiSeNetV2(K, aux_weight=0)]
    for net in nets:
        assert net.loss_weights == (1.0,)
        assert len(net.eval().outputs(tensor(images_of(32, 32)))) == 1


def test_the_second_head_of_pspnet_stands_on_the_stage_before_the_last():
    assert PSPNet(dilated(50), K)._aux_at.channels == 4 * 32
    assert PSPNet(MobileNetV2(0.25, (8,), 8), K)._aux_at.channels == 40  # of 160 at full width


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: UNet(MobileNetV1(out_strides=(4,)), K), AttributeValueError, r"UNet: backbone gives 1 maps"),
        (lambda: UNet(MobileNetV1(), K, (8,)), AttributeValueError, r"gives 3 maps .* channels has 1 numbers"),
        (lambda: UNet(UNetEncoder((4,)), K), AttributeValueError, r"UNetEncoder: widths is \[4\]"),
        (lambda: UNet(UNetEncoder((4, 4)), 1), AttributeValueError, "UNet: num_classes is 1; it must be 2 or more"),
        (
            lambda: PSPNet(ResNet(18, width=8), K),
            AttributeValueError,
            r"PSPNet: backbone gives 4 maps .* must give one",
        ),
        (lambda: PSPNet(dilated(), K, grids=(0, 1)), AttributeValueError, r"PSPNet: grids is \[0, 1\]"),
        (lambda: PSPNet(HRNet(4, (4,)), K), NotSupportedError, "HRNet: is not made of blocks that a model could go"),
        (lambda: ICNet(dilated(stride=16), K), AttributeValueError, "ICNet: backbone gives stride 16"),
        (
            lambda: Xception(65, (4, 32), 16),
            AttributeValueError,
            r"out_strides is \[4, 32\]; .* out of \[2, 4, 8, 16\]",
        ),
        (lambda: DeepLabV3Plus(Xception(41, (16,)), K), AttributeValueError, "backbone gives 1 maps"),
    ],
)
def test_misfits_are_refused(make, error, match):
    with init.undrawn(), pytest.raises(error, match=match):
        make()
