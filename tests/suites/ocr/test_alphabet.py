"""The characters that a recogniser knows, and greedy CTC."""

import itertools

import numpy as np
import pytest

from framework.errors import ConfigError
from suites.ocr.alphabet import Alphabet
from suites.ocr.decoding import CharacterModel, beam, greedy


def test_alphabets_have_names_files_and_characters(tmp_path):
    assert len(Alphabet.of("digits")) == 10 and Alphabet.of("=ab").characters == ("a", "b")
    ppocr = Alphabet.of("ppocr")
    assert ppocr.classes == 6625 and ppocr.characters[:2] == ("'", "疗") and ppocr.characters[-1] == " "
    assert "\u3000" in ppocr.characters  # a line that is a space
    (tmp_path / "own.txt").write_text("x\ny\n", encoding="utf-8")
    assert Alphabet.of(str(tmp_path / "own.txt")).characters == ("x", "y", " ")


def test_wrong_alphabets_are_named(tmp_path):
    with pytest.raises(
        ConfigError, match=r"alphabet: 'ppocrr' is no file and no alphabet of ours; did you mean 'ppocr'"
    ):
        Alphabet.of("ppocrr")
    with pytest.raises(ConfigError, match="alphabet: 'a' is in it twice"):
        Alphabet.of("=aba")
    (tmp_path / "own.txt").write_text("x\nyz\n")
    with pytest.raises(ConfigError, match=r"own\.txt:2: 'yz' is not one character"):
        Alphabet.of(str(tmp_path / "own.txt"))


@pytest.mark.parametrize(
    ("content", "said"), [("x\ny\nx\n", r"own\.txt:3: 'x' is there already, in line 1"), ("", "the file is empty")]
)
def test_wrong_dictionaries_name_file_and_line(tmp_path, content, said):
    (tmp_path / "own.txt").write_text(content)
    with pytest.raises(ConfigError, match=said):
        Alphabet.of(str(tmp_path / "own.txt"))


def test_texts_become_classes_and_come_back():
    letters = Alphabet("abc")
    assert letters.encode("cab").tolist() == [3, 1, 2] and letters.text([3, 1, 2]) == "cab"
    assert letters.unknown("axbya") == ["x", "y"] and letters.encode("axb").tolist() == [1, 2]


def test_repetitions_and_blanks_are_taken_away_and_scores_are_of_the_characters():
    classes = np.array([[1, 1, 0, 1, 2], [0, 0, 0, 0, 0]])
    scores = np.array([[0.9, 0.1, 0.5, 0.8, 0.7], [1, 1, 1, 1, 1]], np.float32)
    (first, empty) = greedy(classes, scores, Alphabet("ab"))
    assert first.text == "aab" and first.score == pytest.approx(0.8) and empty == ("", 0.0)


def test_a_beam_finds_the_text_of_the_largest_sum_over_all_paths():
    letters, rng = Alphabet("ab"), np.random.default_rng(0)
    for _ in range(20):
        scores = np.log(rng.dirichlet(np.ones(3), 4))
        sums = {}
        for path in itertools.product(range(3), repeat=4):
            text = letters.text([k for k, _ in itertools.groupby(path) if k])
            sums[text] = np.logaddexp(sums.get(text, -np.inf), sum(scores[t, k] for t, k in enumerate(path)))
        best = max(sums, key=sums.get)
        found = beam(scores, letters, width=50)
        assert found.text == best and found.score == pytest.approx(np.exp(sums[best] / 4))


def test_a_language_decides_where_the_picture_does_not():
    letters = Alphabet("abc")
    scores = np.log(np.array([[0.01, 0.97, 0.01, 0.01], [0.02, 0.02, 0.47, 0.49]]))
    assert beam(scores, letters).text == "ac"
    assert beam(scores, letters, judge=CharacterModel(["ab", "ab", "ab"], letters)).text == "ab"
    assert beam(np.zeros((0, 4)), letters) == ("", 1.0)
