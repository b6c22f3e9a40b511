"""The classification task as the engine uses it: trains to a figure, evaluates, draws and exports from a config."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from framework.errors import CheckpointError, ConfigError, DataError
from framework.nn import init
from suites.classification.processor import ClassificationProcessor
from suites.engine.config.building import build_task, read_config
from suites.engine.predict.inference import export_run, infer_files, open_model
from suites.engine.train.training import evaluate_weights, train
from suites.vision.augmentation.transforms import Normalize, Resize
from suites.vision.pictures.images import write_image
from tests.shipped import load_shipped

CONFIG = """
suite: classification
model:
  type: ImageClassifier
  backbone: {type: ResNet, depth: 18, width: 8, out_strides: [16]}
  num_classes: "${data.num_classes}"
data:
  root: ROOT
  num_classes: 3
  train:
    dataset: {type: ImageFolder, root: "${data.root}", holdout: 4, split: train}
    transforms:
      - {id: crop, type: RandomResizedCrop, size: 32, scale: [0.5, 1.0]}
      - {id: flip, type: RandomFlip, swap: [[a, b]]}
      - {id: color, type: ColorDistort}
      - {id: normalize, type: Normalize}
    batch_transforms: [{id: mixup, type: Mixup, prob: 0.5}]
    batch_size: 9
  eval:
    dataset: {type: ImageFolder, root: "${data.root}", holdout: 4, split: val}
    transforms:
      - {id: resize, type: ResizeShort, size: 36}
      - {id: crop, type: CenterCrop, size: 32}
      - {id: normalize, type: Normalize}
    batch_size: 4
loss: {label_smoothing: 0.05}
optimizer: {type: Momentum, momentum: 0.9}
schedule: {type: Cosine, base_lr: 0.05, warmup_steps: 5}
runtime: {steps: 40, workers: 0, evaluation: {every: 0, pictures: 2}}
"""
CONFIGS = Path(__file__).resolve().parents[3] / "configs" / "classification"


def picture(kind, rng):
    """A wedge that is bright at the left, at the right or at the bottom, in a random colour, with noise."""
    ramp = np.linspace(255, 0, 40)
    wedge = {"a": np.tile(ramp, (32, 1)), "b": np.tile(ramp[::-1], (32, 1)), "c": np.tile(ramp[:32, None], (1, 40))}
    image = wedge[kind][..., None] * rng.uniform(0.5, 1, 3) + rng.normal(0, 10, (32, 40, 3))
    return np.clip(image, 0, 255).astype(np.uint8)


@pytest.fixture
def config_file(tmp_path):
    rng = np.random.default_rng(0)
    for kind in "abc":
        for i in range(12):
            write_image(tmp_path / "wedges" / kind / f"{kind}{i:02}.png", picture(kind, rng))
    path = tmp_path / "tiny.yml"
    path.write_text(CONFIG.replace("ROOT", str(tmp_path / "wedges")))
    return path


def test_a_run_learns_and_its_network_can_be_exported(config_file, tmp_path):
    run = tmp_path / "run"
    train(config_file, runs=tmp_path, name="run")
    figures = evaluate_weights(run)
    assert figures["top1"] == 1.0 and figures["mean_class"] == 1.0
    assert sorted(p.name for p in (run / "pictures").glob("*.jpg")) == ["00000_a03.jpg", "00008_c11.jpg"]
    report = export_run(run, tmp_path / "export")
    # Probabilities; batch norm folded into 17 convolutions moves them by roundings of float32.
    assert report.largest_difference < 1e-4 and not report.fixed_shapes
    for model in (run, tmp_path / "export"):
        done = infer_files(open_model(model), [tmp_path / "wedges" / "b"], tmp_path / model.name / "out")
        assert len(done.pictures) == 12 and not done.skipped
    told = infer_files(open_model(run), [tmp_path / "wedges" / "b" / "b00.png"], None)
    assert told.output is None and len(told.lines) == 3 and all(len(line.split()) == 2 for line in told.lines)


@pytest.mark.parametrize(
    ("override", "match"),
    [
        ("model.num_classes=4", r"model.num_classes: is 4 but data.num_classes is 3"),
        ("data.train.batch_size=0", r"data.train.batch_size: is 0; it must be 1 or more"),
        ("loss.smoothing=1.0", r"CrossEntropy takes no 'smoothing'; did you mean 'label_smoothing'"),
        (
            "data.eval.transforms[crop].type=CentreCrop",
            r"no transform is called 'CentreCrop'; did you mean 'CenterCrop'",
        ),
    ],
)
def test_wrong_configs_are_refused(config_file, override, match):
    with pytest.raises(ConfigError, match=match):
        read_config(config_file, [override])


def test_a_class_has_one_number_in_all_sets_of_a_run(config_file):
    task = build_task(read_config(config_file))
    other = build_task(read_config(config_file, ["data.eval.dataset.classes=[c, a, b]"]))
    with pytest.raises(ConfigError, match=r"data.train.dataset: class 0 is 'a', but that of data.eval.dataset is 'c'"):
        other.train_loader(seed=0, workers=0)
    further = task.with_eval(other.eval_data)
    with pytest.raises(ConfigError, match=r"class 0 is 'c', but that of data.eval.dataset is 'a'"):
        further.eval_loader(workers=0)
    other = build_task(read_config(config_file, ["data.eval.dataset.classes=[c, a, b]"]))
    other.adopt(task.processor())
    with pytest.raises(ConfigError, match=r"data.eval.dataset: class 0 is 'c', but that of the run is 'a'"):
        other.eval_loader(workers=0)


def test_a_wrong_number_of_classes_names_both(config_file):
    task = build_task(read_config(config_file, ["data.num_classes=5"]))
    with pytest.raises(ConfigError, match=r"data.num_classes is 5 but data.train.dataset has 3 classes \(a, b, c\)"):
        task.train_loader(seed=0, workers=0)


def test_a_set_of_one_class_is_refused_before_the_first_step(config_file, tmp_path):
    for kind in "bc":
        shutil.rmtree(tmp_path / "wedges" / kind)
    (tmp_path / "wedges" / "b").mkdir()
    with pytest.raises(DataError, match=r"data\.train\.dataset: all 9 samples are of one class, 'a'"):
        train(config_file, ["data.num_classes=auto"], runs=tmp_path, name="run")


def test_predictions_are_the_best_classes():
    processor = ClassificationProcessor([Resize(8), Normalize()], list("abcdefg"))
    image = np.zeros((16, 20, 3), np.uint8)
    batch = processor.prepare([image])
    assert batch["images"].shape == (1, 8, 8, 3)
    scores = np.array([[0.1, 0.3, 0.05, 0.05, 0.2, 0.2, 0.1]], np.float32)
    (result,) = processor.results({"scores": scores}, batch)
    assert [r["class"] for r in result] == list("befag") and result[0]["score"] == pytest.approx(0.3)
    assert processor.draw(image, result).any()
    again = ClassificationProcessor.from_metadata(processor.metadata())
    assert again.metadata() == processor.metadata()
    with pytest.raises(CheckpointError, match="do not fit: 'class_names'"):
        ClassificationProcessor.from_metadata({"transforms": []})


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yml")), ids=lambda path: path.name)
def test_every_config_builds_its_model(path):
    with init.undrawn():  # pretrained weights need not be there
        load_shipped(path).build("model")


def test_damaged_images_are_passed_over_also_where_others_are_mixed_with_them(config_file, tmp_path, capsys):
    for name in ("a/a00.png", "b/b03.png"):
        (tmp_path / "wedges" / name).write_bytes(b"GIF")
    overrides = ["runtime.steps=6", "runtime.data.max_skipped=0.2"]
    train(config_file, overrides, runs=tmp_path, name="run")
    said = capsys.readouterr().out
    assert "training: 1 of 27 samples could not be used: sample 0 (" in said
    assert "evaluation: 1 of 9 samples could not be used: sample 3 (" in said
    assert evaluate_weights(tmp_path / "run")["skipped"] == 1


def test_one_damaged_photo_of_a_small_evaluation_set_ends_no_training(config_file, tmp_path, capsys):
    (tmp_path / "wedges" / "b/b03.png").write_bytes(b"GIF")
    train(config_file, ["runtime.steps=2"], runs=tmp_path, name="run")
    assert "evaluation: 1 of 9 samples could not be used: sample 3 (" in capsys.readouterr().out
    assert json.loads((tmp_path / "run/metrics.json").read_text())["skipped"] == 1


def test_a_run_leaves_a_report_of_its_classes(config_file, tmp_path, capsys):
    train(config_file, ["runtime.steps=2", "loss.class_weights=balanced"], runs=tmp_path, name="run")
    report = (tmp_path / "run" / "report.md").read_text()
    assert (
        report.startswith("| class | samples | precision | recall | F1 |") and "| true \\ said | a | b | c |" in report
    )
    (tmp_path / "run" / "report.md").unlink()
    evaluate_weights(tmp_path / "run")
    assert (tmp_path / "run" / "report.md").is_file()


def test_class_weights_are_as_many_as_the_classes(config_file, tmp_path):
    with pytest.raises(ConfigError, match=r"loss\.class_weights: 2 weights for the 3 classes of data\.eval\.dataset"):
        train(config_file, ["loss.class_weights=[1, 2]"], runs=tmp_path, name="run")


def test_images_of_several_classes_are_learnt_and_told(config_file, tmp_path):
    """The wedges again: a and b say where the light is, c that it comes from the side."""
    rows = {"a": "0,2", "b": "1,2", "c": "-"}
    for split, numbers in (("train", range(9)), ("val", range(9, 12))):
        lines = [f"{kind}/{kind}{i:02}.png {labels}" for kind, labels in rows.items() for i in numbers]
        (tmp_path / "wedges" / f"{split}.txt").write_text("\n".join(lines))
    data = "type: ImageList, root: '${data.root}', classes: [left, right, side], multi_label: true"
    overrides = [
        *(f"data.{p}.dataset={{{data}, annotations: {s}.txt}}" for p, s in (("train", "train"), ("eval", "val"))),
        "data.train.transforms=[{type: Resize, size: 32}, {type: Normalize}]",
        "data.train.batch_transforms=[{type: CutMix, prob: 0.2}]",
    ]
    with pytest.raises(ConfigError, match="its samples have several classes each, so the loss must be BinaryCrossEntr"):
        train(config_file, overrides, runs=tmp_path, name="wrong")
    run = tmp_path / "run"
    train(config_file, [*overrides, "loss={type: BinaryCrossEntropy}"], runs=tmp_path, name="run")
    figures = evaluate_weights(run)
    assert figures["mAP"] > 0.99 and set(figures) == {"mAP", "micro_f1", "macro_f1", "exact"}
    (found,) = open_model(run)(tmp_path / "wedges" / "a" / "a10.png")
    assert {said["class"] for said in found.to_json()} == {"left", "side"}
