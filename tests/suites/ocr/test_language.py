"""Lines read with a language: counted characters and a lexicon, by config, and carried by an export."""

import json

import numpy as np
import pytest

from framework.errors import AttributeValueError, ConfigError, DataError
from suites.ocr.alphabet import Alphabet
from suites.ocr.decoding import Beam, Language, Lexicon, beam, read_lines
from suites.ocr.models.attention import AttentionReader
from suites.ocr.models.crnn import Crnn
from suites.ocr.models.dbnet import DBNet
from suites.ocr.page import Reading
from suites.ocr.processor import OcrProcessor
from suites.ocr.task import OcrTask
from tests.suites.ocr.test_readers import THIN
from tests.suites.ocr.test_training import line_task

LETTERS = Alphabet("abcdefghijklmnopqrstuvwxyz ")


def columns(word, other, share=0.4):
    """Log probabilities [T, K] in which each letter of `word` has 1 - share and that of `other` has share."""
    found = np.full((2 * len(word), len(LETTERS) + 1), 1e-6)
    for k, (one, two) in enumerate(zip(LETTERS.encode(word), LETTERS.encode(other), strict=True)):
        found[2 * k, one] += 1 - share
        found[2 * k, two] += share
        found[2 * k + 1, 0] = 1.0
    return np.log(found / found.sum(axis=1, keepdims=True)).astype(np.float32)


def test_a_lexicon_decides_between_letters_that_look_alike():
    scores = columns("helio", "hello")
    assert beam(scores, LETTERS).text == "helio"
    assert beam(scores, LETTERS, judge=Lexicon(["hello", "help"])).text == "hello"
    assert beam(columns("helio", "hello", 0.001), LETTERS, judge=Lexicon(["hello"])).text == "helio"


def test_a_word_costs_once_and_one_that_only_begins_costs_at_its_end():
    lexicon = Lexicon(["help", "he"], penalty=3.0)
    pairs = (("", "h"), ("h", "e"), ("he", "l"), ("hel", "l"), ("hell", "o"))
    assert [lexicon(*pair) for pair in pairs] == [0, 0, 0, -3, 0]
    assert lexicon("hel", " ") == lexicon.ended("hel") == -3
    assert lexicon("help", " ") == lexicon.ended("x hell") == lexicon.ended("he") == lexicon("help ", "h") == 0


def written(root, **files):
    for name, text in files.items():
        (root / f"{name}.txt").write_text(text, encoding="utf-8")
    return {name: str(root / f"{name}.txt") for name in files}


def test_counted_texts_and_words_come_from_files(tmp_path):
    how = Beam(**written(tmp_path, texts="hello\nhello\n", lexicon=" hello \nhelp\n\n"))
    language = how.language(LETTERS)
    outputs = {"columns": columns("helio", "hello")[None]}
    assert read_lines(outputs, LETTERS, language)[0].text == "hello"
    again = Language.made(json.loads(json.dumps(language.metadata())), LETTERS)
    assert again.metadata() == language.metadata()
    assert again("hel", "l") == language("hel", "l") > language("hel", "i")
    with pytest.raises(DataError, match=r"nowhere\.txt"):
        Beam(texts="nowhere.txt").language(LETTERS)
    with pytest.raises(AttributeValueError, match="beam: width is 0"):
        Beam(width=0)


def test_a_task_reads_with_it_and_its_processor_carries_it(tmp_path):
    task = line_task(tmp_path, Crnn("digits", channels=THIN, hidden=16))
    ((batch,),) = map(task.parts, task.eval_loader(workers=0))
    files = written(tmp_path, lexicon="10\n")
    read = OcrTask(task.model, eval=task.eval_data, reading=Reading(line_width=64, beam=Beam(**files)))
    from framework import from_numpy, no_grad

    with no_grad():
        outputs = {k: v.numpy() for k, v in read.eval_step({"lines": from_numpy(batch["lines"])}).items()}
    assert outputs["columns"].shape == (*outputs["characters"].shape, 11)
    np.testing.assert_allclose(np.exp(outputs["columns"]).sum(-1), 1, atol=1e-5)
    metric = read.metric()
    metric.update(outputs, batch)
    metadata = json.loads(json.dumps(read.processor().metadata()))
    found = OcrProcessor.from_metadata(metadata)
    assert found.metadata() == metadata and found.results(outputs, batch) == read.processor().results(outputs, batch)


def test_networks_without_columns_of_ctc_refuse_it():
    reading = Reading(beam=Beam())
    with pytest.raises(ConfigError, match=r"reading\.beam: AttentionReader writes without CTC"):
        OcrTask(AttentionReader(Crnn("digits", channels=THIN, hidden=16)), reading=reading)
    with pytest.raises(ConfigError, match=r"reading\.beam: DBNet has no use for it"):
        OcrTask(DBNet(), reading=reading)
