"""The segmentation task as the engine uses it: learns from files on disk, evaluates, draws and exports."""

import json
import re
import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from framework import from_numpy, no_grad
from framework.errors import AttributeValueError, CheckpointError, ConfigError, DataError
from suites.engine.config.building import build_task, read_config
from suites.engine.predict.evaluation import evaluate, predict_of
from suites.engine.predict.inference import export_run, infer_files, open_model
from suites.engine.train.check import check_runs
from suites.engine.train.training import evaluate_weights, train
from suites.segmentation.labelling import Labelling
from suites.segmentation.labels import decode_labels, encode_labels
from suites.segmentation.losses import ClassCounts
from suites.segmentation.processor import SegmentationProcessor
from suites.vision.augmentation.transforms import Letterbox, Normalize
from suites.vision.pictures.images import read_image, write_image
from tests.suites.segmentation.helpers import PALETTE, scene, write_scenes

CONFIG = """
suite: segmentation
model:
  type: DeepLabV3Plus
  backbone: {type: MobileNetV2, scale: 0.25, out_strides: [2, 8], output_stride: 8}
  num_classes: "${data.num_classes}"
  rates: [1, 2]
  channels: 16
  low_channels: 8
losses: [{id: ce, type: CrossEntropy}]
data:
  num_classes: 3
  root: ROOT
  train:
    dataset: {type: ImageLabelPairs, root: "${data.root}", images: train/images, labels: train/labels}
    transforms:
      - {id: scale, type: RandomScale, low: 0.8, high: 1.25}
      - {id: crop, type: RandomCrop, size: 48}
      - {id: flip, type: RandomFlip}
      - {id: normalize, type: Normalize}
    batch_size: 8
  eval:
    dataset: {type: ImageLabelPairs, root: "${data.root}", images: val/images, labels: val/labels}
    transforms: [{id: normalize, type: Normalize}]
    batch_size: 4
optimizer: {type: Momentum}
schedule: {type: Cosine, base_lr: 5e-2, warmup_steps: 5}
runtime: {steps: 140, workers: 0, evaluation: {every: 0, pictures: 1}, ema: {decay: 0.9}}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, "train", 24, seed=1)
    write_scenes(folder, "val", 8, seed=2)
    return folder


@pytest.fixture
def config_file(root, tmp_path):
    path = tmp_path / "tiny.yml"
    path.write_text(CONFIG.replace("ROOT", str(root)))
    return path


def test_a_small_network_learns_discs_and_squares_from_files_and_can_be_exported(config_file, root, tmp_path):
    run = tmp_path / "run"
    # OpenCV 4 and 5 draw and resize a little differently; this seed learns with both.
    train(config_file, ["runtime.seed=1"], runs=tmp_path, name="run")
    figures = evaluate_weights(run)
    assert figures["mIoU"] > 0.75 and figures["IoU/disc"] > 0.6 and figures["IoU/square"] > 0.6, figures
    assert json.loads((run / "metrics.json").read_text())["mIoU"] == figures["mIoU"]
    assert sorted(p.name for p in (run / "pictures").iterdir()) == ["000.jpg", "worst"]

    report = export_run(run, tmp_path / "export")
    assert not report.fixed_shapes
    image = root / "val/images/000.png"
    found = {}
    for source in (run, tmp_path / "export"):
        drawn = infer_files(open_model(source), [image], tmp_path / source.name / "out")
        assert [p.name for p in drawn.pictures] == ["000.jpg"]
        found[source.name] = decode_labels((tmp_path / source.name / "out/000.png").read_bytes(), "000.png")
    # Batch norm is folded into the convolutions: a pixel between two classes may tip over, others may not.
    assert (found["run"] == found["export"]).mean() > 0.999
    truth = decode_labels((root / "val/labels/000.png").read_bytes(), "000.png")
    assert (found["run"] == truth)[truth != 255].mean() > 0.9
    (shares,) = json.loads((tmp_path / "run/out/predictions.json").read_text()).values()
    assert next(iter(shares)) == "ground" and sum(shares.values()) == pytest.approx(1, abs=1e-4)


def test_a_checked_config_runs_both_steps(config_file):
    check_runs(read_config(config_file))


def test_a_check_goes_through_every_evaluation_set(config_file, root):
    other = "data.more_eval={other: {dataset: {type: ImageLabelPairs, root: ROOT, images: val/images, labels: TRUTH}, "
    other = f"{other}transforms: [{{type: Normalize}}], batch_size: 4}}}}".replace("ROOT", str(root))
    check_runs(read_config(config_file, [other.replace("TRUTH", "val/labels")]))
    with pytest.raises(DataError, match="nowhere"):
        check_runs(read_config(config_file, [other.replace("TRUTH", "nowhere")]))


def test_a_run_trains_on_two_data_sets_in_their_shares(config_file, tmp_path):
    text = config_file.read_text()
    one = '{type: ImageLabelPairs, root: "${data.root}", images: train/images, labels: train/labels}'
    two = one.replace("train/", "val/")
    both = f"{{type: Joined, parts: [{one}, {two}]}}\n    order: {{type: Shares, weights: [3, 1]}}"
    config_file.write_text(text.replace(f"dataset: {one}", f"dataset: {both}"))
    task = build_task(read_config(config_file))
    with task.train_loader(seed=0, workers=0) as loader:
        seen = np.concatenate([batch["image_ids"] for batch in islice(loader.stream(), 80)])
    assert len(seen) == 20 * 32 and np.mean(seen < 24) == pytest.approx(0.75, abs=0.05)  # 3 deviations: 0.051
    train(config_file, ["runtime.steps=3"], runs=tmp_path, name="run")


@pytest.mark.parametrize(
    ("override", "match"),
    [
        ("model.num_classes=5", r"model\.num_classes: is 5 but data\.num_classes is 3; write"),
        ("data.train.batch_size=0", r"data\.train\.batch_size: is 0; it must be 1 or more"),
        ("data.train.batch_size=1", r"data\.train\.batch_size: is 1; DeepLabV3Plus pools whole images"),
        ("losses=[]", r"losses: is empty; name at least one loss"),
        ("losses[ce].class_weights=rare", r"class_weights"),
        ("losses=[{type: LovaszHinge}]", r"data\.num_classes: is 3; LovaszHinge is for background and foreground"),
        ("figures.boundary=1", r"figures: boundary is 1\.0; it must be 0 or more and below 1"),
        ("losses[ce].class_weights=[1, 2]", r"class_weights: has 2 numbers but data\.num_classes is 3"),
        ("inference.stride=600", r"inference: window is 512, stride 600 and together 8; needed is 1 <= stride"),
        ("data.train.transforms[crop].type=RandomIoUCrop", r"'RandomIoUCrop' is a transform of suite 'detection'"),
        ("losses[ce].smooth=0.1", r"CrossEntropy takes no 'smooth'"),
    ],
)  # fmt: skip
def test_wrong_configs_are_refused(config_file, override, match):
    with pytest.raises(ConfigError, match=match):
        read_config(config_file, [override])


def test_a_wrong_number_of_classes_names_both(config_file):
    task = build_task(read_config(config_file, ["data.num_classes=4"]))
    with pytest.raises(
        ConfigError, match=r"data\.num_classes is 4 but data\.train\.dataset has 3 classes \(ground, disc"
    ):
        task.train_loader(seed=0, workers=0)


def test_a_task_needs_no_data_until_it_is_asked_for(config_file):
    task = build_task(read_config(config_file, ["data.root=nowhere"]))
    assert task.main_metric == "mIoU" and task.train_inputs == ("images", "labels")


def test_several_losses_and_outputs_are_terms_of_their_own(config_file):
    task = build_task(read_config(config_file, ["losses=[{type: CrossEntropy}, {type: Dice, weight: 0.5}]"]))
    batch = next(iter(task.train_loader(seed=0, workers=0)))
    inputs = {name: from_numpy(batch[name]) for name in task.train_inputs}
    with no_grad():
        assert set(task.train_step(inputs)) == {"loss_CrossEntropy", "loss_Dice"}
        single, outputs = task.train_step(inputs), type(task.model).outputs
        task.model.outputs = lambda images: outputs(task.model, images) * 2
        task.model.loss_weights = (1.0, 0.4)
        double = task.train_step(inputs)
    assert float(double["loss_Dice_output1"].mean) == pytest.approx(0.4 * float(single["loss_Dice"].mean), rel=1e-4)


def test_class_weights_are_counted_over_the_training_set_before_training(config_file, root, tmp_path, capsys):
    settings = [
        "losses[ce].class_weights=inverse_log",
        "runtime.steps=1",
        'optimizer.lr_multipliers={"backbone.*": 0.1}',
    ]
    settings += ["figures.boundary=0.02"]
    train(config_file, settings, runs=tmp_path, name="weighed")
    said = capsys.readouterr().out
    assert "counting the pixels of each class in 24 label maps" in said
    assert re.search(r"CrossEntropy: pixels count \w+ [\d.]+, \w+ [\d.]+, \w+ [\d.]+\n", said)
    assert 0 <= json.loads((tmp_path / "weighed/metrics.json").read_text())["boundary_F1"] <= 1
    task = build_task(read_config(config_file, settings))
    task.begin(None, lambda line: None, 0)  # where nothing is trained, a few are enough
    maps = [decode_labels(path.read_bytes(), path.name) for path in sorted((root / "train/labels").iterdir())[:20]]
    wanted = ClassCounts(maps, 3).weights("inverse_log")
    np.testing.assert_array_equal(task._losses[0]._table, wanted)
    assert wanted[0] < wanted[1] and wanted[0] < wanted[2]


def test_predictions_come_back_in_the_images_own_pixels():
    processor = SegmentationProcessor([Letterbox(32), Normalize()], ["a", "b"], [[0] * 3] * 2)
    image = np.zeros((64, 32, 3), np.uint8)  # halved, with 8 columns beside
    batch = processor.prepare([image])
    assert batch["images"].shape == (1, 32, 32, 3)
    labels = np.zeros((1, 32, 32), np.uint8)
    labels[:, :16] = 1
    labels[:, :, :8] = 7  # on the border, which the image has not
    (result,) = processor.results({"labels": labels}, batch)
    assert result.shape == (64, 32) and (result[:32] == 1).all() and (result[32:] == 0).all()
    assert processor.summary(result) == {"a": 0.5, "b": 0.5}
    assert processor.draw(image, result).shape == (512, 256, 3)
    assert SegmentationProcessor.from_metadata(processor.metadata()).metadata() == processor.metadata()
    with pytest.raises(CheckpointError, match="do not fit: 'class_names'"):
        SegmentationProcessor.from_metadata({"transforms": []})


class Brightness:
    """Two logits of each pixel: 0 and how much brighter than one half its red is."""

    def __call__(self, images):
        from framework import ops

        red = ops.slice(images, starts=(0,), ends=(1,), axes=(3,))
        return ops.concat([red * 0.0, red - 0.5], axis=3)


@pytest.mark.parametrize("inference", [Labelling(flip=True), Labelling(scales=(1.0, 1.0))])
def test_looking_twice_agrees_with_the_whole_image_where_pixels_do_not_see_each_other(inference):
    images = from_numpy(np.random.default_rng(0).random((2, 13, 21, 3), np.float32))
    whole = Labelling().outputs(Brightness(), images)["labels"].numpy()
    np.testing.assert_array_equal(inference.outputs(Brightness(), images)["labels"].numpy(), whole)
    assert whole.dtype == np.uint8 and 0 < whole.mean() < 1


def test_passes_add_probabilities_and_not_logits():
    class Halves:
        def __call__(self, images):
            left, right = np.array([3, 2, -20], np.float32), np.array([-20, 2, 3], np.float32)
            return from_numpy(np.broadcast_to(np.repeat([left, right], 4, axis=0), (1, 8, 8, 3)).copy())

    images = from_numpy(np.zeros((1, 8, 8, 3), np.float32))
    assert (
        1 not in Labelling(flip=True).outputs(Halves(), images)["labels"].numpy()
    )  # the sum of logits would say 1 everywhere


def test_scales_are_added_at_the_images_size():
    """Of an image that is bright on its left half, each scale finds the same halves."""
    images = np.zeros((1, 12, 16, 3), np.float32)
    images[:, :, :8] = 1
    for scales in ((0.5,), (0.5, 1.0, 1.75)):
        found = Labelling(scales=scales, flip=True).outputs(Brightness(), from_numpy(images))["labels"].numpy()
        assert found.shape == (1, 12, 16)
        assert (found[:, :, :7] == 1).all() and (found[:, :, 9:] == 0).all()
    for wrong in ((), (1.0, 0.0)):
        with pytest.raises(AttributeValueError, match="scales are"):
            Labelling(scales=wrong)


def test_a_sliding_config_is_trained_and_evaluated(config_file, tmp_path):
    settings = ["inference={mode: slide, window: 32, stride: 16, flip: true}", "runtime.steps=1"]
    train(config_file, settings, runs=tmp_path, name="slid")
    assert 0 <= json.loads((tmp_path / "slid/metrics.json").read_text())["mIoU"] <= 1
    assert read_image(tmp_path / "slid/pictures/000.jpg").shape[2] == 3


def test_a_damaged_image_and_a_damaged_label_map_are_passed_over(tmp_path, capsys):
    write_scenes(tmp_path, "train", 9, seed=1)
    write_scenes(tmp_path, "val", 4, seed=2)
    (tmp_path / "train/images/003.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "val/labels/000.png").write_bytes(b"")
    (tmp_path / "c.yml").write_text(CONFIG.replace("ROOT", str(tmp_path)))
    train(tmp_path / "c.yml", ["runtime.steps=2", "runtime.data.max_skipped=0.3"], runs=tmp_path, name="run")
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["skipped"] == 1 and 0 <= metrics["mIoU"] <= 1
    said = capsys.readouterr().out
    assert "training: 1 of 9 samples could not be used: sample 3 (" in said and "003.png: cut off after 8 bytes" in said
    assert "evaluation: 1 of 4 samples could not be used: sample 0 (" in said


def test_one_damaged_photo_of_32_of_an_evaluation_set_ends_no_training(tmp_path, capsys):
    write_scenes(tmp_path, "train", 8, seed=1)
    write_scenes(tmp_path, "val", 32, seed=2)
    damaged = tmp_path / "val/images/007.png"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    (tmp_path / "c.yml").write_text(CONFIG.replace("ROOT", str(tmp_path)))
    train(tmp_path / "c.yml", ["runtime.steps=1"], runs=tmp_path, name="run")
    assert json.loads((tmp_path / "run/metrics.json").read_text())["skipped"] == 1
    assert "evaluation: 1 of 32 samples could not be used: sample 7 (" in capsys.readouterr().out


def test_images_of_several_sizes_are_evaluated_as_one_by_one(config_file, root, tmp_path):
    place = tmp_path / "sizes"
    shutil.copytree(root, place)
    for at, size in enumerate([(40, 56), (40, 56), (48, 64)]):
        image, labels = scene(np.random.default_rng(at), size)
        write_image(place / f"val/images/x{at}.png", image)
        (place / f"val/labels/x{at}.png").write_bytes(encode_labels(labels, PALETTE))
    options = [f"data.root={place}", "data.eval.transforms=[{type: Normalize}]"]
    found = []
    for batch_size in (1, 4):
        task = build_task(read_config(config_file, [*options, f"data.eval.batch_size={batch_size}"]))
        loader = task.eval_loader(workers=0)
        found.append((len(loader), evaluate(task, predict_of(task), loader)["mIoU"]))
    (alone, one), (together, four) = found
    assert together < alone and four == pytest.approx(one, abs=1e-6)


def test_own_data_of_small_pictures_is_not_padded_to_the_crop(tmp_path):
    """The shipped configs for own data, on pictures of 120 x 100: most of a batch is picture."""
    for part in ("train", "val"):
        write_scenes(tmp_path, part, 8, size=(120, 100))
    for name in ("photos", "unet_pairs", "deeplabv3p_mobilenetv2_pairs"):
        overrides = [f"data.root={tmp_path}", "data.num_classes=3", "data.train.batch_size=4"]
        task = build_task(read_config(Path(f"segmentation/{name}"), overrides))
        images = next(iter(task.train_loader(seed=0, workers=0)))
        assert images["images"].shape == (4, 128, 128, 3), name
