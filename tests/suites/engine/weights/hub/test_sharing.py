"""A run that was pushed to a hub and pulled again answers the same; what is fetched is checked and removed."""

import json
import sys
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import yaml

from framework.errors import CheckpointError, ConfigError
from framework.io import save_tensors
from suites import engine
from suites.engine.cli import main
from suites.engine.config import load_config
from suites.engine.config.building import build_task, read_config
from suites.engine.contract.capabilities import name_classes
from suites.engine.run.folder import RunFolder
from suites.engine.weights.hub.sharing import pack, unpack, upload
from suites.engine.weights.kept import kept_records
from tests.suites.engine.weights.hub.played_hub import played_hub, use

CONFIG = """
extends: classification/resnet50_imagenet
model:
  backbone: {$replace: {type: MobileNetV3, size: small, out_strides: [32], scale: 0.35}}
  num_classes: 3
data:
  num_classes: 3
  root: /home/ann/secret_project/pets
  train: {dataset: {root: "~/secret_project/more/train"}}
runtime: {weights: "/home/ann/secret_project/old.safetensors"}
"""


@pytest.fixture
def run(tmp_path):
    """The folder of a run as training leaves it."""
    source = tmp_path / "pets.yml"
    source.write_text(CONFIG)
    config = read_config(source)
    task = build_task(config)
    name_classes(task, ["cat", "dog", "owl"])
    made = RunFolder.create(tmp_path / "runs" / "pets", config)
    made.write_processor(task.processor())
    made.write_metrics({"top1": 0.91, "step": 10.0, "epoch": 2.0}, {"top1": 0.9})
    save_tensors(made.weights / "best.safetensors", task.model.state_dict())
    made.close()
    cv2.imwrite(str(tmp_path / "photo.png"), np.arange(200 * 260 * 3, dtype=np.uint8).reshape(200, 260, 3))
    return made.path


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with played_hub() as hub:
        use(hub, monkeypatch, tmp_path)
        yield hub


def answers(path, photo):
    (found,) = engine.load(path)(str(photo))
    return found.to_json()


def test_a_pushed_run_answers_the_same_by_its_name_and_pulled(run, hub, tmp_path, capsys):
    assert main(["zoo", "push", str(run), "hf:ann/pets", "--licence", "cc-by-4.0"]) == 0
    assert "nothing is sent; `hf upload ann/pets" in capsys.readouterr().out
    hub.add_folder("ann/pets", run / "hub")
    expected = answers(run, tmp_path / "photo.png")
    with pytest.raises(CheckpointError, match="is not here yet; fetch it with `paddock zoo fetch hf:ann/pets`"):
        engine.load("hf:ann/pets")
    assert main(["zoo", "pull", "hf:ann/pets", "--output", "runs/theirs"]) == 0
    assert "licence apache-2.0" in capsys.readouterr().out  # the played hub's card
    assert answers(tmp_path / "runs" / "theirs", tmp_path / "photo.png") == expected
    assert answers("hf:ann/pets", tmp_path / "photo.png") == expected
    assert json.loads((tmp_path / "runs" / "theirs" / "metrics.json").read_text()) == {"top1": 0.91}


def test_the_card_is_what_a_hub_shows_and_tells_nobody_where_the_data_lay(run, tmp_path):
    written = pack(run, tmp_path / "out", "hf:ann/pets", "cc-by-4.0")
    text = (tmp_path / "out" / "README.md").read_text()
    _, head, body = text.split("---\n", 2)
    told = yaml.safe_load(head)
    assert told["license"] == "cc-by-4.0" and told["pipeline_tag"] == "image-classification"
    assert told["model-index"][0]["results"][0]["metrics"] == [{"type": "top1", "value": 0.91}]
    assert "paddock infer hf:ann/pets" in body and "cat, dog, owl" in body and "| top1 | 0.91 |" in body
    assert {path.name for path in written} == {"README.md", "config.yml", "processor.json", "metrics.json",
                                               "model.safetensors"}  # fmt: skip
    assert not any(b"secret_project" in path.read_bytes() for path in written)
    assert yaml.safe_load((tmp_path / "out" / "config.yml").read_text())["data"]["root"] == "pets"
    assert load_config(tmp_path / "out" / "config.yml", ["data.root=mine"])["data.eval.dataset.root"] == "mine/val"


def test_what_cannot_be_shared_is_refused_by_name(run, tmp_path):
    with pytest.raises(CheckpointError, match="is no run; give the folder that `paddock train` wrote"):
        pack(tmp_path, tmp_path / "out", "hf:ann/pets", "mit")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("kept")
    with pytest.raises(ConfigError, match="is not empty, so it is not written"):
        pack(run, tmp_path / "out", "hf:ann/pets", "mit")
    with pytest.raises(ConfigError, match="is no name on the hub"):
        pack(run, tmp_path / "new", "ann/pets/more", "mit")
    save_tensors(run / "weights" / "best.safetensors", {}, {"paddock.resources": "best.1234"})
    with pytest.raises(ConfigError, match="share an export: `paddock export"):
        pack(run, tmp_path / "new", "hf:ann/pets", "mit")
    with pytest.raises(CheckpointError, match=r"is no shared run of Paddock; it has no config.yml, processor.json"):
        unpack(tmp_path / "out", tmp_path / "theirs")


def test_a_repository_that_is_no_run_of_ours_says_where_its_name_goes(hub, tmp_path):
    hub.add("ann/bert", {"config.json": b"{}", "model.safetensors": b"\x02\0\0\0\0\0\0\0{}"})
    assert main(["zoo", "fetch", "hf:ann/bert"]) == 0
    with pytest.raises(CheckpointError, match="Name it as the weights of a config of yours"):
        engine.load("hf:ann/bert")


def test_sending_asks_the_hub_and_names_what_it_says(run, tmp_path, monkeypatch):
    done, refuses = [], []

    class Hub:
        def __init__(self, endpoint):
            done.append(endpoint)

        def create_repo(self, name, private, exist_ok):
            if refuses:
                raise OSError("401 Client Error")
            done.append((name, private, exist_ok))

        def upload_folder(self, repo_id, folder_path, commit_message):
            done.append((repo_id, sorted(path.name for path in folder_path.iterdir())))

    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=Hub))
    pack(run, tmp_path / "out", "hf:ann/pets", "mit")
    assert upload(tmp_path / "out", "hf:ann/pets", private=True) == "http://127.0.0.1:9/ann/pets"
    assert done[:2] == ["http://127.0.0.1:9", ("ann/pets", True, True)] and len(done[2][1]) == 5
    refuses.append(True)
    with pytest.raises(CheckpointError, match=r"401 Client Error.*a token that may write is needed, in HF_TOKEN"):
        upload(tmp_path / "out", "hf:ann/pets", private=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(CheckpointError, match="HF_HUB_OFFLINE is set, so nothing is sent"):
        upload(tmp_path / "out", "hf:ann/pets", private=False)


def test_what_was_fetched_is_verified_and_removed(run, hub, tmp_path, capsys):
    pack(run, tmp_path / "out", "hf:ann/pets", "mit")
    commit = hub.add_folder("ann/pets", tmp_path / "out")
    assert main(["zoo", "verify"]) == 0 and "nothing is in" in capsys.readouterr().out
    assert main(["zoo", "fetch", "hf:ann/pets"]) == 0
    assert [record.name for record in kept_records()] == [f"hf:ann/pets@{commit}"]
    assert main(["zoo", "verify"]) == 0 and f"hf:ann/pets@{commit}: whole" in capsys.readouterr().out
    weights = tmp_path / "zoo" / "hf" / "ann--pets" / commit / "model.safetensors"
    damaged = bytearray(weights.read_bytes())
    damaged[-1] ^= 1
    weights.write_bytes(damaged)
    assert main(["zoo", "verify"]) == 1 and "has the digest" in capsys.readouterr().out
    assert main(["zoo", "remove", "hf:ann/pets"]) == 0 and not weights.parent.exists()
    assert main(["zoo", "remove", "hf:ann/pets"]) == 2 and "nothing of it is in" in capsys.readouterr().err
