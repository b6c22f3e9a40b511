"""Where names and shapes do not tell which network a file is of, the file says it, or the user, or it is an error."""

import hashlib
import json

import numpy as np
import pytest
import safetensors.numpy

from framework.errors import CheckpointError
from framework.nn import init
from suites.classification import ImageClassifier
from suites.engine.weights import load_pretrained, rename
from suites.vision.backbones import EfficientNetLite, MobileNetV2, ResNet, ResNeXt


def arrays(model, scheme):
    init.initialize(model, 0)
    return {n: np.ascontiguousarray(a) for n, a in rename(model, model.names_in(scheme).sources).items()}


def saved(path, model, scheme="torchvision", **metadata):
    path.parent.mkdir(exist_ok=True)
    safetensors.numpy.save_file(arrays(model, scheme), path, metadata or None)
    return path


def small(variant="b"):
    return ResNet(50, variant, width=8, out_strides=(4,))


SAME = [
    (small, "torchvision"), (small, "resnet50"), (small, "timm/resnet50.a1_in1k"), (small, "gluon_resnet50_v1b"),
    (lambda: small("a"), "caffe"), (lambda: small("c"), "resnet50c"), (lambda: small("d"), "resnet50d"),
    (lambda: small("d"), "gluon_resnet50_v1d"), (lambda: ResNeXt(50, out_strides=(4,)), "resnext50_32x4d"),
    (lambda: ResNeXt(101, 32, 8, 16, "d", out_strides=(4,)), "seresnext101d_32x8d"),
]  # fmt: skip
OTHERS = [
    (small, "resnetaa50"), (small, "resnetblur50.bt_in1k"), (small, "caffe"), (small, "resnet50d"), (small, "timm"),
    (lambda: small("a"), "torchvision"), (lambda: small("d"), "resnetaa50d"), (lambda: small("d"), "torchvision"),
    (lambda: ResNeXt(101, 32, 8, 16, "d", out_strides=(4,)), "seresnextaa101d_32x8d"),
]  # fmt: skip


@pytest.mark.parametrize(("net", "architecture"), SAME)
def test_what_a_file_says_of_the_same_network_is_taken(tmp_path, net, architecture):
    path = saved(tmp_path / "w.safetensors", net(), architecture=architecture)
    assert not load_pretrained(net(), path).new


@pytest.mark.parametrize(("net", "architecture"), OTHERS)
def test_what_a_file_says_of_another_network_is_an_error_whatever_the_user_says(tmp_path, net, architecture):
    path = saved(tmp_path / "w.safetensors", net(), architecture=architecture)
    for source in (path, f"{path}@{SAME[0][1]}"):
        with pytest.raises(CheckpointError, match=f"says that it is {architecture}, and this ResNe.*t computes "):
            load_pretrained(net(), source)


def test_a_file_that_says_nothing_needs_the_users_word(tmp_path):
    path, model = saved(tmp_path / "w.safetensors", small()), small()
    before = {n: t.numpy().copy() for n, t in model.state_dict().items()}
    with pytest.raises(CheckpointError, match=r"resnetaa50, resnetblur50 have the same .*w\.safetensors@torchvision"):
        load_pretrained(model, path)
    with pytest.raises(CheckpointError, match="is said to be resnetblur50, and this ResNet computes torchvision or"):
        load_pretrained(model, f"{path}@resnetblur50")
    assert all(np.array_equal(before[n], t.numpy()) for n, t in model.state_dict().items())
    assert not load_pretrained(model, f"{path}@torchvision").new


def test_timms_padding_is_told_by_the_name_of_its_network(tmp_path):
    net = EfficientNetLite(0, out_strides=(4,))
    path = saved(tmp_path / "w.safetensors", net, "timm")
    with pytest.raises(CheckpointError, match=r"efficientnet_lite0 have the same names .*@tf_efficientnet_lite0"):
        load_pretrained(net, path)
    with pytest.raises(CheckpointError, match="is said to be efficientnet_lite0, and this EfficientNetLite computes"):
        load_pretrained(net, f"{path}@efficientnet_lite0")
    load_pretrained(net, f"{path}@tf_efficientnet_lite0")


def test_names_of_one_network_only_need_no_word_but_a_wrong_one_is_an_error(tmp_path):
    net = MobileNetV2(0.5, out_strides=(4,))
    load_pretrained(net, saved(tmp_path / "w.safetensors", net, "timm"))
    with pytest.raises(CheckpointError, match="says that it is mobilenetv2_100, and this MobileNetV2 computes"):
        load_pretrained(net, saved(tmp_path / "w.safetensors", net, "timm", architecture="mobilenetv2_100"))


@pytest.mark.parametrize("name", ["model.safetensors", pytest.param("pytorch_model.bin", marks=pytest.mark.peers)])
def test_timms_config_beside_a_file_says_it(tmp_path, name):
    file = saved(tmp_path / "hub" / "model.safetensors", small())
    (file.parent / "config.json").write_text(json.dumps({"architecture": "resnetaa50", "num_classes": 1000}))
    if name != file.name:
        torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
        torch.save({n: torch.from_numpy(a) for n, a in arrays(small(), "torchvision").items()}, file.parent / name)
        file.unlink()
    with pytest.raises(CheckpointError, match="says that it is resnetaa50"):
        load_pretrained(small(), file.parent)
    (file.parent / "config.json").write_text(json.dumps({"architecture": "resnet50"}))
    load_pretrained(small(), file.parent)


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"model_args": {"num_classes": 7}}, None),
        ({"model_args": {"act_layer": "gelu"}}, "model_args has act_layer, whose effect is not known"),
        ({"model_args": {"aa_layer": "avg"}}, "model_args has aa_layer, whose effect is not known"),
        ({"model_args": [1]}, "model_args has 1"),
        ({"global_pool": "avg"}, None),
        ({"global_pool": "max"}, "global_pool is 'max'"),
    ],
)
def test_arguments_in_timms_config_that_change_the_network_are_errors(tmp_path, more, match):
    file = saved(tmp_path / "model.safetensors", small())
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "resnet50", **more}))
    if match is None:
        load_pretrained(small(), file)
    else:
        with pytest.raises(CheckpointError, match=match):
            load_pretrained(small(), file)


def test_a_name_counts_where_its_digits_begin_the_files_digest(tmp_path):
    file = saved(tmp_path / "w.safetensors", small())
    digits = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    load_pretrained(small(), file.rename(tmp_path / f"resnet50_a1_0-{digits}.safetensors"))
    other = (tmp_path / f"resnet50_a1_0-{digits}.safetensors").rename(tmp_path / f"resnetaa50_a1h-{digits}.safetensors")
    with pytest.raises(CheckpointError, match="says that it is resnetaa50"):
        load_pretrained(small(), other)
    with pytest.raises(CheckpointError, match="its names do not say"):
        load_pretrained(small(), other.rename(tmp_path / "resnet50-00000000.safetensors"))


def test_a_classifier_asks_as_its_backbone_does(tmp_path):
    net = ImageClassifier(small(), 7)
    path = saved(tmp_path / "w.safetensors", net)
    with pytest.raises(CheckpointError, match="its names do not say"):
        load_pretrained(net, path)
    load_pretrained(net, f"{path}@torchvision")


def test_a_path_with_an_at_sign_is_a_path(tmp_path):
    (tmp_path / "me@home").mkdir()
    path = saved(tmp_path / "me@home" / "w@1.safetensors", small(), architecture="resnet50")
    load_pretrained(small(), path)
    with pytest.raises(CheckpointError, match="is no file and no weights of that name"):
        load_pretrained(small(), tmp_path / "me@home" / "nothing.pth")
