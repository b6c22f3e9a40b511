"""What a recogniser cannot learn of a set is told when the set is opened, for each recogniser that is registered."""

import logging

import numpy as np
import pytest

from suites.engine.registry import REGISTRY, load_suites
from suites.ocr.datasets import LineList
from suites.ocr.models.attention import AttentionReader
from suites.ocr.models.base import TextRecogniser
from suites.ocr.models.crnn import Crnn
from suites.ocr.page import Reading
from suites.ocr.problems.lines import columns_needed
from suites.ocr.settings import EvalData, TrainData
from suites.ocr.task import OcrTask
from suites.vision.pictures.images import write_image

load_suites(["ocr"])
_OCR = REGISTRY.owned_by("ocr")
READERS = [
    name
    for name in _OCR.names("text_model")
    if isinstance(found := _OCR.get("text_model", name), type) and issubclass(found, TextRecogniser)
]
# characters of a line, and columns of its picture of 32 rows
SIZES = [(1, 30), (39, 400), (40, 400), (79, 60), (80, 60), (200, 60), (255, 16), (300, 16), (600, 3000), (2000, 9000)]


def made(name):
    if name == "AttentionReader":
        return AttentionReader(Crnn("=01", channels=(8, 8, 8, 8, 8, 8, 8), hidden=8), hidden=8)
    return _OCR.get("text_model", name)("=01")


def list_of(root, texts):
    for k, (_, width) in enumerate(SIZES):
        write_image(root / f"{k}.png", np.zeros((32, width, 3), np.uint8))
    (root / "list.txt").write_text("".join(f"{k}.png\t{text}\n" for k, text in enumerate(texts)))
    return LineList(str(root), "list.txt")


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("alike", [False, True], ids=["varied", "equal neighbours"])
def test_the_lines_that_are_told_are_those_that_ctc_has_no_columns_for(name, alike, tmp_path, caplog):
    data = list_of(tmp_path, [("1" * 4000 if alike else "10" * 2000)[:length] for length, _ in SIZES])
    model = made(name)
    task = OcrTask(model, TrainData(dataset=data, batch_size=1), EvalData(dataset=data), reading=Reading(line_width=64))
    with caplog.at_level(logging.WARNING):
        loader = task.train_loader(seed=0, workers=0)
    told = [record.message for record in caplog.records if "have more text than" in record.message]
    count = 0
    for batch in loader:
        room = int(batch["columns"][1])
        count += columns_needed(batch["labels"]) > room
    assert count and told and f"training set: {count} of {len(SIZES)} lines have more text" in told[0]


def test_the_lines_that_an_attention_decoder_does_not_write_whole_are_told(tmp_path, caplog):
    data = list_of(tmp_path, ["10" * (length // 2) + "1" * (length % 2) for length, _ in SIZES])
    model = made("AttentionReader")
    task = OcrTask(model, None, EvalData(dataset=data), reading=Reading(line_width=64))
    with caplog.at_level(logging.WARNING):
        (*_,) = task.eval_loader(workers=0)
    longer = sum(length + 1 > model.longest for length, _ in SIZES)
    (said,) = [record.message for record in caplog.records if "model.longest" in record.message]
    assert f"evaluation set: {longer} of {len(SIZES)} lines are longer than the 39 characters" in said
    assert "2.png has 40 characters" in said
