"""A direction classifier learns from upright lines alone, and says which way up a line is."""

import numpy as np
import pytest

from framework import from_numpy, no_grad
from framework.errors import AttributeValueError, ConfigError
from suites.engine.predict.items import batches_of
from suites.ocr.datasets import LineList
from suites.ocr.decoding import Beam
from suites.ocr.metrics import ToldDirections
from suites.ocr.models.direction import LineDirection
from suites.ocr.page import Reading
from suites.ocr.problems.base import How
from suites.ocr.problems.direction import DirectionProblem, collate_both_ways
from suites.ocr.processor import DirectionProcessor, OcrProcessor
from suites.ocr.sample import LineSample
from suites.ocr.settings import EvalData, TrainData
from suites.ocr.task import OcrTask
from tests.suites.learning import losses_by_heart
from tests.suites.ocr.test_datasets import icdar
from tests.suites.ocr.test_training import lines


def direction_task(root, **given):
    data = LineList(lines(root, ("L7", "4L", "7A", "LA", "AL", "47")), "list.txt")
    train, held = TrainData(dataset=data, batch_size=6, **given), EvalData(dataset=data, batch_size=4)
    return OcrTask(LineDirection(), train, held)


def test_each_line_is_shown_upright_and_then_upside_down():
    image = np.random.default_rng(0).integers(0, 255, (48, 192, 3), dtype=np.uint8)
    batch = collate_both_ways([LineSample(image=image, text="a", number=3)] * 2)
    assert batch["down"].tolist() == [0, 1, 0, 1] and batch["numbers"] == [3, 3, 3, 3]
    np.testing.assert_array_equal(batch["turned"][1], batch["turned"][0][::-1, ::-1])


def test_a_direction_is_learnt_by_heart_from_upright_lines_alone(tmp_path):
    task = direction_task(tmp_path)
    (batch,) = task.train_loader(seed=0, workers=0)
    found = losses_by_heart(task, batch, "direction", 100, 5e-3)
    assert found[-1] < 0.1 < 0.5 < found[0]
    metric = task.metric()  # six lines are all that its batch norms have seen
    with no_grad():
        for held in task.eval_loader(workers=0):
            metric.update(
                {"direction": task.eval_step({"turned": from_numpy(held["turned"])})["direction"].numpy()}, held
            )
    assert metric.result()["accuracy"] == 1.0


def test_figures_tell_what_is_left_alone_from_what_is_turned():
    metric = ToldDirections(0.9)
    assert metric.result() == {"accuracy": 0.0, "kept": 0.0, "turned": 0.0}
    down = np.array([0.2, 0.95, 0.6, 0.8], np.float32)
    metric.update({"direction": np.stack([1 - down, down], axis=1)}, {"numbers": [0, 0, 1, 1], "down": [0, 1, 0, 1]})
    assert metric.result() == {"accuracy": 0.75, "kept": 1.0, "turned": 0.5}
    assert [(case.index, case.why) for case in metric.worst(3)["Worst lines"]] == [
        (1, "upright, told upside down: 0.600")
    ]


def test_the_processor_of_an_export_is_that_of_the_run():
    again = OcrProcessor.from_metadata(DirectionProcessor(0.7).metadata())
    assert isinstance(again, DirectionProcessor) and again.metadata() == {"kind": "direction", "turn_score": 0.7}


def test_a_line_that_is_surely_upside_down_is_told_so_as_a_page_turns_it():
    processor = DirectionProcessor(0.9)
    image = np.zeros((32, 64, 3), np.uint8)
    (shown,) = batches_of(processor, [image, image])
    assert shown["turned"].shape == (2, 48, 192, 3)
    found = processor.results({"direction": np.array([[0.05, 0.95], [0.15, 0.85]], np.float32)}, shown)
    assert [str(each) for each in found] == ["upside down", "upright"]
    assert [processor.summary(each)["score"] for each in found] == pytest.approx([0.95, 0.15])
    assert processor.lines(found[0]) == ["upside down 0.950"] and processor.draw(image, found[0]).ndim == 3


def test_settings_that_a_direction_classifier_has_no_use_for_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"reading\.beam: LineDirection has no use for it"):
        DirectionProblem(LineDirection(), How(reading=Reading(beam=Beam())))
    with pytest.raises(ConfigError, match=r"data\.train\.pool: is of lines to read; lines for their direction"):
        direction_task(tmp_path, pool=2).train_loader(seed=0, workers=0)


def test_pages_are_no_lines(tmp_path):
    from suites.ocr.datasets import IcdarText

    pages = IcdarText(str(icdar(tmp_path, "10,10,50,10,50,20,10,20,word")))
    task = OcrTask(LineDirection(), None, EvalData(dataset=pages))
    with pytest.raises(ConfigError, match="LineDirection: takes a LineList, and IcdarText is another kind"):
        task.eval_loader(workers=0)


@pytest.mark.parametrize("given", [{"turn_score": 0.4}, {"turn_score": float("nan")}, {"min_score": 1.5}])
def test_scores_out_of_their_range_are_refused(given):
    with pytest.raises(AttributeValueError, match="reading: turn_score is"):
        Reading(**given)
