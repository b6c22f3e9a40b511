"""Fonts and words of the test are never learnt from; fonts that cannot be read are left out."""

import sys
from pathlib import Path

import matplotlib

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from drawn_lines import A_FAMILY, divided, family_of, kept_for_test, lines, with_letters

from suites.ocr.rendering.fonts import fonts_in

FONTS = fonts_in([str(Path(matplotlib.get_data_path()) / "fonts" / "ttf")])[0]


def test_all_fonts_of_a_family_are_in_one_part_and_few_of_each():
    parts = [[family_of(font).split()[0].lower() for font in part] for part in divided(FONTS)]
    assert parts[0] and not set(parts[0]) & set(parts[1])
    assert max(parts[0].count(family) for family in set(parts[0])) <= 4 * A_FAMILY
    assert all(kept_for_test(family) for family in parts[1])


def test_fonts_without_latin_letters_are_left_out():
    kept = {font.path.name for font in with_letters(FONTS)}
    assert "DejaVuSans.ttf" in kept and not {"STIXSizOneSymReg.ttf", "cmex10.ttf", "LastResortHE-Regular.ttf"} & kept


def test_lines_are_the_same_again_and_of_the_words_alone():
    drawn = list(lines(["word", "other"], 50, 3))
    assert drawn == list(lines(["word", "other"], 50, 3)) and len(set(drawn)) > 20
    letters = {part.strip(",.;:!?-)").lower() for line in drawn for part in line.split()}
    assert {one for one in letters if not one.isdigit()} == {"word", "other"}
