"""`pretrained`: names are found out, everything is accounted for, and a run loads what its parts ask for, once."""

import re

import numpy as np
import pytest
import safetensors.numpy

from framework import nn
from framework.errors import CheckpointError, ConfigError
from framework.nn import init
from suites.classification import ImageClassifier
from suites.engine import cli
from suites.engine.weights import load_pretrained, load_wanted, loaded_names, rename, shown_otherwise
from suites.engine.weights.records import get_record, records_folder
from suites.vision.backbones import (
    DarkNet53,
    EfficientNetLite,
    HRNet,
    MobileNetV1,
    MobileNetV2,
    MobileNetV3,
    ResNet,
    ResNeXt,
    TinyDarkNet,
)

SMALL = {"scale": 0.25, "out_strides": (4, 8)}


def drawn(model, seed=0):
    init.initialize(model, seed)
    return model


def saved(path, model, scheme=None, prefix="", **more):
    """A file of a model's weights under the names of `scheme`, or its own."""
    arrays = {n: t.numpy() for n, t in model.state_dict().items()}
    if scheme is not None:
        arrays = rename(model, model.names_in(scheme).sources)
    safetensors.numpy.save_file({prefix + n: np.ascontiguousarray(a) for n, a in arrays.items()} | more, path)
    return str(path)


def same(a, b):
    theirs = b.state_dict()
    return all(np.array_equal(t.numpy(), theirs[n].numpy()) for n, t in a.state_dict().items())


NETS = {
    "MobileNetV2 torchvision": (lambda: MobileNetV2(0.25), "torchvision"),
    "MobileNetV2 flat": (lambda: MobileNetV2(0.25), "torchvision_flat"),
    "MobileNetV2 timm": (lambda: MobileNetV2(0.25), "timm"),
    "EfficientNetLite": (lambda: EfficientNetLite(0, out_strides=(8,)), "efficientnet-lite-pytorch"),
    "EfficientNetLite timm": (lambda: EfficientNetLite(0, out_strides=(8,)), "timm", "@tf_efficientnet_lite0"),
    "ResNet": (lambda: ResNet(18, width=8), "torchvision", "@torchvision"),
    "ResNet d": (lambda: ResNet(50, "d", width=8), "torchvision", "@resnet50d.ra2_in1k"),
    "ResNet Detectron2": (lambda: ResNet(50, "a", width=8, deformable=(32,)), "detectron2"),
    "ResNet PaddleClas": (lambda: ResNet(50, "d", width=8), "paddleclas"),
    "ResNet PaddleDetection": (lambda: ResNet(50, "d", width=8, out_strides=(4, 8)), "paddledetection"),
    "MobileNetV1": (lambda: MobileNetV1(0.25, out_strides=(4, 8)), "paddledetection"),
    "DarkNet53": (lambda: DarkNet53(4, out_strides=(8, 16)), "paddledetection"),
    "ResNeXt": (lambda: ResNeXt(50, width=16, groups=2, squeeze=16), "torchvision", "@seresnext50_2x4d"),
    "MobileNetV3": (lambda: MobileNetV3("small", 0.25, out_strides=(4, 32)), "torchvision"),
    "HRNet": (lambda: HRNet(4), "timm"),
    "TinyDarkNet": (lambda: TinyDarkNet((8,)), "darknet"),
}


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("prefix", ["", "module.", "backbone.body."])
def test_the_scheme_and_the_prefix_of_a_file_are_found_out(tmp_path, name, prefix):
    make, scheme, *told = NETS[name]
    net, other = drawn(make()), drawn(make(), 1)
    counter = {prefix + "x.num_batches_tracked": np.zeros(1, np.int64)}
    report = load_pretrained(other, saved(tmp_path / "w.safetensors", net, scheme, prefix, **counter) + "".join(told))
    assert same(net, other) and not report.new and len(report.loaded) == len(net.state_dict())
    assert str(report).endswith("1 counters of PyTorch's batch norms not used")


def test_a_part_takes_its_weights_out_of_a_file_of_ours_of_the_whole(tmp_path):
    whole = nn.Layer()
    whole.backbone, whole.fc = drawn(MobileNetV2(**SMALL), 3), nn.Linear(4, 2)
    part = drawn(MobileNetV2(**SMALL), 1)
    report = load_pretrained(part, saved(tmp_path / "w.safetensors", whole))
    assert same(part, whole.backbone) and report.unused == ["fc.bias", "fc.weight"]


def test_a_network_that_ends_early_leaves_the_rest_and_says_so(tmp_path):
    net = drawn(MobileNetV2(0.25))
    for scheme in net.schemes:
        short = drawn(MobileNetV2(**SMALL), 1)
        report = load_pretrained(short, saved(tmp_path / "w.safetensors", net, scheme))
        assert len(report.loaded) == len(short.state_dict())
        assert len(report.unused) == len(net.state_dict()) - len(short.state_dict())


@pytest.mark.parametrize(
    ("net", "into", "match"),
    [
        (lambda: MobileNetV2(0.25), lambda: MobileNetV2(0.5), "of another shape: stem.conv.weight"),
        (lambda: ResNet(34, width=8), lambda: ResNet(18, width=8), r"unexpected: layer1\.2"),
        (lambda: ResNet(18, width=8), lambda: ResNet(34, width=8), r"missing: stages\.0\.2"),
        (
            lambda: ResNet(18, width=8),
            lambda: MobileNetV2(0.25),
            r"not the weights of this MobileNetV2: they begin with",
        ),
    ],
)
def test_weights_of_another_network_are_one_error_and_change_nothing(tmp_path, net, into, match):
    model = drawn(into(), 1)
    before = {n: t.numpy().copy() for n, t in model.state_dict().items()}
    with pytest.raises(CheckpointError, match=match):
        load_pretrained(model, saved(tmp_path / "w.safetensors", drawn(net()), "torchvision") + "@torchvision")
    assert all(np.array_equal(before[n], t.numpy()) for n, t in model.state_dict().items())


def test_a_scheme_that_the_model_does_not_know_is_an_error(tmp_path):
    path = saved(tmp_path / "w.safetensors", MobileNetV2(0.25))
    with pytest.raises(CheckpointError, match="no names of darknet; it has those of paddock, torchvision, torch"):
        load_pretrained(MobileNetV2(0.25), path, scheme="darknet")


def test_in_python_a_backbone_has_its_weights_at_once(tmp_path):
    net = drawn(MobileNetV2(**SMALL), 5)
    assert same(MobileNetV2(**SMALL, pretrained=saved(tmp_path / "w.safetensors", net, "timm")), net)
    with pytest.raises(CheckpointError, match="'nothing' is no file and no weights of that name are known"):
        MobileNetV2(**SMALL, pretrained="nothing")


def test_a_model_that_is_drawn_after_it_is_built_is_loaded_after_that(tmp_path):
    net = drawn(MobileNetV2(**SMALL), 5)
    with init.undrawn():
        model = nn.Sequential(MobileNetV2(**SMALL, pretrained=saved(tmp_path / "w.safetensors", net)), nn.Linear(4, 2))
    init.initialize(model, 7)
    head = model[1].weight.numpy().copy()
    assert not same(model[0], net) and not loaded_names(model)
    (line,) = load_wanted(model)
    assert line.startswith("0: pretrained ") and same(model[0], net) and np.array_equal(model[1].weight.numpy(), head)
    init.initialize(model, 8, keep=loaded_names(model))
    assert same(model[0], net) and not np.array_equal(model[1].weight.numpy(), head)


# -- runs
CONFIG = """
suite: classification
model:
  type: ImageClassifier
  num_classes: 10
  backbone: {{type: MobileNetV2, scale: 0.25, out_strides: [4, 8], pretrained: {path}, freeze_at: 3}}
data:
  num_classes: 10
  train: {{dataset: {{type: Digits}}, transforms: [{{type: Resize, size: 16}}, {{type: Normalize}}], batch_size: 16}}
  eval:
    dataset: {{type: Digits, split: val}}
    transforms: [{{type: Resize, size: 16}}, {{type: Normalize}}]
    batch_size: 64
optimizer: {{type: Momentum}}
schedule: {{type: Constant, base_lr: 0.01}}
runtime: {{steps: 2, workers: 0, evaluation: {{pictures: 0}}}}
"""


@pytest.fixture
def config(tmp_path):
    net = drawn(MobileNetV2(**SMALL), 5)
    path = saved(tmp_path / "w.safetensors", net, "torchvision")
    (tmp_path / "c.yml").write_text(CONFIG.format(path=path))
    return tmp_path, net


def test_a_run_starts_from_the_weights_and_needs_them_no_more_afterwards(config, capsys):
    folder, net = config
    runs = ["--runs", str(folder / "runs")]
    assert cli.main(["train", str(folder / "c.yml"), *runs]) == 0
    assert "backbone: pretrained " in (folder / "runs" / "c" / "log.txt").read_text()
    trained = safetensors.numpy.load_file(folder / "runs" / "c" / "weights" / "last.safetensors")
    assert all(np.array_equal(trained["backbone." + n], t.numpy()) for n, t in net.state_dict().items())  # all frozen
    (folder / "w.safetensors").unlink()
    run = str(folder / "runs" / "c")
    assert cli.main(["eval", run]) == 0 and cli.main(["export", run, "--output", str(folder / "out")]) == 0
    assert cli.main(["train", run, "--resume"]) == 0
    capsys.readouterr()
    config = str(folder / "c.yml")
    for words in (["train", config, *runs, "--name", "again"], ["config", "check", config]):
        assert cli.main(words) == 2
        assert "w.safetensors' is no file and no weights of that name are known" in capsys.readouterr().err


def test_a_config_can_be_evaluated_only_if_its_whole_model_has_weights(config):
    from suites.engine.train.training import evaluate_weights

    folder, _ = config
    with pytest.raises(ConfigError, match=r"a config has no weights; .* or let the model be `pretrained`"):
        evaluate_weights(folder / "c.yml")


# -- the command
@pytest.fixture
def zoo(tmp_path, monkeypatch):
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path / "zoo"))
    return tmp_path


def test_the_zoo_lists_searches_and_shows_its_records(zoo, capsys):
    assert cli.main(["zoo", "list"]) == 0
    said = capsys.readouterr().out
    assert "  mobilenetv2_imagenet " in said and said.endswith(f"the files lie in {zoo / 'zoo'}\n")
    assert cli.main(["zoo", "search", "MobileNet", "1,280-CHANNEL"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["mobilenetv2_imagenet"]
    assert cli.main(["zoo", "search", "nothingofthename"]) == 1
    capsys.readouterr()
    assert cli.main(["zoo", "show", "yolov3_tiny_coco"]) == 0
    assert capsys.readouterr().out.endswith(
        "# files: not there; fetch them with `paddock zoo fetch yolov3_tiny_coco`\n"
    )
    assert cli.main(["zoo", "fetch", "yolov3_tiny_coc"]) == 2
    assert "did you mean 'yolov3_tiny_coco'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    ["hf:a/b@v1", "timm:resnet50.a1_in1k", "paddle:ResNet50_vd", "https://example.com/w.pth", "torchvision:vgg16"],
)
def test_the_zoo_shows_every_kind_of_name(zoo, capsys, name):
    assert cli.main(["zoo", "show", name]) == 0
    said = capsys.readouterr().out
    assert "licence: " in said and said.endswith(f"not there; fetch them with `paddock zoo fetch {name}`\n")


def test_the_zoo_shows_a_record_of_ones_own_and_files_of_an_address(zoo, capsys):
    own = zoo / "own.yml"
    own.write_text((records_folder() / "vgg16_imagenet.yml").read_text() + "# mine\n")
    assert cli.main(["zoo", "show", str(own)]) == 0
    assert f"# mine\n# files: not there; fetch them with `paddock zoo fetch {own}`\n" in capsys.readouterr().out
    address = "https://example.com/w.pth#sha256=" + "ab" * 32
    path = get_record(address).weights()
    path.parent.mkdir(parents=True)
    path.write_bytes(b"12345")
    assert cli.main(["zoo", "show", address]) == 0
    assert f"{path}  5 bytes  {'ab' * 32}\n" in capsys.readouterr().out


def test_a_run_of_weights_that_are_not_there_names_the_command_that_fetches_them(zoo, capsys):
    assert cli.main(["zoo", "run", "yolov3_tiny_coco", "--output", str(zoo / "run")]) == 2
    assert "fetch it with `paddock zoo fetch yolov3_tiny_coco`" in capsys.readouterr().err


def test_the_zoo_converts_a_part_to_a_file_of_ours(config, capsys):
    folder, net = config
    words = ["zoo", "convert", str(folder / "w.safetensors"), "--model", str(folder / "c.yml")]
    assert cli.main([*words, "--part", "backbone", "--output", str(folder / "ours.safetensors")]) == 0
    assert same(MobileNetV2(**SMALL, pretrained=str(folder / "ours.safetensors")), net)
    assert cli.main([*words, "--part", "neck", "--output", str(folder / "x")]) == 2
    assert "ImageClassifier has no part 'neck'; it has backbone" in capsys.readouterr().err
    assert cli.main([*words, "--output", str(folder / "x")]) == 2 and not (folder / "x").exists()


def test_a_normalisation_that_is_not_the_weights_own_is_told():
    with init.undrawn():  # the files need not be there
        model = nn.Sequential(MobileNetV2(pretrained="mobilenetv2_imagenet"))
        other = MobileNetV2(pretrained="yolov3_tiny_coco")
    assert shown_otherwise(model, [{"type": "Resize"}, {"type": "Normalize"}]) == []
    assert shown_otherwise(model, [{"type": "Resize"}]) == []
    (line,) = shown_otherwise(model, [{"type": "Normalize", "mean": [0, 0, 0], "std": [1, 1, 1]}])
    assert line.startswith("0: mobilenetv2_imagenet was trained with Normalize mean [0.485, 0.456, 0.406] and std [0.2")
    assert line.endswith("this config has mean [0, 0, 0] and std [1, 1, 1]")
    (line,) = shown_otherwise(other, [{"type": "Normalize"}])
    assert line.startswith("MobileNetV2: yolov3_tiny_coco was trained with Normalize mean [0.0, 0.0, 0.0]")


@pytest.mark.parametrize("scheme", [None, "torchvision"])
def test_runtime_weights_take_files_of_ours_and_of_others(config, scheme):
    """The whole classifier, of another number of classes; the config's own `pretrained` comes first."""
    folder, _ = config
    source = drawn(ImageClassifier(MobileNetV2(**SMALL), 7), 9)
    path = saved(folder / "whole.safetensors", source, scheme)
    words = ["train", str(folder / "c.yml"), "--runs", str(folder / "runs"), "-o", f"runtime.weights={path}"]
    assert cli.main(words) == 0
    trained = safetensors.numpy.load_file(folder / "runs" / "c" / "weights" / "last.safetensors")
    assert all(
        np.array_equal(trained[n], t.numpy()) for n, t in source.state_dict().items() if n.startswith("backbone.")
    )
    assert cli.main([*words[:-1], "runtime.weights=nothing", "--overwrite"]) == 2


def test_runtime_weights_say_what_they_are_of_as_pretrained_does(config, capsys):
    folder, _ = config
    text = (folder / "c.yml").read_text()
    text = text.replace("type: MobileNetV2, scale: 0.25", "type: ResNet, depth: 18, width: 8").replace(
        "freeze_at: 3", "freeze_at: 0"
    )
    (folder / "r.yml").write_text(re.sub(r"pretrained: [^,]+, ", "", text))
    source = drawn(ImageClassifier(ResNet(18, width=8, out_strides=(4, 8)), 10), 9)
    path = saved(folder / "whole.safetensors", source, "torchvision")
    words = ["train", str(folder / "r.yml"), "--runs", str(folder / "runs"), "-o"]
    assert cli.main([*words, f"runtime.weights={path}"]) == 2
    assert "its names do not say which network it is of" in capsys.readouterr().err
    assert cli.main([*words, f"runtime.weights={path}@torchvision", "--overwrite"]) == 0
    assert f"weights from {path}" in (folder / "runs" / "r" / "log.txt").read_text()


def test_tensors_are_added_up_and_laid_one_over_the_other_and_come_back():
    """As the biases and the directions of PyTorch's recurrent layers."""
    from suites.engine.weights import Source

    a, b, c, d = (np.arange(6, dtype=np.float32).reshape(2, 3) + k for k in range(4))
    summed, stacked = Source(("a", "b", "c", "d"), summed=2), Source(("a", "b"), stacked=True)
    np.testing.assert_array_equal(summed.joined([a, b, c, d]), np.concatenate([a + b, c + d]))
    np.testing.assert_array_equal(stacked.joined([a, b]), np.stack([a, b]))
    for source in (summed, stacked):
        ours = source.joined([a, b, c, d][: len(source.names)])
        parts = source.divided(ours)
        assert len(parts) == len(source.names)
        np.testing.assert_array_equal(source.joined(parts), ours)
