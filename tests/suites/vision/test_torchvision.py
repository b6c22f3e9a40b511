"""Classifiers and backbones have torchvision's numbers with its weights, drawn at random and read as a file."""

import numpy as np
import pytest

from framework import no_grad, tensor
from suites.classification import ImageClassifier
from suites.engine.weights import load_pretrained
from suites.vision.backbones import MobileNetV2, MobileNetV3, ResNet, ResNeXt

pytestmark = pytest.mark.peers

NETS = {
    "resnet18": lambda: (ResNet(18), False),
    "resnet34": lambda: (ResNet(34, out_strides=(8, 32)), False),
    "resnet50": lambda: (ResNet(50), False),
    "resnext50_32x4d": lambda: (ResNeXt(50), False),
    "mobilenet_v2": lambda: (MobileNetV2(), True),
    "mobilenet_v3_large": lambda: (MobileNetV3("large"), True),
    "mobilenet_v3_small": lambda: (MobileNetV3("small"), True),
}


@pytest.fixture(scope="module")
def peer():
    return pytest.importorskip("torch", reason="the peer PyTorch is not installed"), pytest.importorskip(
        "torchvision", reason="the peer torchvision is not installed"
    )


def drawn(torch, model):
    """Numbers whose activations stay of one size, and running statistics that say something."""
    torch.manual_seed(0)
    for part in model.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(part.weight, 0.8, 1.2)
            torch.nn.init.normal_(part.bias, std=0.1)
            part.running_mean.normal_(std=0.1)
            part.running_var.uniform_(0.8, 1.2)
    return model.eval()


@pytest.mark.parametrize("name", NETS)
def test_logits_and_maps_are_torchvisions(peer, tmp_path, name):
    torch, torchvision = peer
    theirs = drawn(torch, getattr(torchvision.models, name)(weights=None, num_classes=11))
    torch.save(theirs.state_dict(), tmp_path / "w.pth")
    backbone, top = NETS[name]()
    ours = ImageClassifier(backbone, 11, top=top).eval()
    report = load_pretrained(ours, f"{tmp_path}/w.pth@torchvision")
    assert len(report.loaded) == len(ours.state_dict()) and not report.new
    assert all(left.endswith("num_batches_tracked") for left in report.unused)
    images = np.random.default_rng(0).standard_normal((2, 75, 64, 3)).astype(np.float32)
    with no_grad(), torch.no_grad():
        wanted = theirs(torch.from_numpy(images).permute(0, 3, 1, 2)).numpy()
        found = ours(tensor(images)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * max(1.0, np.abs(wanted).max()))


def test_the_published_mobilenet_v2_has_the_numbers_of_torchvisions_features(peer, monkeypatch, shared_data):
    """On a photograph, map by map; the file has the names of an older torchvision."""
    from suites.engine.data.sources import open_source
    from suites.engine.weights import resolve
    from suites.vision.augmentation.pixels import IMAGENET_MEAN, IMAGENET_STD
    from suites.vision.pictures.images import decode_image
    from tests.zoo import fetched

    torch, torchvision = peer
    name = fetched("mobilenetv2_imagenet", monkeypatch)
    source = open_source(str(shared_data("detection/coco_val20/coco_val20.zip")) + "/images")
    photo = decode_image(source.read(sorted(source.names(""))[0]), "a photograph")[:224, :224]
    images = ((photo / 255 - IMAGENET_MEAN) / IMAGENET_STD).astype(np.float32)[None]
    values = list(torch.load(resolve(name)[0], map_location="cpu").values())
    theirs = torchvision.models.mobilenet_v2(weights=None).features
    state = theirs.state_dict()  # the same tensors in the same order
    theirs.load_state_dict({k: v.reshape(t.shape) for (k, t), v in zip(state.items(), values, strict=True)})
    ours, x = MobileNetV2(out_strides=(2, 4, 8, 16, 32), pretrained=name).eval(), None
    with no_grad(), torch.no_grad():
        maps, x = ours(tensor(images)), torch.from_numpy(images).permute(0, 3, 1, 2)
        for i, layer in enumerate(theirs.eval()):
            x = layer(x)
            if i in (1, 3, 6, 13, 17):
                found, wanted = maps.pop(0).numpy(), x.permute(0, 2, 3, 1).numpy()
                np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)
