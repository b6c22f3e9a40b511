"""ICDAR's and PaddleOCR's files: what they hold, and one clear answer for what is wrong."""

import logging

import numpy as np
import pytest

from framework.errors import DataError
from suites.ocr.datasets import IcdarText, LineList, PaddleText
from suites.vision.pictures.images import write_image
from tests.suites.ocr.helpers import page

GOOD = "10,10,50,10,50,20,10,20,a word, with a comma"


def icdar(root, *lines, mark="\ufeff"):
    write_image(root / "train_images" / "img_1.jpg", page(size=(40, 60)))
    (root / "train_gts").mkdir(exist_ok=True)
    (root / "train_gts" / "gt_img_1.txt").write_text(mark + "\r\n".join(lines) + "\r\n", encoding="utf-8")
    return root


def test_a_line_has_corners_and_a_word_that_may_hold_commas(tmp_path):
    sample = IcdarText(str(icdar(tmp_path, GOOD, "1,2,3,2,3,4,1,4,###", "1, 2, 30, 2, 30, 14, 1, 14, ")))[0]
    np.testing.assert_array_equal(sample.polygons[0], [[10, 10], [50, 10], [50, 20], [10, 20]])
    assert sample.texts == ("a word, with a comma", "###", "")
    assert sample.ignored.tolist() == [False, True, False] and sample.image.shape == (40, 60, 3)


def test_boxes_of_2013_are_four_numbers(tmp_path):
    sample = IcdarText(str(icdar(tmp_path, '38, 43, 50, 55, "Tiredness"', '38 43 50 55 "a b"', mark="")))[0]
    for polygon in sample.polygons:
        np.testing.assert_array_equal(polygon, [[38, 43], [50, 43], [50, 55], [38, 55]])
    assert sample.texts == ("Tiredness", "a b")
    inches = IcdarText(str(icdar(tmp_path / "b", '38, 43, 50, 55, 12"', '1,2,30,2,30,14,1,14,"no" and "no"x', mark="")))
    assert inches[0].texts == ('12"', '"no" and "no"x')


def test_scripts_of_mlt_are_no_part_of_the_words(tmp_path):
    corners = "10,10,50,10,50,20,10,20,"
    lines = [f"{corners}{said}" for said in ("Latin,Hi, you", "None,###", "Chinese,\u4f60\u597d", "Latin,")]
    sample = IcdarText(str(icdar(tmp_path, *lines)))[0]
    assert sample.texts == ("Hi, you", "###", "\u4f60\u597d", "")
    assert sample.ignored.tolist() == [False, True, False, False]
    few = IcdarText(str(icdar(tmp_path / "b", GOOD, GOOD, f"{corners}Latin,x")))[0]
    assert few.texts[2] == "Latin,x"


def test_outlines_of_many_points_are_read_whole_and_numbers_in_words_stay(tmp_path):
    curve = "10,20,20,12,30,10,40,12,50,20,40,22,30,20,20,22,"
    lines = [f"{curve}{said}" for said in ("round", "12", "####CTW, too", "#######")]
    sample = IcdarText(str(icdar(tmp_path, *lines)))[0]
    assert sample.texts == ("round", "12", "CTW, too", "###") and sample.ignored.tolist() == [False, False, False, True]
    assert {polygon.shape for polygon in sample.polygons} == {(8, 2)} and sample.polygons[1][-1].tolist() == [20, 22]
    priced = IcdarText(str(icdar(tmp_path / "b", "10,10,50,10,50,20,10,20,1,200,300", "1,1,9,1,9,9,1,9,7")))[0]
    assert priced.texts == ("1,200,300", "7") and priced.polygons[0].shape == (4, 2)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("10,10,50,20,50,10,10,20,crossed", r"its sides cross: \[\[10, 10\], \[50, 20\], \[50, 10\], \[10, 20\]\]"),
        ("10,10,50,10,30,20,three", "has 3 points; the outline of a text has 4 or more"),
        ("nothing", r"expects x1,y1,x2,y2,x3,y3,x4,y4,word, found 'nothing'"),
    ],
)
def test_outlines_that_are_none_name_file_and_line(tmp_path, caplog, line, said):
    root = icdar(tmp_path, GOOD, line)
    with pytest.raises(DataError, match=rf"gt_img_1\.txt:2: {said}"):
        IcdarText(str(root))
    with caplog.at_level(logging.WARNING):
        found = IcdarText(str(root), max_skipped=0.5)
    assert len(found[0].polygons) == 1 and found.skipped().skipped == 1
    assert "1 of 2 lines are wrong and were left out" in caplog.text


def test_a_picture_without_its_file_is_named(tmp_path):
    root = icdar(tmp_path, GOOD)
    write_image(root / "train_images" / "img_2.jpg", page(size=(40, 60)))
    with pytest.raises(DataError, match=r"img_2\.jpg has no text file gt_NAME\.txt or NAME\.txt in train_gts"):
        IcdarText(str(root))


def test_paddles_list_has_a_picture_a_line(tmp_path):
    write_image(tmp_path / "a.jpg", page(size=(40, 60)))
    told = '[{"transcription": "x, y", "points": [[1, 1], [20, 1], [20, 9], [10, 12], [1, 9]]}]'
    (tmp_path / "list.txt").write_text(f"a.jpg\t{told}\n")
    sample = PaddleText(str(tmp_path), "list.txt")[0]
    assert sample.texts == ("x, y",) and sample.polygons[0].shape == (5, 2)
    hard = (
        told.replace('"x, y"', '"cafe\u0301 ", "difficult": false')
        + "\na.jpg\t"
        + told.replace("[{", '[{"difficult": true, ')
    )
    (tmp_path / "list.txt").write_text(f"a.jpg\t{hard}\n", encoding="utf-8")
    found = PaddleText(str(tmp_path), "list.txt")
    assert found[0].texts == ("caf\u00e9",) and not found[0].ignored.any() and found[1].ignored.all()
    for wrong, said in (
        ("a.jpg", "expects a path, a tab and a list of texts"),
        ("a.jpg\t{}", "expects a list of texts"),
        ('a.jpg\t[{"points": [[1, 1], [2, 2], [3, 1]]}]', "has 3 points"),
        ('a.jpg\t[{"points": ["x"]}]', "points are pairs of numbers"),
        ("b.jpg\t[]", "the image b.jpg is missing"),
        ('a.jpg\t[{"transcription": null, "points": [[1, 1], [9, 1], [9, 9], [1, 9]]}]', "transcription is 'None'"),
    ):
        (tmp_path / "list.txt").write_text(wrong + "\n")
        with pytest.raises(DataError, match=rf"list\.txt:1: {said}"):
            PaddleText(str(tmp_path), "list.txt")


def test_lines_have_a_path_a_tab_and_a_text(tmp_path):
    write_image(tmp_path / "a.jpg", page(size=(20, 60)))
    (tmp_path / "list.txt").write_text("a.jpg\tNO.53 55,57 & 59\n", encoding="utf-8")
    found = LineList(str(tmp_path), "list.txt")
    assert found[0].text == "NO.53 55,57 & 59" and found.texts() == ["NO.53 55,57 & 59"]
    (tmp_path / "list.txt").write_text("a.jpg\tone\na.jpg\t \n")
    with pytest.raises(DataError, match=r"list\.txt:2: 'a\.jpg' has no text"):
        LineList(str(tmp_path), "list.txt")
    assert LineList(str(tmp_path), "list.txt", max_skipped=0.5).skipped().skipped == 1


def test_lists_may_have_absolute_paths_and_letters_apart_from_their_accents(tmp_path):
    write_image(tmp_path / "in" / "a.png", np.zeros((8, 20, 3), np.uint8))
    (tmp_path / "in" / "list.txt").write_text(f"{tmp_path}/in/a.png\tcafe\u0301\n", encoding="utf-8")
    found = LineList(str(tmp_path / "in"), "list.txt")
    assert found[0].text == "caf\u00e9" and found[0].image.shape == (8, 20, 3)


def test_moved_pictures_take_their_outlines_along(tmp_path):
    sample = IcdarText(str(icdar(tmp_path, GOOD)))[0]
    np.testing.assert_allclose(sample.resized((80, 120), 1).polygons[0], sample.polygons[0] * 2)
