"""Fonts that draw a character as another one, as a box or as nothing are found, named, and not drawn with."""

import string

import pytest
from fontTools.ttLib import TTFont

from suites.engine.cli.data import main
from suites.ocr.datasets import LineList
from suites.ocr.rendering.fonts import Font, drawable, fonts_in
from suites.ocr.rendering.legible import LETTERS
from tests.suites.ocr.test_rendering import FONTS, SANS

SMALL, CAPITAL = string.ascii_lowercase, string.ascii_uppercase


@pytest.fixture
def changed(tmp_path):
    """Writes DejaVu Sans with other glyphs for some characters: {character: a character, or the name of a glyph}."""

    def write(name, glyphs):
        font = TTFont(SANS.path)
        for table in font["cmap"].tables:
            if table.isUnicode():
                table.cmap |= {
                    ord(c): glyph if glyph in font["glyf"].glyphs else table.cmap[ord(glyph)]
                    for c, glyph in glyphs.items()
                }
        (tmp_path / "fonts").mkdir(exist_ok=True)
        font.save(tmp_path / "fonts" / name)
        return Font(tmp_path / "fonts" / name)

    return write


def drawn_by(font):
    return {character for character in LETTERS if font.draws(character)}


@pytest.mark.parametrize("font", FONTS, ids=lambda font: font.path.stem)
def test_fonts_of_text_draw_what_they_have(font):
    if set(LETTERS) <= font.characters:
        assert not font.legible.signs and not font.legible.case and drawn_by(font) == set(LETTERS) and font.draws(" ")


def test_a_font_of_capitals_draws_no_small_letters(changed):
    font = changed("capitals.ttf", dict(zip(SMALL, CAPITAL, strict=True)))
    assert font.legible.case == "capitals" and drawn_by(font) == set(CAPITAL + string.digits)


def test_a_font_of_small_letters_draws_no_capitals(changed):
    font = changed("small.ttf", dict(zip(CAPITAL, SMALL, strict=True)))
    assert font.legible.case == "small letters" and drawn_by(font) == set(SMALL + string.digits)


def test_small_capitals_are_capitals(changed):
    font = changed("smallcaps.ttf", dict(zip("abcdeghjklmnoprtuvwz", "ᴀʙᴄᴅᴇɢʜᴊᴋʟᴍɴᴏᴘʀᴛᴜᴠᴡᴢ", strict=True)))
    assert font.legible.case == "capitals" and drawn_by(font) == set(CAPITAL + string.digits)


def test_twins_are_both_not_drawn(changed):
    font = changed("twins.ttf", {"l": "I", "0": "O"})
    assert drawn_by(font) == set(LETTERS) - set("lI0O") and not font.legible.case


def test_a_box_and_nothing_are_no_drawing(changed):
    font = changed("boxes.ttf", {"q": ".notdef", "Q": " "})
    assert drawn_by(font) == set(LETTERS) - set("qQ") and font.draws(" ") and not font.draws("漢")


def test_signs_are_left_out_and_said(changed):
    signs = map(chr, range(0x2701, 0x2701 + len(LETTERS)))
    dingbats = {c: sign for c, sign in zip(LETTERS, signs, strict=True) if sign in SANS.characters}
    font = changed("signs.ttf", dingbats)
    changed("text.ttf", {})
    assert font.legible.signs
    fonts, said = fonts_in([str(font.path.parent)])
    assert [one.path.name for one in fonts] == ["text.ttf"]
    assert said == ["1 fonts have letters like no others, signs or ornaments, and are left out: signs.ttf"]
    assert len(fonts_in([str(font.path.parent)], strict=False)[0]) == 2


def test_greek_in_place_of_latin_is_signs(changed):
    font = changed("symbol.ttf", dict(zip("abdeghnqrt", "αβδεγηνθρτ", strict=True)))
    assert font.legible.signs


def test_lines_say_what_their_fonts_draw(changed, tmp_path, capsys):
    font = changed("capitals.ttf", dict(zip(SMALL, CAPITAL, strict=True)))
    (tmp_path / "words.txt").write_text("one\nTWO\n")
    words = ["render", str(tmp_path / "words.txt"), "--fonts", str(font.path), "--count", "4", "--output"]
    assert main([*words, str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "1 fonts have capitals alone and draw no small letters: capitals.ttf" in said
    assert "1 of 2 texts are left out: no font has all of their characters: 'e' in 1, 'n' in 1, 'o' in 1" in said
    assert set(LineList(str(tmp_path / "out"), "train.txt").texts()) == {"TWO"}
    assert main([*words, str(tmp_path / "any"), "--any-font"]) == 0
    assert set(LineList(str(tmp_path / "any"), "train.txt").texts()) == {"one", "TWO"}


def test_a_font_without_latin_letters_is_asked_for_its_own(changed):
    assert drawable(["♠"], [SANS])[0] and not drawable(["\u0378"], [SANS])[0]
