"""Pruning: what is cut is what matters least, and what is left is a run like any other."""

import shutil

import numpy as np
import pytest

from framework import from_numpy, no_grad
from framework.errors import AttributeValueError, CheckpointError, ConfigError
from framework.io import load_tensors, save_tensors
from suites.engine.config.building import read_config
from suites.engine.predict.inference import export_run, open_run
from suites.engine.train.training import evaluate_weights, train
from suites.nlp.models.bert_names import save_hugging_face
from suites.nlp.slim.pruning import Cut, prune_run
from tests.suites.nlp.slim import toy

OFFSETS = np.array([0, 4, 9])
IDS = np.array([2, 5, 9, 3, 2, 6, 7, 8, 3])


def outputs(run):
    model = open_run(run).model
    with no_grad():
        return model(from_numpy(IDS), from_numpy(OFFSETS)).numpy()


def silence(run, heads, neurons):
    """Make some heads and neurons of every layer of a run do nothing."""
    path = run / "weights" / "best.safetensors"
    arrays = {name: tensor.numpy().copy() for name, tensor in load_tensors(path).items()}
    for name, array in arrays.items():
        if name.endswith("attention.out.weight"):
            for head in heads:
                array[:, 8 * head : 8 * head + 8] = 0
        if name.endswith("down.weight"):
            array[:, neurons] = 0
    save_tensors(path, {name: from_numpy(array) for name, array in arrays.items()})


def test_heads_and_neurons_that_do_nothing_are_the_ones_that_go(folder):
    silence(folder / "teacher", [0, 2], list(range(5, 29)))
    before = outputs(folder / "teacher")
    report = prune_run(folder / "teacher", folder / "small", Cut(heads=0.5, neurons=0.5), batches=2)
    assert (report.heads, report.neurons, report.layers) == (2, 24, [1, 2, 3, 4])
    model = open_run(folder / "small").model
    assert model.encoder.layers[0].attention.qkv.weight.shape == (3 * 16, 32)
    assert report.after == sum(p.size for p in model.parameters()) < report.before
    # The sums leave out terms that are exactly 0, so only their order differs.
    assert np.abs(outputs(folder / "small") - before).max() < 1e-5


def test_layers_that_stay_are_the_old_ones(folder):
    report = prune_run(folder / "teacher", folder / "small", Cut(layers=2))
    assert report.layers == [2, 4]
    old, new = (load_tensors(folder / name / "weights" / "best.safetensors") for name in ("teacher", "small"))
    for ours, theirs in ((0, 1), (1, 3)):
        a, b = new[f"encoder.layers.{ours}.up.weight"], old[f"encoder.layers.{theirs}.up.weight"]
        assert (a.numpy() == b.numpy()).all()
    assert not any(".layers.2." in name for name in new)
    prune_run(folder / "teacher", folder / "chosen", Cut(layers=(1, 2, 3, 4)))
    assert (outputs(folder / "chosen") == outputs(folder / "teacher")).all()


def test_a_pruned_run_evaluates_exports_and_trains_on_with_its_teacher(folder):
    prune_run(folder / "teacher", folder / "small", Cut(heads=0.5, neurons=0.75, layers=(2, 4)), batches=2)
    assert 0 <= evaluate_weights(folder / "small")["accuracy"] <= 1
    assert export_run(folder / "small", folder / "export").largest_difference < 1e-6
    seen = []

    class Terms(toy.Hook):
        def after_step(self, trainer):
            seen.append(dict(trainer.losses))

    train(folder / "small", ["runtime.steps=30"], runs=folder, name="again", hooks=[Terms()])
    assert list(seen[0]) == ["cross_entropy", "distillation", "layers"]
    assert seen[-1]["layers"] < seen[0]["layers"]
    with pytest.raises(CheckpointError, match="2 heads of 8 are not as wide as the model, 32"):
        save_hugging_face(open_run(folder / "again").model, folder / "hf")


def test_its_config_still_shares_what_the_run_s_shares(folder):
    vocabulary = ["data.root=" + str(folder), "runtime.weights=null", "data.train.dataset.path=${data.root}/train.tsv"]
    train(toy.write_config(folder, toy.TEACHER, name="shared.yml"), vocabulary, runs=folder, name="shared")
    prune_run(folder / "shared", folder / "small", Cut(layers=2))
    written = read_config(folder / "small").as_written()
    assert written["data"]["train"]["dataset"]["path"] == "${data.root}/train.tsv"
    assert written["model"]["num_classes"] == "${data.num_classes}"
    (folder / "moved").mkdir()
    shutil.copy(folder / "train.tsv", folder / "moved" / "train.tsv")
    assert read_config(folder / "small", [f"data.root={folder}/moved"])["data.train.dataset.path"].startswith(
        f"{folder}/moved"
    )


@pytest.mark.parametrize(
    ("cut", "said"),
    [
        ({"heads": 0.0}, "heads is 0.0; the share that stays is above 0 and at most 1"),
        ({"neurons": 1.2}, "neurons is 1.2; the share that stays"),
        ({}, "nothing is to be cut"),
    ],
)
def test_shares_out_of_range_are_told(cut, said):
    with pytest.raises(AttributeValueError, match=said):
        Cut(**cut)


def test_wrong_layers_and_other_models_are_told(folder):
    for layers, said in (
        (5, "layers is 5 but the model has 4"),
        ((1, 9), r"layers are \[1, 9\] but the model has 1 to 4"),
    ):
        with pytest.raises(AttributeValueError, match=said):
            prune_run(folder / "teacher", folder / "small", Cut(layers=layers))
    train(toy.write_config(folder, toy.BOW), ["distil=null"], runs=folder, name="bow")
    with pytest.raises(ConfigError, match="is a BagOfWords; only models on a Bert are pruned"):
        prune_run(folder / "bow", folder / "small", Cut(heads=0.5))
