"""Objects and config files are two ways to the same run."""

import json
from functools import partial

import numpy as np
import pytest

from framework import nn, optim
from framework.errors import ConfigError
from suites import detection, engine
from suites.engine.config import build_value, plain
from suites.engine.config.building import build_task, read_config
from suites.engine.config.settings import EvaluationSettings
from suites.engine.contract.capabilities import evaluations
from suites.engine.contract.processor import with_min_score
from suites.engine.predict.evaluation import evaluate, predict_of
from suites.engine.predict.inference import open_model
from suites.engine.train.training import evaluate_weights, train
from suites.vision.augmentation.pipeline import Transform


def small(**options):
    head = engine.Factory.of(detection.YOLOv3Head, num_classes=10)
    model = detection.YOLOv3(detection.MobileNetV1(out_strides=[8, 16, 32], scale=0.25), head)
    data = {"size": 96, "max_side": 48}
    return detection.DetectionTask(
        model=model,
        train=detection.TrainData(
            dataset=detection.DigitScenes("train", 16, **data),
            transforms=[detection.RandomFlip(prob=0.25), detection.Normalize()],
            batch_size=8,
        ),
        eval=detection.EvalData(
            dataset=detection.DigitScenes("val", 8, **data), transforms=[detection.Normalize()], batch_size=4
        ),
        **options,
    )


def trainer(task, base_lr=0.01, **settings):
    optimizer = partial(optim.Momentum, momentum=0.9)
    return engine.Trainer(
        task, optimizer=optimizer, schedule=partial(optim.Cosine, base_lr=base_lr), workers=0, **settings
    )


def test_ten_lines_train_a_model_that_loads_and_predicts(tmp_path):
    loop = trainer(small(), epochs=1).fit(tmp_path / "mine")
    assert loop.step == 2
    model = engine.load(tmp_path / "mine")
    found = model([np.zeros((96, 96, 3), np.uint8), np.zeros((64, 96, 3), np.uint8)])
    assert len(found) == 2 and isinstance(found[0].to_json(), list)
    assert found[0].draw().shape[2] == 3 and found[0]._repr_png_().startswith(b"\x89PNG")


def test_the_least_score_of_a_run_can_be_changed_for_inference(tmp_path):
    trainer(small(min_score=0.9), steps=1).fit(tmp_path / "mine")
    assert open_model(tmp_path / "mine").processor.metadata()["min_score"] == 0.9
    processor = open_model(tmp_path / "mine", overrides=["min_score=0.2"]).processor
    assert processor.metadata()["min_score"] == 0.2
    assert with_min_score(processor, 0.0).metadata() == {**processor.metadata(), "min_score": 0.0}
    with pytest.raises(ConfigError, match=r"--min-score is 2; a score lies between 0 and 1"):
        with_min_score(processor, 2)


def test_a_run_made_of_objects_is_repeated_from_its_config_file(tmp_path):
    task = small()
    loop = trainer(task, steps=3, seed=5).fit(tmp_path / "objects")
    again = train(tmp_path / "objects" / "config.yml", runs=tmp_path, name="file")
    for name, tensor in loop.task.model.state_dict().items():
        assert tensor.numpy().tobytes() == again.task.model.state_dict()[name].numpy().tobytes(), name


def test_a_task_and_its_config_are_the_same():
    written = small(min_score=0.5).to_config()
    assert written["model"]["backbone"] == {"type": "MobileNetV1", "out_strides": [8, 16, 32], "scale": 0.25}
    assert written["data"]["train"]["transforms"] == [{"type": "RandomFlip", "prob": 0.25}, {"type": "Normalize"}]
    assert written["min_score"] == 0.5 and written["suite"] == "detection"
    rest = {"optimizer": {"type": "SGD"}, "schedule": {"type": "Constant", "base_lr": 0.1}, "runtime": {"steps": 1}}
    config = engine.train.trainer.Config.from_dict({**written, **rest})
    config.check()
    assert build_task(config).to_config()["data"]["eval"] == written["data"]["eval"]


def test_what_is_built_of_a_config_is_written_as_it_was():
    values = [{"type": "Resize", "size": [32, 64]}, {"type": "ColorDistort", "hue": [-9.0, 9.0]}]
    made = build_value(values, list[Transform], suite="detection")
    assert plain(made, suite="detection") == values


def test_a_class_that_no_config_can_name_is_refused_with_what_to_do():
    class Mine(detection.Resize):
        pass

    task = small()
    task.train_data.transforms.append(Mine(8))
    with pytest.raises(ConfigError, match=r"Mine is not registered, so no config can name it; put @register"):
        trainer(task, epochs=1)


def test_a_model_that_somebody_drew_or_loaded_keeps_its_weights(tmp_path):
    task = small()
    nn.init.initialize(task.model, 77)
    before = {name: t.numpy().copy() for name, t in task.model.state_dict().items()}
    from suites.engine.train.trainer import untouched

    assert not untouched(task.model) and untouched(small().model)
    loop = trainer(task, steps=1, seed=3, base_lr=1e-9).fit(tmp_path / "mine")
    name, value = next(iter(before.items()))
    np.testing.assert_allclose(loop.task.model.state_dict()[name].numpy(), value, atol=1e-5)


def test_a_task_without_data_says_so():
    task = detection.DetectionTask(model=small().model)
    with pytest.raises(ConfigError, match=r"it has no data to train on; give it train="):
        task.train_loader(seed=0, workers=0)


def test_a_suite_offers_what_its_configs_can_name():
    assert {"YOLOv3", "VocDetection", "RandomIoUCrop", "DetectionTask", "TrainData", "Momentum"} <= set(dir(detection))
    with pytest.raises(AttributeError, match="suite 'detection' has no 'YOLOv4'; did you mean 'YOLOv3'"):
        _ = detection.YOLOv4


def test_classes_of_data_and_model_must_agree_without_a_number_in_the_config(tmp_path):
    head = engine.Factory.of(detection.YOLOv3Head, num_classes=3)
    model = detection.YOLOv3(detection.MobileNetV1(out_strides=[8, 16, 32], scale=0.25), head)
    data = detection.EvalData(dataset=detection.DigitScenes("val", 8), transforms=[], batch_size=1)
    with pytest.raises(ConfigError, match=r"data.num_classes is 3 but data.eval.dataset has 10 classes"):
        detection.DetectionTask(model=model, eval=data).eval_loader(workers=0)


def test_figures_of_objects_are_those_of_the_run(tmp_path):
    task = small()
    trainer(task, steps=2).fit(tmp_path / "mine")
    opened = build_task(read_config(tmp_path / "mine"))
    opened.model.load_state_dict(task.model.state_dict())
    with task.eval_loader(workers=0) as own, opened.eval_loader(workers=0) as other:
        assert evaluate(task, predict_of(task), own) == evaluate(opened, predict_of(opened), other)


def test_named_evaluation_sets_have_figures_of_their_own_and_may_decide(tmp_path):
    test = detection.EvalData(
        dataset=detection.DigitScenes("test", 4, size=96, max_side=48), transforms=[detection.Normalize()], batch_size=4
    )
    settings = EvaluationSettings(main="test/AP", pictures=0)
    task = small(more_eval={"test": test})
    loop = trainer(task, steps=2, evaluation=settings).fit(tmp_path / "mine")
    figures = json.loads((tmp_path / "mine/metrics.json").read_text())
    assert {"AP", "test/AP", "AP50", "test/AP50"} <= figures.keys()
    assert "test/AP " in (tmp_path / "mine/log.txt").read_text()
    again = evaluate_weights(tmp_path / "mine")  # of the config that was written
    assert again["test/AP"] == figures["test/AP"] and evaluations(loop.task).keys() == {"", "test"}
