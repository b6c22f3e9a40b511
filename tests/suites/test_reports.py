"""The page of a run of each suite has its mistakes and what its data held, counted without another pass."""

import json
import re

import pytest

from suites.engine.cli import report
from suites.engine.train.training import evaluate_weights, train
from tests.suites.classification.test_task import config_file as wedges  # noqa: F401  (fixtures)
from tests.suites.ctr.test_task import folder as clicks  # noqa: F401
from tests.suites.detection.test_task import CONFIG as DIGITS
from tests.suites.detection.test_task import config_file as digits  # noqa: F401
from tests.suites.nlp.test_task import BAGS, REST, bert_file, config_file
from tests.suites.nlp.test_task import folder as texts  # noqa: F401
from tests.suites.video.test_task import config_file as clips  # noqa: F401

pytestmark = pytest.mark.pages


def page_of(path, *settings, runs):
    """The page of a run of a few steps, its titles, and what the data held."""
    train(path, ["runtime.log_every=1", *settings], runs=runs, name="mine")
    page = (runs / "mine/report.html").read_text()
    notes = set(re.findall(r'class="note">([^:<]*)', page))  # a few steps need not find every class
    assert len(page) < 4 << 20 and notes <= {"never predicted, though the evaluation set has them"}
    return page, re.findall(r"<h2>([^<]*)</h2>", page), json.loads((runs / "mine/data.json").read_text())


def test_detection(digits, tmp_path):  # noqa: F811
    page, titles, held = page_of(digits, "min_score=0.01", "runtime.evaluation.pictures=3", runs=tmp_path)
    assert "Worst misses" in titles and "Data" in titles
    assert re.search(r"<figcaption>[^<]+: \d of \d+ x \d+ pixels", page)
    assert "Confusions of boxes, %, score 0.01 and IoU 0.5" in page and "(background)" in page
    assert "Precision of boxes by class" in page and "side of an object, pixels" in page
    samples, whole, counts = held["train"]["names"]["objects"]
    assert (samples, whole) == (8, True) and sum(counts.values()) > 0 and held["eval"]["names"]["objects"][0] == 3


def test_classification(wedges, tmp_path):  # noqa: F811
    page, titles, held = page_of(wedges, "runtime.steps=1", runs=tmp_path)
    assert "Most confident mistakes" in titles and re.search(
        r"<figcaption>[^<]*wedges/[abc]/\S+png: [abc] 0.\d\d, but", page
    )
    assert held["train"]["names"]["samples"] == [27, True, {"a": 9, "b": 9, "c": 9}]
    assert held["eval"]["names"]["samples"][2] == {"a": 3, "b": 3, "c": 3}
    before = json.loads((tmp_path / "mine/pictures/worst/cases.json").read_text())
    (tmp_path / "mine/pictures/worst/cases.json").unlink()
    evaluate_weights(tmp_path / "mine")  # an evaluation by hand shows its cases too
    assert json.loads((tmp_path / "mine/pictures/worst/cases.json").read_text()) == before


def test_clips(clips, tmp_path):  # noqa: F811
    page, titles, held = page_of(clips, "runtime.steps=1", runs=tmp_path)
    assert "Most confident mistakes" in titles and '<figure class="wide"><img' in page
    assert sum(held["eval"]["names"]["samples"][2].values()) == held["eval"]["names"]["samples"][0]


def test_texts_with_rows_that_are_wrong(texts):  # noqa: F811
    with (texts / "train.tsv").open("a") as file:
        file.write("good\ta\t<script>alert(1)</script>\n")
    head, *rows = (texts / "dev.tsv").read_text().splitlines()
    rows = [row.replace("\t", "\t<script>x()</script> & ") for row in rows]
    (texts / "dev.tsv").write_text("\n".join([head, *rows]) + "\n")
    page, titles, held = page_of(config_file(texts, BAGS + REST, 3, "1e-9", MODEL="BagOfWords"), runs=texts)
    assert "Most confident mistakes" in titles and "<script" not in page
    assert "&lt;script&gt;x()&lt;/script&gt; &amp;" in page
    samples, whole, counts = held["train"]["names"]["examples"]
    assert samples == 200 and whole and set(counts) == {"good", "bad"}
    assert held["train"]["skipped"] == 1 and "has 3 columns" in held["train"]["reasons"][0][1]
    assert "Left out or changed of train: 1" in page and held["train"]["sizes"]["tokens of a sequence"][0] == 200


def test_tags(texts):  # noqa: F811
    dataset = f"{{type: CharTags, path: {texts}/dev.bio}}"
    path = bert_file(texts, "TokenClassifier", dataset, "{type: Tagging, words: spaces}", 1, classes="2")
    page, titles, held = page_of(path, runs=texts)
    assert "Most wrong tags" in titles and '<mark class="wrong">' in page
    assert held["eval"]["names"]["chunks"][2].keys() == {"X"}
    assert sum(held["eval"]["sizes"]["words of a sentence"][2].values()) == 40


def test_questions(texts):  # noqa: F811
    dataset = f"{{type: SquadJson, path: {texts}/dev.json}}"
    path = bert_file(texts, "SpanPredictor", dataset, "{type: Reading}", 1, classes="null")
    page, titles, held = page_of(path, runs=texts)
    assert "Most confident mistakes" in titles and '<mark class="right">' in page
    assert held["train"]["names"]["questions"][2] == {"with an answer": 40, "without": 0}


def test_clicks(clicks):  # noqa: F811
    page, titles, held = page_of(clicks / "config.yml", runs=clicks)
    assert titles.count("Data") == 1 and "Calibration" in page
    samples, whole, counts = held["train"]["names"]["rows"]
    assert whole and counts["rows"] == samples > 300 and set(held) == {"train", "eval", "eval test"}
    assert 0 < next(count for name, count in counts.items() if name.endswith(" 1")) < samples


def test_pages_of_two_suites_stand_beside_each_other(wedges, tmp_path):  # noqa: F811
    (tmp_path / "digits.yml").write_text(DIGITS)
    train(tmp_path / "digits.yml", ["runtime.steps=1"], runs=tmp_path, name="boxes")
    train(wedges, ["runtime.steps=1"], runs=tmp_path, name="classes")
    (tmp_path / "classes/data.json").write_text("[")
    assert report.main([str(tmp_path / "boxes"), str(tmp_path / "classes")]) == 0
    page = (tmp_path / "boxes/report.html").read_text()
    for title in ("Beside each other", "Evaluation of boxes", "Evaluation of classes", "Worst misses of boxes",
                  "Most confident mistakes of classes", "Data of boxes", "Run of classes"):  # fmt: skip
        assert f"<h2>{title}</h2>" in page, title
    assert "classes: data.json is damaged" in page and "Data of classes" not in page and len(page) < 4 << 20
