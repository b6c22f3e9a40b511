"""A record's answers are compared whenever its weights are loaded, so a network that is not theirs is an error."""

import hashlib
from functools import partial

import numpy as np
import pytest
import safetensors.numpy
import yaml

from framework import nn, tensor
from framework.errors import CheckpointError
from framework.nn import init
from suites.classification import ImageClassifier
from suites.detection.models.yolov3 import TinyYOLOv3Neck, YOLOv3, YOLOv3Head
from suites.engine import cli
from suites.engine.weights import load_pretrained, rename, resolve
from suites.engine.weights.answers import drawn, given, tolerance
from suites.engine.weights.records import get_record, record_names
from suites.nlp.models.bert import Bert
from suites.nlp.models.bert_names import load_bert, names_of
from suites.vision.backbones import EfficientNetLite, MobileNetV2, ResNet, TinyDarkNet
from tests.zoo import fetched


def test_drawn_numbers_are_the_same_everywhere():
    assert drawn(6, 256).tolist() == [(i * 2654435761 % 2**32 >> 8) % 256 for i in range(1, 7)]


def lite(**more):
    return EfficientNetLite(0, out_strides=(4, 8), **more)


def classifier(classes=5, **more):
    return ImageClassifier(lite(**more), classes, top=False)


def tiny():
    head = partial(YOLOv3Head, num_classes=2, anchors=[(8, 8)] * 6)
    return YOLOv3(TinyDarkNet((16, 32)), head, partial(TinyYOLOv3Neck, width=8))


def bert():
    return Bert(vocab_size=50, hidden_size=16, layers=2, heads=2, ffn_size=32, max_positions=16)


NETS = {
    "a backbone": (lite, "timm", {"stride_4", "stride_8"}),
    "a classifier": (classifier, "timm", {"logits", "stride_4", "stride_8"}),
    "a text encoder": (bert, "hf", {"tokens", "pooled"}),
}


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """Makes a record of a drawn network, with the answers that it gives, and returns its name and the network."""
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path / "zoo"))

    def make(name, model, scheme, **changes):
        init.initialize(model, 3)
        names = names_of(model, scheme) if scheme == "hf" else model.names_in(scheme).sources
        file = tmp_path / "zoo" / name / "w.safetensors"
        file.parent.mkdir(parents=True)
        safetensors.numpy.save_file({n: np.ascontiguousarray(a) for n, a in rename(model, names).items()}, file)
        size, digest = file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest()
        values = {
            "what": "a test", "model": "the one that it was drawn as", "scheme": scheme, "licence": "none",
            "archive": {"url": "https://nowhere", "sha256": digest, "bytes": size},
            "files": [{"name": file.name, "sha256": digest, "bytes": size}],
            "answers": {key: values.tolist() for key, values in given(model).items()},
        }  # fmt: skip
        path = tmp_path / f"{name}.yml"
        path.write_text(yaml.safe_dump(values | changes))
        return str(path)

    return make


def load(model, record):
    """As a config does, or as a text task does, which has the file's path only."""
    if isinstance(model, Bert):
        return load_bert(model, resolve(record)[0])
    return load_pretrained(model, record)


def other_eps(model):
    for _, part in model.named_layers():
        if isinstance(part, (nn.BatchNorm, nn.LayerNorm)):
            part.eps = 0.01
    return model


@pytest.mark.parametrize("kind", NETS)
def test_the_right_network_is_loaded_and_a_wrong_one_is_an_error_that_changes_nothing(zoo, kind, monkeypatch):
    make, scheme, names = NETS[kind]
    record = zoo("mine", make(), scheme)
    monkeypatch.setattr("suites.engine.weights.answers.find_record", lambda name: get_record(record))
    model = make().train()
    assert set(given(model)) == names
    load(model, record)
    assert model.training
    wrong = other_eps(make())
    before = {n: t.numpy().copy() for n, t in wrong.state_dict().items()}
    with pytest.raises(CheckpointError, match=r"is not the network of these weights: .* its '\w+' is \["):
        load(wrong, record)
    assert all(np.array_equal(before[n], t.numpy()) for n, t in wrong.state_dict().items())


def test_parts_that_do_not_hold_the_records_weights_are_not_compared(zoo):
    record = zoo("mine", classifier(), "timm")
    load_pretrained(classifier(7), record)  # its logits are of another number of classes
    with pytest.raises(CheckpointError, match="its 'stride_4' is"):
        load_pretrained(other_eps(classifier(7)), record)


def test_a_network_that_dilates_on_purpose_is_not_compared(zoo, caplog):
    record = zoo("mine", ResNet(18, width=8), "torchvision")
    with caplog.at_level("INFO"):
        load_pretrained(ResNet(18, width=8, out_strides=(4, 8, 16), output_stride=16), record)
    assert "its answers are not compared" in caplog.text


def test_a_record_without_answers_names_its_origin_where_names_do_not_tell(zoo):
    record = zoo("mine", ResNet(18, width=8), "torchvision", answers={})
    with pytest.raises(CheckpointError, match="its names do not say"):
        load_pretrained(ResNet(18, width=8), record)
    record = zoo("other", ResNet(18, width=8), "torchvision", answers={}, origin="torchvision")
    load_pretrained(ResNet(18, width=8), record)


@pytest.mark.parametrize("make", [lite, classifier, tiny, bert, MobileNetV2])
def test_answers_of_another_order_of_sums_are_well_within_the_tolerance(make):
    """Weights that are off by a rounding each stand for other machines."""
    model = make()
    init.initialize(model, 1)
    first = given(model)
    for t in model.state_dict().values():
        if t.dtype == "float32":
            t.set(tensor(t.numpy() * np.float32(1 + 2**-23)))
    bound = tolerance(model)
    for name, values in given(model).items():
        assert np.abs(values - first[name]).max() < bound * np.abs(first[name]).max() < 1e-3 * np.abs(first[name]).max()


def test_every_record_whose_files_can_be_had_here_has_answers():
    without = [name for name in record_names() if not get_record(name).answers]
    assert all("cannot be reached" in get_record(name).notes for name in without)
    assert len(record_names()) - len(without) >= 7


MODELS = {
    **{
        f"efficientnet_lite{n}_imagenet": lambda n=n: ImageClassifier(EfficientNetLite(n), 1000, top=True)
        for n in (0, 1, 2)
    },
    "mobilenetv2_imagenet": lambda: MobileNetV2(out_strides=(4, 8, 16, 32)),
}


@pytest.mark.parametrize("name", MODELS)
def test_published_weights_give_the_answers_of_their_records(name, monkeypatch):
    record = fetched(name, monkeypatch)
    load_pretrained(MODELS[name](), record)
    with pytest.raises(CheckpointError, match="is not the network of these weights"):
        load_pretrained(other_eps(MODELS[name]()), record)


def test_the_published_text_encoder_gives_the_answers_of_its_record(monkeypatch):
    path = get_record(fetched("minilm_l6", monkeypatch)).weights()
    load_bert(Bert("minilm_l6"), path)
    with pytest.raises(CheckpointError, match="its 'tokens' is"):
        load_bert(Bert("minilm_l6", activation="relu"), path)


def test_the_command_prints_answers_as_a_record_has_them(monkeypatch, capsys):
    name = fetched("yolov3_tiny_coco", monkeypatch)
    assert cli.main(["zoo", "answers", name, "--model", "detection/yolov3_tiny_coco"]) == 0
    said = yaml.safe_load(capsys.readouterr().out)["answers"]
    record = get_record(name)
    assert said.keys() == record.answers.keys()
    for key, values in said.items():
        np.testing.assert_allclose(values, record.answers[key], rtol=1e-3, atol=1e-4)
