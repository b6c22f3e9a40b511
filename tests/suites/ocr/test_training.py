"""Recognisers learn lines, detectors learn pages, and what is wrong with their data is said."""

import logging
from dataclasses import fields

import cv2
import numpy as np
import pytest

from framework import from_numpy, no_grad
from framework.errors import ConfigError, DataError, NotSupportedError
from suites.engine.contract.batch import POSITIONS
from suites.engine.predict.items import batches_of
from suites.ocr.alphabet import Alphabet
from suites.ocr.datasets import IcdarText, LineList
from suites.ocr.decoding import Beam
from suites.ocr.finding import Finding
from suites.ocr.losses import MapLoss
from suites.ocr.metrics import ReadLines
from suites.ocr.models.base import TextModel
from suites.ocr.models.crnn import Crnn
from suites.ocr.models.dbnet import DBNet
from suites.ocr.models.direction import LineDirection
from suites.ocr.models.reader import TextReader
from suites.ocr.models.svtr import SvtrLcnet
from suites.ocr.page import Reading
from suites.ocr.pixels import LineFrame
from suites.ocr.problems.base import How
from suites.ocr.problems.lines import LineProblem, collate_lines, columns_needed
from suites.ocr.processor import LineProcessor, OcrProcessor
from suites.ocr.sample import LineSample
from suites.ocr.settings import EvalData, TrainData
from suites.ocr.task import OcrTask
from suites.ocr.transforms import RandomTextCrop
from suites.vision.pictures.images import write_image
from tests.suites.learning import losses_by_heart
from tests.suites.ocr.test_datasets import icdar

WORDS = ("10", "21", "02", "12")


def lines(root, words=WORDS):
    """A list of pictures of these words, drawn."""
    rows = []
    for k, word in enumerate(words):
        image = np.full((32, 64, 3), 255, np.uint8)
        cv2.putText(image, word, (8, 24), cv2.FONT_HERSHEY_SIMPLEX, 0.9, (0, 0, 0), 2)
        write_image(root / f"{k}.png", image)
        rows.append(f"{k}.png\t{word}\n")
    (root / "list.txt").write_text("".join(rows), encoding="utf-8")
    return str(root)


def line_task(root, model):
    data = LineList(lines(root), "list.txt")
    train, held = TrainData(dataset=data, batch_size=4), EvalData(dataset=data, batch_size=4)
    return OcrTask(model, train, held, reading=Reading(line_width=64))


def test_a_recogniser_learns_lines_by_heart(tmp_path):
    task = line_task(tmp_path, Crnn("digits", channels=(8, 8, 16, 16, 32, 32, 32), hidden=32))
    (batch,) = task.train_loader(seed=0, workers=0)
    losses = losses_by_heart(task, batch, "ctc", 200, 5e-3)
    assert losses[-1] < 0.2 < 2.0 < losses[0]
    metric = task.metric()
    task.model.train()  # four lines are all that its batch norms have seen
    with no_grad():
        outputs = task.eval_step({"lines": from_numpy(batch["lines"])})
    metric.update({name: array.numpy() for name, array in outputs.items()}, batch)
    assert metric.result()["accuracy"] == 1.0


def test_a_line_is_evaluated_at_the_width_at_which_it_is_read(tmp_path):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (32, width, 3), np.uint8) for width in (20, 300, 70, 90, 21)]
    for k, image in enumerate(images):
        write_image(tmp_path / f"{k}.png", image)
    (tmp_path / "list.txt").write_text("".join(f"{k}.png\t{'1' * 60}\n" for k in range(5)))
    held = EvalData(dataset=LineList(str(tmp_path), "list.txt"), batch_size=5)
    model = Crnn("digits", channels=(8,) * 7, hidden=8)
    task = OcrTask(model, None, held, reading=Reading(line_width=64))
    (batch,) = task.eval_loader(workers=0)
    evaluated = {k: row for part in task.parts(batch) for k, row in zip(part["numbers"], part["lines"], strict=True)}
    together = {k: row for part in batches_of(task.processor(), images) for k, row in
                zip(part[POSITIONS], part["lines"], strict=True)}  # fmt: skip
    assert [evaluated[k].shape[1] for k in range(5)] == [64, 320, 96, 96, 64]
    for k, image in enumerate(images):
        (alone,) = batches_of(task.processor(), [image])
        np.testing.assert_array_equal(evaluated[k], alone["lines"][0])
        np.testing.assert_array_equal(together[k], alone["lines"][0])


@pytest.mark.parametrize("margin", [0, 64])
def test_lines_are_learnt_and_read_with_the_margin_behind_them(margin):
    frame, ink = LineFrame(32, 8, margin=margin), np.full((32, 100, 3), 255, np.uint8)
    samples = [LineSample(image=ink, text="1"), LineSample(image=ink[:, :40], text="2")]
    learnt = collate_lines(samples, alphabet=Alphabet("12"), frame=frame, step=8, lost=0)["lines"]
    assert learnt.shape[2] == 104 + margin  # the widest has its margin too
    processor = LineProcessor(Alphabet("12"), frame)
    again = OcrProcessor.from_metadata(processor.metadata())
    for each in (processor, again):
        widths = [batch["lines"].shape[2] for batch in each.batches([ink, ink[:, :40]])]
        assert widths == [128 + margin, 64 + margin]
    batch = collate_lines(samples[:1], alphabet=Alphabet("12"), frame=frame, step=8, lost=0, alone=True)
    assert batch["lines"].shape[2] == 128 + margin  # as it is read


def test_columns_are_one_a_character_and_a_blank_between_equal_ones():
    assert columns_needed(np.array([1, 2, 3])) == 3 and columns_needed(np.array([1, 1, 2, 2])) == 6
    assert columns_needed(np.zeros(0, np.int64)) == 0


def test_a_batch_is_wide_enough_for_its_longest_text():
    image = np.zeros((48, 48, 3), np.uint8)
    samples = [LineSample(image=image, text="1" * 30), LineSample(image=image, text="12")]
    batch = collate_lines(samples, alphabet=Alphabet("12"), frame=LineFrame(48, 16), step=8, lost=0)
    columns = batch["columns"][1]
    assert batch["lines"].shape == (2, 48, 8 * columns, 3) and columns >= 59
    assert batch["label_offsets"].tolist() == [0, 30, 32] and len(batch["labels"]) == 32


def test_a_text_that_cannot_stand_in_its_picture_makes_no_batch_as_wide_as_it_asks():
    image = np.zeros((48, 48, 3), np.uint8)
    samples = [LineSample(image=image, text="1" * 2000), LineSample(image=image, text="12")]
    batch = collate_lines(samples, alphabet=Alphabet("12"), frame=LineFrame(48, 16), step=8, lost=0)
    assert batch["lines"].shape == (2, 48, 16 * 48, 3)


def test_a_text_that_cannot_stand_in_its_picture_is_told(tmp_path):
    problem = LineProblem(SvtrLcnet("=01"), How(None, Reading(), None))
    write_image(tmp_path / "long.png", np.zeros((48, 100, 3), np.uint8))
    (tmp_path / "long.txt").write_text("long.png\t" + "1" * 2000 + "\nlong.png\t10\n")
    (said,) = problem.check(LineList(str(tmp_path), "long.txt"), "training set")
    assert "training set: 1 of 2 lines have more text than their pictures have room for, and are not learnt" in said
    assert "long.png has 2000 characters in 100 columns of pixels" in said


def test_a_line_of_two_thousand_characters_is_read_and_one_beyond_the_bound_refused():
    assert LineFrame(48, 320).batch([np.zeros((20, 20_000, 3), np.uint8)]).shape == (1, 48, 48_000, 3)
    with pytest.raises(DataError, match="line: is 2000 times as wide as high; up to 1365 are read"):
        LineFrame(48, 320).batch([np.zeros((1, 2000, 3), np.uint8)])


def test_characters_that_the_alphabet_lacks_are_counted_and_named(tmp_path, caplog):
    task = line_task(tmp_path, SvtrLcnet("=01"))
    with caplog.at_level(logging.WARNING):
        (batch,) = task.parts(next(iter(task.eval_loader(workers=0))))
    assert "evaluation set: 3 of 4 lines have characters that the alphabet lacks" in caplog.text
    assert "'2' in 3" in caplog.text and len(batch["labels"]) == 5


def test_lines_of_which_no_character_is_known_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"no character of its 4 lines is in the alphabet \(1 characters\)"):
        next(iter(line_task(tmp_path, SvtrLcnet("=x")).eval_loader(workers=0)))


def test_figures_of_lines_merge():
    one, other, whole = (ReadLines(Alphabet("abc")) for _ in range(3))
    outputs = {"characters": np.array([[1, 0, 2]]), "scores": np.ones((1, 3), np.float32)}
    for metric, text in ((one, "ab"), (other, "abc"), (whole, "ab"), (whole, "abc")):
        metric.update(outputs, {"numbers": [0], "texts": [text]})
    one.merge(other.state())
    assert one.result() == whole.result() == {"accuracy": 0.5, "1-NED": pytest.approx(1 - 1 / 6)}
    assert [case.why for case in one.worst(5)["Worst lines"]] == ["'abc' read as 'ab'"]
    assert ReadLines(Alphabet("a")).result() == {"accuracy": 0.0, "1-NED": 0.0}


def page_data(root):
    return IcdarText(str(icdar(root, "10,10,50,10,50,20,10,20,word")))


def test_a_detector_takes_pages_and_gives_a_gradient_to_every_weight(tmp_path):
    data = page_data(tmp_path)
    train = TrainData(dataset=data, batch_size=1, transforms=[RandomTextCrop(64, scale=(1.0, 1.0))])
    task = OcrTask(DBNet(), train, EvalData(dataset=data))
    batch = next(iter(task.train_loader(seed=0, workers=0)))
    task.model.train()
    terms = task.train_step({name: from_numpy(batch[name]) for name in task.train_inputs})
    assert sorted(terms) == ["binary", "text", "threshold"]
    (terms["binary"].mean + terms["text"].mean + terms["threshold"].mean).backward()
    assert all(parameter.grad is not None for _, parameter in task.model.named_parameters())
    (held,) = task.eval_loader(workers=0)
    (part,) = task.parts(held)
    assert part["images"].shape[3] == 3 and part["sample"].texts == ("word",)


def test_sections_that_a_network_has_no_use_for_are_refused():
    with pytest.raises(ConfigError, match="finding: Crnn has no use for it; leave it out"):
        OcrTask(Crnn("digits"), finding=Finding())
    with pytest.raises(ConfigError, match="loss: Crnn has no use for it"):
        OcrTask(Crnn("digits"), loss=MapLoss())
    with pytest.raises(ConfigError, match="loss: TextReader has no use for it"):
        OcrTask(TextReader(DBNet(thresholds=False), SvtrLcnet("digits")), loss=MapLoss())


def test_data_of_another_kind_and_parts_alone_are_refused(tmp_path):
    wrong = EvalData(dataset=page_data(tmp_path))
    with pytest.raises(ConfigError, match="Crnn: takes a LineList, and IcdarText is another kind of data set"):
        OcrTask(Crnn("digits"), eval=wrong).eval_loader(workers=0)
    with pytest.raises(ConfigError, match="TextModel: finds, turns and reads no text, so there is no task for it"):
        OcrTask(TextModel())
    reader = OcrTask(
        TextReader(DBNet(thresholds=False), SvtrLcnet("digits")), TrainData(dataset=wrong.dataset, batch_size=1)
    )
    with pytest.raises(NotSupportedError, match="put together from trained networks"):
        reader.train_loader(seed=0, workers=0)
    with pytest.raises(ConfigError, match="TextReader: Crnn is no TextDetector"):
        TextReader(Crnn("digits"), SvtrLcnet("digits"))


@pytest.mark.parametrize(
    ("model", "used"),
    [
        (lambda: DBNet(), {"least_side", "most_side", "flatness"}),
        (lambda: Crnn("digits", channels=(8,) * 7, hidden=8), {"line_width", "line_margin", "beam"}),
        (lambda: LineDirection(), {"turn_score"}),
    ],
)
def test_a_setting_of_reading_that_a_network_has_no_use_for_is_refused(model, used):
    others = {"least_side": 64, "most_side": 96, "flatness": 2.0, "together": 2, "line_width": 16, "line_margin": 8,
              "turn_score": 0.6, "min_score": 0.1, "beam": Beam()}  # fmt: skip
    assert set(others) == {each.name for each in fields(Reading)}
    for name, value in others.items():
        if name in used:
            OcrTask(model(), reading=Reading(**{name: value}))
        else:
            with pytest.raises(ConfigError, match=rf"reading\.{name}: \w+ has no use for it; leave it out"):
                OcrTask(model(), reading=Reading(**{name: value}))
