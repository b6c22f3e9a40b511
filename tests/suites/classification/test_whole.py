"""Classifiers of images of a model hub by their name: from config.json and preprocessor_config.json to classes."""

import json

import cv2
import numpy as np
import pytest

from framework import nn
from framework.errors import PaddockError
from framework.io import save_tensors
from framework.tensors import from_numpy
from suites import engine
from suites.classification import ImageClassifier
from suites.engine.weights import rename
from suites.engine.weights.fetching import fetch
from suites.engine.weights.records import get_record
from suites.vision.backbones import ConvNeXt, ViT
from suites.vision.published import backbone_of
from tests.suites.engine.weights.hub.played_hub import played_hub, use

VIT = {
    "model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 192, "num_attention_heads": 3,
    "num_hidden_layers": 1, "intermediate_size": 768, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "image_size": 32,
    "patch_size": 16, "num_channels": 3, "qkv_bias": True, "encoder_stride": 16, "transformers_version": "5.24.0",
    "id2label": {"0": "cat", "1": "crane", "2": "crane"},
}  # fmt: skip
PREPARED = {
    "do_resize": True, "size": {"height": 32, "width": 32}, "do_rescale": True, "rescale_factor": 1 / 255,
    "do_normalize": True, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
}  # fmt: skip


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with played_hub() as hub:
        use(hub, monkeypatch, tmp_path)
        yield hub


def files(folder, fields, prepared, backbone):
    """What the hub has of a classifier with drawn weights; and that classifier."""
    folder.mkdir(exist_ok=True)
    model = ImageClassifier(backbone, num_classes=len(fields["id2label"]), top=True)
    nn.init.initialize(model, seed=1)
    arrays = rename(model, model.names_in("transformers").sources)
    save_tensors(folder / "model.safetensors", {n: from_numpy(np.ascontiguousarray(a)) for n, a in arrays.items()})
    (folder / "config.json").write_text(json.dumps(fields))
    if prepared is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(prepared))
    return model.eval()


def test_a_vit_of_the_hub_answers_with_the_names_of_its_classes(hub, tmp_path):
    backbone = ViT("tiny", 16, 32, blocks=1, norm_eps=1e-12)
    model = files(tmp_path / "vit", VIT, PREPARED, backbone)
    hub.add_folder("owner/vit", tmp_path / "vit")
    fetch(get_record("hf:owner/vit"))
    cv2.imwrite(str(tmp_path / "photo.png"), np.random.default_rng(0).integers(0, 255, (32, 32, 3), np.uint8))
    (found,) = engine.load("hf:owner/vit")(str(tmp_path / "photo.png"))
    pixels = cv2.imread(str(tmp_path / "photo.png"))[None, :, :, ::-1].astype(np.float32) / 255
    logits = model(from_numpy(np.ascontiguousarray((pixels - 0.5) / 0.5))).numpy()[0]
    best = ["cat", "crane", "crane (2)"][int(logits.argmax())]
    shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    assert found.to_json()[0]["class"] == best
    assert found.to_json()[0]["score"] == pytest.approx(shares.max(), abs=1e-5)


def test_a_convnext_sees_more_than_its_size_and_takes_the_middle(hub, tmp_path):
    fields = {
        "model_type": "convnext", "architectures": ["ConvNextForImageClassification"], "depths": [3, 3, 9, 3],
        "hidden_sizes": [96, 192, 384, 768], "hidden_act": "gelu", "num_channels": 3, "patch_size": 4,
        "id2label": {"0": "a", "1": "b"},
    }  # fmt: skip
    prepared = {"size": {"shortest_edge": 56}, "crop_pct": 0.875, "image_mean": [0.4] * 3, "image_std": [0.2] * 3}
    files(tmp_path / "net", fields, prepared, ConvNeXt("tiny", (32,)))
    hub.add_folder("owner/net", tmp_path / "net")
    fetch(get_record("hf:owner/net"))
    steps = engine.load("hf:owner/net").processor.metadata()["transforms"]
    assert [step["type"] for step in steps] == ["ResizeShort", "CenterCrop", "Normalize"]
    assert steps[0]["size"] == 64 and steps[1]["size"] == 56 and steps[2]["mean"] == [0.4] * 3


@pytest.mark.parametrize(
    ("change", "prepared", "said"),
    [
        ({"hidden_act": "relu"}, PREPARED, "hidden_act is 'relu'; only 'gelu' is computed"),
        ({"hidden_size": 200}, PREPARED, "hidden_size is 200 with 3 heads; known are"),
        ({"new_idea": 3}, PREPARED, "new_idea is '3', and what it changes is not known here"),
        ({"model_type": "beit"}, PREPARED, "model_type is 'beit'; known are vit, dinov2"),
        ({}, None, "has no preprocessor_config.json, so what the network is shown is not known"),
        ({}, {**PREPARED, "size": "large"}, "is not as transformers writes it"),
        ({}, {**PREPARED, "do_rescale": False}, "it asks for less"),
        ({"num_hidden_layers": 2**31}, PREPARED, "num_hidden_layers is '2147483648'"),
        ({"num_hidden_layers": 60_000}, PREPARED, "describes 60000 layers; at most 4096 are made"),
        ({"image_size": 65_000, "patch_size": 1}, PREPARED, "has too many bytes"),
        ({"image_size": 16_000}, PREPARED, "the weights beside it have .* one of them is of another network"),
        ({"model_type": []}, PREPARED, "model_type is"),
        ({"model_type": "swin", "depths": 3}, PREPARED, "depths and embed_dim are"),
        ({"model_type": "dinov2_with_registers", "patch_size": 14, "num_register_tokens": 2**30}, PREPARED, "is '1073"),
    ],
)
def test_what_is_not_known_is_refused_by_its_file(hub, tmp_path, change, prepared, said):
    files(tmp_path / "vit", {**VIT, **change}, prepared, ViT("tiny", 16, 32, blocks=1))
    hub.add_folder("owner/vit", tmp_path / "vit")
    fetch(get_record("hf:owner/vit"))
    with pytest.raises(PaddockError, match=said):
        engine.load("hf:owner/vit")


def test_published_sizes_are_found_by_their_numbers():
    base = {"hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12}
    found = backbone_of({"model_type": "dinov2_with_registers", **base, "mlp_ratio": 4, "patch_size": 14}, "c")
    assert found == {
        "type": "DINOv2", "size": "base", "image_size": 518, "blocks": 12, "registers": 4, "out_strides": [14],
    }  # fmt: skip
    swin = {"model_type": "swin", "embed_dim": 128, "depths": [2, 2, 18, 2], "num_heads": [4, 8, 16, 32]}
    assert backbone_of({**swin, "window_size": 7, "mlp_ratio": 4.0}, "c")["size"] == "base"
