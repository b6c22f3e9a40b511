"""timm's networks that have the names and shapes of ours: those that compute the same load, others are refused."""

import json

import numpy as np
import pytest
import safetensors.numpy

from framework import no_grad, tensor
from framework.errors import CheckpointError
from suites.classification import ImageClassifier
from suites.engine.weights import load_pretrained
from suites.vision.backbones import EfficientNetLite, ResNet, ResNeXt

OURS = {
    "18": (lambda: ImageClassifier(ResNet(18), 5), ("resnet18", "resnetblur18")),
    "50": (lambda: ImageClassifier(ResNet(50), 5), ("resnet50", "resnetaa50", "resnetblur50")),
    "50d": (lambda: ImageClassifier(ResNet(50, "d"), 5), ("resnet50d", "resnetaa50d")),
    "lite": (
        lambda: ImageClassifier(EfficientNetLite(0), 5, top=True),
        ("tf_efficientnet_lite0", "efficientnet_lite0"),
    ),
    "x": (lambda: ImageClassifier(ResNeXt(50), 5), ("resnext50_32x4d",)),
}
SAME = {"resnet18", "resnet50", "resnet50d", "tf_efficientnet_lite0", "resnext50_32x4d"}


@pytest.mark.peers
@pytest.mark.parametrize(("family", "name"), [(f, n) for f, (_, names) in OURS.items() for n in names])
def test_a_folder_of_timms_gives_its_logits_or_is_refused_by_name(tmp_path, family, name):
    timm = pytest.importorskip("timm", reason="the peer timm is not installed")
    import torch

    torch.manual_seed(0)
    theirs = timm.create_model(name, num_classes=5).eval()
    for part in theirs.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_var.uniform_(0.8, 1.2)
            part.running_mean.normal_(std=0.1)
    state = {n: t.numpy() for n, t in theirs.state_dict().items()}
    safetensors.numpy.save_file(state, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"architecture": name, "num_classes": 5, "global_pool": "avg"}))
    ours = OURS[family][0]().eval()
    if name not in SAME:
        with pytest.raises(CheckpointError, match=f"says that it is {name}, and this"):
            load_pretrained(ours, tmp_path)
        return
    load_pretrained(ours, tmp_path)
    images = np.random.default_rng(0).standard_normal((1, 64, 64, 3)).astype(np.float32)
    with no_grad(), torch.no_grad():
        wanted = theirs(torch.from_numpy(images.transpose(0, 3, 1, 2).copy())).numpy()
        np.testing.assert_allclose(ours(tensor(images)).numpy(), wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())
