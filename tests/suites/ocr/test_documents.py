"""Lines and paragraphs in reading order; hOCR and searchable PDFs say what was read, where it stands."""

import io
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pypdf
import pytest

from framework.errors import ConfigError
from suites.engine.predict.inference import Model, infer_files
from suites.ocr.documents import Line, hocr, plain, searchable_pdf
from suites.ocr.layout import paragraphs
from suites.ocr.page import INPUTS
from suites.vision.pictures.images import write_image
from tests.suites.ocr.helpers import page, played
from tests.suites.ocr.test_finding import box
from tests.suites.ocr.test_page import processor


def stacked(left, top, right, count, height=20, step=28):
    return [box(left, top + k * step, right, top + k * step + height) for k in range(count)]


def test_lines_that_follow_closely_are_a_paragraph():
    quads = np.stack([*stacked(10, 10, 300, 3), *stacked(10, 200, 300, 2)])
    assert paragraphs(quads) == [[[0], [1], [2]], [[3], [4]]]
    assert paragraphs(np.zeros((0, 4, 2), np.float32)) == []


def test_texts_side_by_side_are_a_line_in_its_order():
    quads = np.stack([box(120, 11, 200, 31), box(10, 10, 110, 30), box(10, 38, 150, 58)])
    assert paragraphs(quads) == [[[1, 0], [2]]]


def test_a_column_is_read_to_its_end_and_a_headline_first():
    left, right = stacked(10, 100, 280, 4), stacked(320, 100, 600, 4)
    mixed = [quad for pair in zip(left, right, strict=True) for quad in pair]
    quads = np.stack([*mixed, box(10, 20, 600, 60)])
    assert paragraphs(quads) == [[[8]], [[0], [2], [4], [6]], [[1], [3], [5], [7]]]


def test_a_large_line_and_an_upright_one_join_no_paragraph():
    quads = np.stack([*stacked(10, 10, 300, 2), box(10, 66, 300, 116)])
    assert paragraphs(quads) == [[[0], [1]], [[2]]]
    turned = np.roll(box(10, 66, 30, 300), -1, axis=0)
    assert len(paragraphs(np.stack([*stacked(10, 10, 300, 2), turned]))) == 2


def turned_page(quads, quarters, side=700):
    """Corners, from the upper left on as the writing stands, of a page that was turned clockwise by quarters."""
    for _ in range(quarters):
        quads = np.stack([side - quads[..., 1], quads[..., 0]], axis=-1)
    return quads


@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_a_page_on_its_side_or_upside_down_is_read_as_its_writing_stands(quarters):
    left, right = stacked(10, 100, 280, 4), stacked(320, 100, 600, 4)
    mixed = [quad for pair in zip(left, right, strict=True) for quad in pair]
    quads = np.stack([*mixed, box(10, 20, 300, 60), box(310, 20, 600, 60)])
    wanted = [[[8, 9]], [[0], [2], [4], [6]], [[1], [3], [5], [7]]]
    assert paragraphs(turned_page(quads, quarters)) == wanted
    lines = [Line(quad, f"{k}", 1.0) for k, quad in enumerate(turned_page(quads, quarters))]
    assert plain(lines) == "8 9\n\n0\n2\n4\n6\n\n1\n3\n5\n7\n"


def test_columns_of_writing_from_above_to_below_are_read_from_the_right():
    columns = [np.roll(quad, -1, axis=0) for quad in (box(10, 10, 30, 300), box(40, 10, 60, 300), box(70, 10, 90, 300))]
    assert paragraphs(np.stack(columns)) == [[[2], [1], [0]]]
    beside = [*stacked(110, 10, 500, 3), *stacked(110, 130, 500, 3)]
    assert paragraphs(np.stack([*columns, *beside])) == [[[2], [1], [0]], [[3], [4], [5]], [[6], [7], [8]]]


def test_a_line_that_is_taken_for_upside_down_stays_in_its_paragraph():
    quads = np.stack(stacked(10, 10, 300, 3))
    quads[1] = np.roll(quads[1], 2, axis=0)
    assert paragraphs(quads) == [[[0], [1], [2]]]


def test_a_thousand_texts_are_ordered():
    quads = np.stack([box(60 * (k % 25), 30 * (k // 25), 60 * (k % 25) + 20, 30 * (k // 25) + 20) for k in range(1000)])
    assert sorted(k for block in paragraphs(quads) for row in block for k in row) == list(range(1000))


def told():
    quads = [*stacked(10, 10, 210, 2), box(10, 150, 110, 170)]
    texts = ["a <b> & c", "naïve 漢字 𝒜", "end"]
    return [Line(quad, text, 0.9) for quad, text in zip(quads, texts, strict=True)]


def test_plain_text_has_an_empty_line_between_paragraphs():
    assert plain(told()) == "a <b> & c\nnaïve 漢字 𝒜\n\nend\n" and plain([]) == ""


def test_hocr_is_xml_with_paragraphs_lines_and_words():
    root = ET.fromstring(hocr(told(), (200, 300), 'x"1.png').partition("\n")[2].partition("\n")[2])
    found = {}
    for element in root.iter():
        found.setdefault(element.get("class"), []).append(element)
    assert found["ocr_page"][0].get("title") == 'image "x"1.png"; bbox 0 0 300 200'
    assert [e.get("title") for e in found["ocr_par"]] == ["bbox 10 10 210 58", "bbox 10 150 110 170"]
    assert len(found["ocr_line"]) == 3
    assert [e.text for e in found["ocrx_word"]] == ["a", "<b>", "&", "c", "naïve", "漢字", "𝒜", "end"]
    assert found["ocrx_word"][-1].get("title") == "bbox 10 150 110 170; x_wconf 90"
    assert len({e.get("id") for e in root.iter() if e.get("id")}) == 1 + 2 + 2 + 3 + 8


def test_a_turned_line_says_its_angle():
    quad = np.float32([[0, 100], [100, 0], [114, 14], [14, 114]])
    assert "textangle 45.0" in hocr([Line(quad, "up", 1.0)], (200, 200))


def test_a_pdf_says_what_was_read_under_its_picture():
    image = page((10, 10, 210, 30), size=(200, 300))
    data = searchable_pdf(told(), image)
    assert data == searchable_pdf(told(), image)
    (sheet,) = pypdf.PdfReader(io.BytesIO(data)).pages
    assert [float(side) for side in sheet.mediabox[2:]] == [144.0, 96.0]
    places = []
    sheet.extract_text(visitor_text=lambda text, cm, tm, font, size: places.append((text.strip(), tm[4], tm[5])))
    found = [place for place in places if place[0]]
    assert [text for text, _, _ in found] == ["a <b> & c", "naïve 漢字 𝒜", "end"]
    np.testing.assert_allclose(found[2][1:], (10 * 0.48, (200 - 170) * 0.48), atol=1e-2)
    (picture,) = sheet.images
    assert picture.data[:2] == b"\xff\xd8"
    assert not pypdf.PdfReader(io.BytesIO(searchable_pdf([], image))).pages[0].extract_text()


def test_infer_writes_what_is_asked_for(tmp_path, monkeypatch):
    write_image(tmp_path / "a.png", page((100, 100, 300, 140)))
    model = Model(processor(), INPUTS, played, lambda: played)
    infer_files(model, [tmp_path / "a.png"], tmp_path / "out", formats=["hocr", "pdf"])
    names = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert names == ["a.hocr", "a.jpg", "a.pdf", "a.txt", "predictions.json"]
    with pytest.raises(ConfigError, match="infer: --format doc: this model has hocr, pdf"):
        infer_files(model, [tmp_path / "a.png"], tmp_path / "out", formats=["doc"])
    monkeypatch.chdir(tmp_path)
    assert infer_files(model, [tmp_path / "a.png"], None, formats=["pdf"]).output == Path("predictions")
    assert (tmp_path / "predictions" / "a.pdf").exists()


def test_json_says_which_paragraph_a_text_is_of():
    from tests.suites.ocr.test_page import read

    texts, _ = read(page((100, 100, 300, 140), (100, 600, 300, 640)))
    assert [each["paragraph"] for each in processor().summary(texts)] == [0, 1]
