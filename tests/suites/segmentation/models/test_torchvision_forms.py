"""FCN, DeepLabV3 and LR-ASPP have torchvision's logits with its drawn weights; they train and export as others do."""

import numpy as np
import pytest

from framework import nn, no_grad, ops, tensor
from framework.errors import AttributeValueError
from suites.engine.weights import load_pretrained
from suites.segmentation.models.torchvision_forms import LRASPP, DeepLabV3, DilatedFCN
from suites.vision.backbones import MobileNetV3, ResNet
from tests.suites.vision.peer_nets import close, drawn, pictures


def mobilenet(strides):
    return MobileNetV3("large", out_strides=strides, output_stride=16, segmenting=True)


NETS = {
    "fcn_resnet50": lambda: DilatedFCN(ResNet(50, out_strides=(8,), output_stride=8), 5),
    "deeplabv3_resnet50": lambda: DeepLabV3(ResNet(50, out_strides=(8,), output_stride=8), 5, aux_weight=0.5),
    "deeplabv3_mobilenet_v3_large": lambda: DeepLabV3(mobilenet((16,)), 5),
    "lraspp_mobilenet_v3_large": lambda: LRASPP(mobilenet((8, 16)), 5),
}


@pytest.mark.peers
@pytest.mark.parametrize("name", NETS)
def test_logits_are_torchvisions(tmp_path, name):
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    import torchvision

    aux = {} if name.startswith("lraspp") else {"aux_loss": True}
    make = getattr(torchvision.models.segmentation, name)
    theirs = drawn(torch, make(weights=None, weights_backbone=None, num_classes=5, **aux))
    torch.save(theirs.state_dict(), tmp_path / "w.pth")
    with nn.init.undrawn():
        ours = NETS[name]().eval()
    report = load_pretrained(ours, f"{tmp_path}/w.pth@torchvision")
    assert set(report.loaded) == set(ours.state_dict())
    left = [n for n in report.unused if not n.endswith("num_batches_tracked")]
    second = getattr(ours, "aux", None) is not None
    assert all(n.startswith("aux_classifier.") for n in left) and bool(left) == (bool(aux) and not second)
    images = pictures(1, 75, 98)
    with no_grad(), torch.no_grad():
        found = theirs(torch.from_numpy(images).permute(0, 3, 1, 2))
        wanted = {key: value.permute(0, 2, 3, 1).numpy() for key, value in found.items()}
        close(ours(tensor(images)).numpy(), wanted["out"], 1e-4)
        if second:
            close(ops.resize_bilinear(ours.outputs(tensor(images))[1], tensor(images)).numpy(), wanted["aux"], 1e-4)
        assert np.ptp(wanted["out"]) > 0.01


@pytest.mark.parametrize("kind", [DilatedFCN, DeepLabV3, LRASPP])
def test_maps_that_are_missing_are_an_error(kind):
    with pytest.raises(AttributeValueError, match=f"{kind.__name__}: backbone gives 3 maps"):
        kind(MobileNetV3("small", 0.35), 5)


def test_a_negative_weight_of_the_second_head_is_an_error():
    with pytest.raises(AttributeValueError, match="DilatedFCN: aux_weight is -1"):
        DilatedFCN(MobileNetV3("small", 0.35, (32,)), 5, aux_weight=-1)
