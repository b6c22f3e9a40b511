"""Probes: the votes by their formula, C chosen on a part, features of frozen networks of images and texts."""

import json

import numpy as np
import pytest

from framework.errors import ConfigError, DataError, NotSupportedError
from suites.engine.cli import main
from suites.engine.predict.probing import Features, linear, neighbours, probe
from suites.engine.train.training import train

DIGITS = """
suite: classification
model:
  type: ImageClassifier
  backbone: {type: ResNet, depth: 18, width: 4, out_strides: [32]}
  num_classes: "${data.num_classes}"
data:
  num_classes: 10
  train:
    dataset: {type: Digits, split: train}
    transforms: [{type: RandomResizedCrop, size: 32, scale: [0.1, 0.2]}, {type: Normalize}]
    batch_size: 64
  eval:
    dataset: {type: Digits, split: val}
    transforms: [{type: Resize, size: 32}, {type: Normalize}]
    batch_size: 128
optimizer: {type: Momentum}
schedule: {type: Constant, base_lr: 0.01}
runtime: {steps: 1, workers: 0, evaluation: {every: 0, pictures: 0}}
"""
TEXTS = """
suite: nlp
model:
  type: SequenceClassifier
  pooling: mean
  num_classes: 2
  encoder: {type: Bert, vocab_size: 9, hidden_size: 16, layers: 1, heads: 2, ffn_size: 16, max_positions: 12}
data:
  tokenizer: {type: BertTokenizer, vocabulary: ROOT/vocab.txt}
  num_classes: 2
  max_length: 12
  train: {dataset: {type: Tsv, path: ROOT/texts.tsv}, batch_size: 4}
  eval: {dataset: {type: Tsv, path: ROOT/texts.tsv}, batch_size: 3}
problem: {type: Classification}
optimizer: {type: AdamW}
schedule: {type: Constant, base_lr: 1e-3}
runtime: {steps: 1, workers: 0, evaluation: {every: 0, pictures: 0}}
"""


def blobs(count, seed, classes=3):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=count)
    centres = np.random.default_rng(0).standard_normal((classes, 8)) * 2
    return Features((centres[labels] + rng.standard_normal((count, 8))).astype(np.float32), labels.astype(np.int64))


def test_votes_are_those_of_the_formula():
    first, second = blobs(40, 1), blobs(25, 2)
    a, b = (each.vectors / np.linalg.norm(each.vectors, axis=1, keepdims=True) for each in (first, second))
    for k in (1, 7, 40):
        right = 0
        for vector, truth in zip(b, second.classes, strict=True):
            similar = a @ vector
            nearest = np.argsort(-similar)[:k]
            votes = [sum(np.exp(similar[i] / 0.07) for i in nearest if first.classes[i] == c) for c in range(3)]
            right += int(np.argmax(votes) == truth)
        assert neighbours(first, second, (k,)) == {f"knn{k}/accuracy": right / 25}


def test_there_are_as_many_neighbours_as_the_set_allows():
    assert list(neighbours(blobs(25, 1), blobs(5, 2))) == ["knn10/accuracy", "knn20/accuracy"]
    assert list(neighbours(blobs(4, 1), blobs(5, 2))) == ["knn4/accuracy"]


def test_c_is_chosen_without_the_evaluation_set():
    first, second = blobs(120, 1), blobs(60, 2)
    figures = linear(first, second)
    assert figures["linear/accuracy"] > 0.8
    wrong = Features(second.vectors, (second.classes + 1) % 3)
    assert linear(first, wrong)["linear/C"] == figures["linear/C"]
    assert linear(first, second) == figures


def test_a_feature_that_never_moves_and_one_of_another_scale_do_no_harm():
    def changed(features):
        vectors = features.vectors.copy()
        vectors[:, 0] = 5.0
        vectors[:, 1] *= 1e4
        return Features(vectors, features.classes)

    assert linear(changed(blobs(120, 1)), changed(blobs(60, 2)))["linear/accuracy"] > 0.7


def test_one_class_is_no_probe():
    with pytest.raises(DataError, match="one class only"):
        linear(blobs(20, 1, classes=1), blobs(5, 2))


def test_images_are_seen_as_in_evaluation_and_a_run_can_be_probed(tmp_path, capsys):
    config = tmp_path / "c.yml"
    config.write_text(DIGITS)
    train(config, runs=tmp_path, name="a")
    figures = probe(tmp_path / "a")
    # Crops of a tenth of the picture, as in training, tell few digits apart.
    assert figures["linear/accuracy"] > 0.6 and figures["knn10/accuracy"] > 0.6
    weights = tmp_path / "a/weights/best.safetensors"
    capsys.readouterr()  # what the training told
    assert main(["probe", str(config), "-o", f"runtime.weights={weights}"]) == 0
    assert json.loads(capsys.readouterr().out) == pytest.approx(figures)
    with pytest.raises(ConfigError, match="no weights are loaded"):
        probe(config)


def test_texts(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\nd\n")
    rng = np.random.default_rng(0)
    rows = [(" ".join(rng.choice(list("ab" if i % 2 else "cd"), 4)), i % 2) for i in range(40)]
    (tmp_path / "texts.tsv").write_text("text_a\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows))
    config = tmp_path / "c.yml"
    config.write_text(TEXTS.replace("ROOT", str(tmp_path)))
    train(config, runs=tmp_path, name="a")
    assert probe(tmp_path / "a")["linear/accuracy"] == 1.0


def test_other_tasks_have_no_probe(tmp_path):
    config = tmp_path / "c.yml"
    config.write_text("""
suite: toy
optimizer: {type: SGD}
schedule: {type: Constant, base_lr: 0.1}
runtime: {steps: 1}
""")
    from tests.suites.engine import toy  # noqa: F401  (registers the suite)

    with pytest.raises(NotSupportedError, match="ToyTask: a probe is for classes of images, clips and texts"):
        probe(config)
