"""The published EfficientNet-Lite0 gives the numbers of an independent reading, and knows a palace when it sees one."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from framework import no_grad, tensor
from suites.classification import ImageClassifier
from suites.engine.weights import read_weights, resolve
from suites.vision.backbones import EfficientNetLite
from suites.vision.pictures.images import read_image
from tests.zoo import fetched

_HALVES = (1, 3, 5, 11)  # blocks of stride 2
_PALACE, _SIZE = 698, 224


def logits(arrays, images):
    """EfficientNet-Lite0 from its file, with PyTorch's functions and TensorFlow's padding; the last map too."""
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    f, weights = torch.nn.functional, {n: torch.from_numpy(np.ascontiguousarray(a)) for n, a in arrays.items()}

    def conv(x, name, norm, stride=1, groups=1, act=True):
        kernel = weights[f"{name}.weight"]
        pads = [max((-(-side // stride) - 1) * stride + kernel.shape[2] - side, 0) for side in x.shape[2:]]
        (top, bottom), (left, right) = ((p // 2, p - p // 2) for p in pads)
        x = f.conv2d(f.pad(x, (left, right, top, bottom)), kernel, None, stride, 0, 1, groups)
        mean, var, scale, bias = (weights[f"{norm}.{n}"] for n in ("running_mean", "running_var", "weight", "bias"))
        x = f.batch_norm(x, mean, var, scale, bias, False, 0.0, 1e-3)
        return f.relu6(x) if act else x

    x = conv(torch.from_numpy(images).permute(0, 3, 1, 2), "_conv_stem", "_bn0", 2)
    for i in range(16):
        y, block = x, f"_blocks.{i}"
        if f"{block}._expand_conv.weight" in weights:
            y = conv(y, f"{block}._expand_conv", f"{block}._bn0")
        y = conv(y, f"{block}._depthwise_conv", f"{block}._bn1", 2 if i in _HALVES else 1, y.shape[1])
        y = conv(y, f"{block}._project_conv", f"{block}._bn2", act=False)
        x = x + y if x.shape == y.shape else y
    pooled = conv(x, "_conv_head", "_bn1").mean((2, 3))
    return f.linear(pooled, weights["_fc.weight"], weights["_fc.bias"]).numpy(), x.permute(0, 2, 3, 1).numpy()


@pytest.fixture
def published(monkeypatch):
    name = fetched("efficientnet_lite0_imagenet", monkeypatch)
    return ImageClassifier(EfficientNetLite(0), 1000, top=True, pretrained=name).eval(), resolve(name)[0]


def photo(size=_SIZE):
    """The middle of scikit-learn's photograph of the Summer Palace, as the record says."""
    import sklearn.datasets

    image = read_image(Path(sklearn.datasets.__file__).parent / "images" / "china.jpg")
    side = round(0.875 * min(image.shape[:2]))
    top, left = ((extent - side) // 2 for extent in image.shape[:2])
    image = cv2.resize(image[top : top + side, left : left + side], (size, size), interpolation=cv2.INTER_AREA)
    return ((image.astype(np.float32) - 127) / 128)[None]


@pytest.mark.peers
@pytest.mark.parametrize("size", [_SIZE, 203])  # every map is of even size, and none
def test_maps_and_logits_are_those_of_an_independent_reading(published, size):
    model, path = published
    wanted, last = logits(read_weights(path), photo(size))
    with no_grad():
        np.testing.assert_allclose(model(tensor(photo(size))).numpy(), wanted, rtol=0, atol=1e-4)
        np.testing.assert_allclose(model.backbone(tensor(photo(size)))[-1].numpy(), last, rtol=0, atol=1e-4)


def test_it_sees_a_palace(published):
    with no_grad():
        assert published[0](tensor(photo())).numpy().argmax() == _PALACE
