"""Resources: what a model keeps in files of its own is saved and found with its weights, whole or not at all."""

import numpy as np
import pytest

from framework import from_numpy
from framework.errors import CheckpointError
from framework.io import load_metadata
from suites.engine.contract.resources import FOLDER, load_deployed, load_resources, save_deployed
from suites.engine.run.checkpoint import Checkpoints, load


class Words:
    """A resource: texts in a file."""

    def __init__(self, *words):
        self.words = list(words)

    def save(self, path):
        path.mkdir()
        (path / "words.txt").write_text("\n".join(self.words))

    def placed(self, path):
        pass

    def load(self, path):
        self.words = (path / "words.txt").read_text().split("\n")


class Model:
    def __init__(self, value=0.0):
        self.value = value

    def state_dict(self):
        return {"w": from_numpy(np.full(2, self.value, np.float32))}

    def load_state_dict(self, state, strict=True):
        self.value = float(state["w"].numpy()[0])
        return []


class Task:
    def __init__(self, value=0.0, *words):
        self.model, self.words = Model(value), Words(*words)

    def resources(self):
        return {"words": self.words}


def deploy(path, value, *words):
    task = Task(value, *words)
    save_deployed(path, task.model.state_dict(), task.resources())


def test_weights_are_found_with_their_resources_and_older_ones_go(tmp_path):
    for value in (1.0, 2.0):
        deploy(tmp_path / "best.safetensors", value, "a", str(value))
        deploy(tmp_path / "last.safetensors", value + 10, "b", str(value))
    task = Task()
    load_deployed(task, tmp_path / "best.safetensors")
    assert (task.model.value, task.words.words) == (2.0, ["a", "2.0"])
    load_deployed(task, tmp_path / "last.safetensors")
    assert (task.model.value, task.words.words) == (12.0, ["b", "2.0"])
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 2


def test_what_a_killed_run_left_is_not_taken_and_goes_with_the_next(tmp_path):
    path = tmp_path / "best.safetensors"
    deploy(path, 1.0, "old")
    (tmp_path / "best.0123abcd" / "words").mkdir(parents=True)  # written, but the weights never named it
    task = Task()
    load_deployed(task, path)
    assert task.words.words == ["old"]
    deploy(path, 2.0, "new")
    (folder,) = [each.name for each in tmp_path.iterdir() if each.is_dir()]
    assert load_metadata(path)["paddock.resources"] == folder


def test_weights_without_resources_are_one_file_and_cost_nothing(tmp_path):
    save_deployed(tmp_path / "best.safetensors", Model(3.0).state_dict(), {})
    assert [path.name for path in tmp_path.iterdir()] == ["best.safetensors"]
    with pytest.raises(
        CheckpointError, match=r"the model's 'words' does not lie beside it \(no folder is named in it\)"
    ):
        load_deployed(Task(), tmp_path / "best.safetensors")


def test_a_checkpoint_holds_resources_and_their_digests(tmp_path):
    checkpoints, state = Checkpoints(tmp_path), {"model": Model(1.0).state_dict(), "step": {"updates": 1}}
    folder = checkpoints.save(1, state, {"words": Words("x", "y")})
    found, words = load(folder), Words()
    load_resources(found[FOLDER], {"words": words}, "checkpoint")
    assert words.words == ["x", "y"]
    assert "resources/words/words.txt" in (folder / "SHA256SUMS").read_text()
    (folder / "resources" / "words" / "words.txt").write_text("x\nz")
    with pytest.raises(CheckpointError, match=r"words\.txt: damaged, its SHA-256 is not the one in SHA256SUMS"):
        load(folder)


def test_a_checkpoint_of_a_model_without_resources_is_as_before(tmp_path):
    folder = Checkpoints(tmp_path).save(1, {"model": Model(1.0).state_dict()}, {})
    assert sorted(path.name for path in folder.iterdir()) == ["SHA256SUMS", "model.safetensors", "state.json"]
    assert FOLDER not in load(folder)
