"""`paddock data render`: the same again by seed, what the readers read, and what no font has is named, not drawn."""

import hashlib

import numpy as np
import pytest

from framework import limits
from framework.errors import AttributeValueError, DataError
from suites.engine.cli.data import main
from suites.ocr.alphabet import Alphabet
from suites.ocr.datasets import IcdarText, LineList, PaddleText
from suites.ocr.rendering import fonts as fonts_room
from suites.ocr.rendering.fonts import Drawable, Font, drawable, fonts_in
from suites.ocr.rendering.look import Look, aslant, bent, laid_on
from suites.ocr.rendering.sets import Render, lines_in, quad_of, random_texts
from suites.vision.pictures.images import write_image
from tests.suites.ocr.helpers import page

FONTS = fonts_in([])[0]
SANS = next(font for font in FONTS if font.path.name == "DejaVuSans.ttf")


def digest(folder):
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def render(root, *more, texts=("one two", "three", "4,5")):
    (root / "texts.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    words = [str(root / "texts.txt"), "--fonts", str(SANS.path), "--count", "6", *more]
    return main(["render", *words])


def test_lines_are_read_back_and_are_the_same_again_by_seed(tmp_path):
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        assert render(tmp_path, "--output", str(tmp_path / name), "--seed", seed) == 0
    lines = LineList(str(tmp_path / "a"), "train.txt")
    assert sorted(set(lines.texts())) == ["4,5", "one two", "three"] and len(lines) == 6
    assert digest(tmp_path / "a") == digest(tmp_path / "b") != digest(tmp_path / "c")


def test_a_longer_set_begins_as_a_shorter_one(tmp_path):
    render(tmp_path, "--output", str(tmp_path / "short"))
    render(tmp_path, "--output", str(tmp_path / "long"), "--count", "9")
    short, long = digest(tmp_path / "short"), digest(tmp_path / "long")
    assert {name: long[name] for name in short if name.endswith(".jpg")}.items() <= short.items()


def test_pages_have_icdars_form_and_paddles_list_of_the_same_texts(tmp_path):
    out = tmp_path / "out"
    assert render(tmp_path, "--output", str(out), "--pages", "--count", "3", "--page-size", "200", "300") == 0
    quads, outlines = IcdarText(str(out), "train"), PaddleText(str(out), "train.txt")
    assert len(quads) == len(outlines) == 3
    for one, two in zip(quads, outlines, strict=True):
        assert one.texts == two.texts and len(one.texts) > 0 and one.image.shape == (200, 300, 3)
        for quad, outline in zip(one.polygons, two.polygons, strict=True):
            assert quad.shape == (4, 2) and (outline.min(axis=0) >= 0).all()
            np.testing.assert_allclose(quad.mean(axis=0), outline.mean(axis=0), atol=6)


def test_characters_that_no_font_has_are_counted_and_named(tmp_path, capsys):
    assert render(tmp_path, "--output", str(tmp_path / "out"), texts=("漢字", "字", "plain")) == 0
    said = capsys.readouterr().out
    assert "2 of 3 texts are left out: no font has all of their characters: '字' in 2, '漢' in 1" in said
    assert LineList(str(tmp_path / "out"), "train.txt").texts() == ["plain"] * 6
    assert render(tmp_path, "--output", str(tmp_path / "none"), texts=("漢字",)) == 2
    assert "there is no text that a font can draw" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_writing_that_is_more_than_glyphs_side_by_side_is_left_out_and_named(tmp_path):
    arabic, hebrew, hindi, mark = "\u0633\u0644\u0627\u0645", "\u05e9\u05dc", "\u0915\u093f", "x\u0301"
    found, said = drawable(["ok", arabic, hebrew, hindi, mark, "\u1820"], [SANS])
    assert [one.text for one in found] == ["ok"]
    assert said[0].startswith(
        "5 of 6 texts are left out: right-to-left, joined or combining characters are not drawn: "
    )
    (tmp_path / "texts.txt").write_text("caf\u0065\u0301\n", encoding="utf-8")
    assert lines_in([str(tmp_path / "texts.txt")]) == ["caf\u00e9"]  # what has one glyph is one character


def test_a_text_goes_to_fonts_that_have_all_of_it():
    class Having:
        def __init__(self, characters):
            self.draws = frozenset(characters).__contains__

    fonts = [Having("ab"), Having("bc")]
    found, lines = drawable(["a", "b", "ac"], fonts)
    assert found == [Drawable("a", 0b01), Drawable("b", 0b11)]
    assert [one.fonts for one in found] == [[0], [0, 1]]
    assert lines == ["1 of 3 texts are left out: no font has all of their characters: 'a' in 1, 'c' in 1"]


def test_what_is_there_is_not_written_over(tmp_path, capsys):
    render(tmp_path, "--output", str(tmp_path / "out"))
    before = digest(tmp_path / "out")
    assert render(tmp_path, "--output", str(tmp_path / "out"), "--seed", "1") == 2
    assert "is there already" in capsys.readouterr().err and digest(tmp_path / "out") == before
    assert render(tmp_path, "--output", str(tmp_path / "out"), "--name", "test", "--plain") == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--count", "0"], "count is 0"),
        (["--least", "4"], "sizes are 4 to 48"),
        (["--often", "2"], "often 2.0"),
        (["--fonts", "/nowhere"], "/nowhere is no file and no folder"),
        (["--pages", "--page-size", "40", "400"], "the sides have 96 or more"),
    ],
)
def test_wrong_wishes_are_one_line(tmp_path, capsys, words, said):
    assert render(tmp_path, "--output", str(tmp_path / "out"), *words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_file_that_is_no_font_is_left_out_and_named(tmp_path):
    (tmp_path / "bad.ttf").write_bytes(b"no font")
    with pytest.raises(DataError, match="fonts: there is none in"):
        fonts_in([str(tmp_path)])
    (tmp_path / "good.ttf").write_bytes(SANS.path.read_bytes())
    fonts, wrong = fonts_in([str(tmp_path)])
    assert len(fonts) == 1 and len(wrong) == 1 and "bad.ttf: is no font that FreeType reads" in wrong[0]


def test_a_font_of_fixed_sizes_is_left_out_and_named(monkeypatch, tmp_path):
    class Bitmaps:
        scalable = False

    (tmp_path / "fixed.ttf").write_bytes(b"")
    (tmp_path / "good.ttf").write_bytes(SANS.path.read_bytes())
    opened = fonts_room._opened
    monkeypatch.setattr(fonts_room, "_opened", lambda path: Bitmaps() if path.name == "fixed.ttf" else opened(path))
    fonts, wrong = fonts_in([str(tmp_path)])
    assert [font.path.name for font in fonts] == ["good.ttf"]
    assert wrong == [f"{tmp_path}/fixed.ttf: is a font of fixed sizes; lines are drawn in many"]


def test_damaged_fonts_draw_what_they_can_and_end_nothing(tmp_path):
    """Bytes changed at random, and files cut short: text comes out, or an error that names the file."""
    whole, rng, damaged = SANS.path.read_bytes(), np.random.default_rng(0), 0
    for k in range(40):
        data = bytearray(whole[: int(rng.integers(len(whole) // 2, len(whole)))] if k % 4 == 0 else whole)
        for at in rng.integers(400, len(data), 600):
            data[at] = rng.integers(256)
        file = tmp_path / f"{k}.ttf"
        file.write_bytes(data)
        try:
            fonts, said = fonts_in([str(file)])
        except DataError as error:
            assert file.name in str(error) or "fonts: there is none" in str(error)
            continue
        damaged += any("are damaged" in line for line in said)
        texts, _ = drawable(["Hello, World 12", "g", "Q"], fonts)
        if texts:
            listed = Render(texts, fonts, Look(least=12, most=60)).lines(tmp_path, f"set{k}", 4)
            told = [row.partition("\t")[2] for row in listed.read_text().splitlines()]
            assert set(told) <= {text.text for text in texts}
    assert damaged > 5


def test_numbers_of_a_font_past_the_last_character_are_none_of_its_own(monkeypatch, tmp_path):
    class Samyak:  # Debian's Samyak-Oriya lists 0x110000
        scalable = True

        def get_charmap(self):
            return {0x41: 1, 0x110000: 2}

    monkeypatch.setattr(fonts_room, "_opened", lambda path: Samyak())
    assert Font(tmp_path / "odd.ttf").characters == {"A"}


def test_two_thousand_characters_are_drawn_and_more_refused(tmp_path):
    render = Render([Drawable("x" * 2000, 1)], [SANS], Look(often=0.0))
    render.lines(tmp_path / "out", "train", 1)
    (sample,) = LineList(str(tmp_path / "out"), "train.txt")
    assert len(sample.text) == 2000 and sample.image.shape[1] > 2000 * 8
    with limits.allow(pixels=1000), pytest.raises(DataError, match="limit pixels=1000"):
        render.lines(tmp_path / "small", "train", 1)
    (tmp_path / "long.txt").write_text("x" * 2001 + "\n")
    with pytest.raises(DataError, match=r"long\.txt:1: has 2001 characters"):
        lines_in([str(tmp_path / "long.txt")])


def test_texts_have_single_spaces_and_stand_once(tmp_path):
    (tmp_path / "a.txt").write_text("one  two \n\n one two\nthree\n")
    assert lines_in([str(tmp_path / "a.txt")]) == ["one two", "three"]
    drawn = random_texts(Alphabet("ab "), (2, 4), 50, seed=1)
    assert drawn == random_texts(Alphabet("ab "), (2, 4), 50, seed=1)
    assert all(text == " ".join(text.split()) and 0 < len(text) <= 4 for text in drawn)
    with pytest.raises(AttributeValueError, match="lengths are 3 to 2"):
        random_texts(Alphabet("ab"), (3, 2), 1, seed=0)


@pytest.mark.parametrize("rise", [0.0, 6.5, -6.5])
def test_outlines_hold_the_ink_of_a_bent_line(rise):
    ink = bent(np.full((20, 100), 255, np.uint8), rise)
    import cv2

    inside = np.zeros(ink.cover.shape, np.uint8)
    cv2.fillPoly(inside, [np.round(ink.outline).astype(np.int32)], 1)
    assert (ink.cover[inside > 0] > 0).mean() > 0.95 and (inside[ink.cover > 200] > 0).mean() > 0.95
    moved = aslant(ink, Look(turn=20.0, slant=0.4, often=1.0), np.random.default_rng(0))
    inside = np.zeros(moved.cover.shape, np.uint8)
    cv2.fillPoly(inside, [np.round(moved.outline).astype(np.int32)], 1)
    assert (inside[moved.cover > 200] > 0).mean() > 0.95


def test_ink_stands_out_from_its_ground():
    for seed in range(20):
        ground = np.full((4, 4, 3), 13 * seed, np.uint8)
        drawn = laid_on(ground, np.full((4, 4), 255, np.uint8), 90.0, np.random.default_rng(seed))
        assert abs(float(drawn[0, 0] @ [0.299, 0.587, 0.114]) - 13 * seed) >= 89


def test_pictures_of_a_folder_are_grounds(tmp_path):
    write_image(tmp_path / "photos" / "a.png", page((0, 0, 30, 30), size=(40, 40)))
    assert render(tmp_path, "--output", str(tmp_path / "out"), "--backgrounds", str(tmp_path / "photos")) == 0
    assert len(LineList(str(tmp_path / "out"), "train.txt")) == 6


def test_four_corners_stay_and_more_become_four():
    quad = np.float32([[1, 1], [9, 2], [9, 5], [1, 4]])
    assert quad_of(quad) is quad
    many = np.float32([[0, 0], [5, 0], [10, 0], [10, 4], [5, 4], [0, 4]])
    np.testing.assert_allclose(quad_of(many), [[0, 0], [10, 0], [10, 4], [0, 4]], atol=1e-5)
    assert Font(SANS.path).drawn(" ", 20).size == 0
