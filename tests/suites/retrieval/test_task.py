"""A run of metric learning by the engine: trained, resumed, evaluated, exported, served, and its bad settings."""

import numpy as np
import pytest

from framework.errors import ConfigError
from framework.io import load_tensors
from suites.engine.cli import main as paddock
from suites.engine.predict.inference import evaluate_export, export_run, infer_files, open_model, open_run
from suites.engine.serving.service import Service, Settings
from suites.engine.train.hooks import Hook
from suites.engine.train.training import train
from tests.suites.retrieval.helpers import pictures

SMALL = """suite: retrieval
model:
  type: EmbeddingNet
  backbone: {{type: MobileNetV2, scale: 0.25, out_strides: [16]}}
  size: 8
  pooling: {{type: GeM}}
data:
  root: {root}
  train:
    dataset: {{type: ClassFolders, root: "${{data.root}}"}}
    transforms: [{{id: resize, type: Resize, size: 32}}, {{id: normal, type: Normalize}}]
    batch_size: 8
    order: {{type: PerClass, m: 4}}
  eval:
    dataset: {{type: ClassFolders, root: "${{data.root}}", part: val}}
    transforms: [{{id: resize, type: Resize, size: 32}}, {{id: normal, type: Normalize}}]
    batch_size: 4
loss: {{type: ArcFace, scale: 16.0}}
optimizer: {{type: Adam}}
schedule: {{type: Constant, base_lr: 1e-3}}
runtime: {{steps: 3, workers: 0, log_every: 1, evaluation: {{every: 3, pictures: 2}}}}
"""


@pytest.fixture
def config(tmp_path):
    pictures(tmp_path / "data", {"a": 8, "b": 8, "c": 4, "d": 4})
    path = tmp_path / "small.yml"
    path.write_text(SMALL.format(root=tmp_path / "data"), encoding="utf-8")
    return path


def test_a_run_is_trained_evaluated_exported_and_served(config, tmp_path):
    train(config, [], runs=tmp_path, name="run")
    task = open_run(tmp_path / "run")
    assert "helpers" not in " ".join(task.model.state_dict())  # the classes' vectors are no part of the network
    report = export_run(tmp_path / "run", tmp_path / "exported")
    assert report.outputs == ["vectors"] and report.largest_difference < 1e-5
    figures = evaluate_export(tmp_path / "run", tmp_path / "exported")
    assert figures["asked"] == 8 and 0 <= figures["mAP@R"] <= figures["recall@1"] <= 1
    model = open_model(tmp_path / "exported")
    (found,) = model(tmp_path / "data" / "a" / "0.png")
    assert np.linalg.norm(found.value) == pytest.approx(1, abs=1e-5) and len(found.to_json()["vector"]) == 8
    assert infer_files(model, [tmp_path / "data" / "a" / "0.png"], None).lines[0].startswith("8 numbers: ")
    service = Service(model, Settings(name="faces"))
    assert service.poolings == ("vector",)


class Fail(Hook):
    """Ends a run as a crash does."""

    def __init__(self, step):
        self.step = step

    def after_step(self, loop):
        if loop.step == self.step:
            raise RuntimeError("crashed")


@pytest.mark.parametrize("loss", ["ArcFace", "ProxyAnchor"])
def test_a_run_goes_on_bit_for_bit_with_the_vectors_of_its_classes(config, tmp_path, loss):
    how = ["runtime.steps=4", "runtime.checkpoint.every=1", f"loss={{$replace: {{type: {loss}}}}}"]
    train(config, how, runs=tmp_path, name="whole")
    with pytest.raises(RuntimeError, match="crashed"):
        train(config, how, runs=tmp_path, name="part", hooks=[Fail(3)])
    train(tmp_path / "part", resume=True)
    whole, part = (load_tensors(tmp_path / name / "weights" / "last.safetensors") for name in ("whole", "part"))
    assert whole and all(np.array_equal(whole[name].numpy(), part[name].numpy()) for name in whole)


@pytest.mark.parametrize("loss", ["BatchHard", "SemiHard", "NPair", "MultiSimilarity", "CosFace", "ProxyAnchor"])
def test_each_loss_trains(config, tmp_path, loss):
    train(config, [f"loss={{$replace: {{type: {loss}}}}}", "runtime.steps=2"], runs=tmp_path, name="run")
    assert (tmp_path / "run" / "metrics.jsonl").is_file()


def test_losses_of_pairs_need_an_order_and_whole_groups(config, tmp_path):
    words = ["loss={$replace: {type: NPair}}", "data.train.order=null"]
    with pytest.raises(ConfigError, match=r"NPair compares samples of a class; give it \{type: PerClass, m: 4\}"):
        train(config, words, runs=tmp_path, name="run")
    for size in (4, 6):
        with pytest.raises(ConfigError, match=f"batch_size is {size}; with PerClass it is a multiple of m 4"):
            train(config, [f"data.train.batch_size={size}"], runs=tmp_path, name="run", overwrite=True)


def test_pairs_are_evaluated_as_pairs(config, tmp_path, capsys):
    root = tmp_path / "data"
    rows = [f"c/{i}.png c/{i + 1}.png 1" for i in range(3)] + [f"c/{i}.png d/{i}.png 0" for i in range(3)]
    (root / "list.txt").write_text("\n".join(rows), encoding="utf-8")
    train(config, [], runs=tmp_path, name="run")
    given = f"data.eval.dataset={{$replace: {{type: PairList, root: {root}, pairs: list.txt, folds: 3}}}}"
    assert paddock(["eval", str(tmp_path / "run"), "-o", given]) == 0
    assert '"accuracy"' in capsys.readouterr().out


def test_data_check_knows_folders_of_classes(config, capsys):
    assert paddock(["data", "check", str(config)]) in (0, 1)
    assert "16 pictures" in capsys.readouterr().out
