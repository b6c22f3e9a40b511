"""Words that look like names of files are told from texts, and the nearest file is named."""

import pytest

from suites.engine.data.intake.mistyped import is_like_path, missing_file, nearest_file

ENDINGS = (".txt", ".csv", ".jsonl")


@pytest.mark.parametrize(
    "word",
    ["typo.txt", "my reviews.CSV", "data/typo", "./my typo", "../x y", "~/typo", "~user", "*.md",
     "x[12]", "a?.md", "c:\\in\\x", "/typo"],
)  # fmt: skip
def test_names_look_like_paths(word):
    assert is_like_path(word, ENDINGS)


@pytest.mark.parametrize(
    "word",
    ["a fine film", "fine", "why?", "good/bad acting, 8/10", "http://a.b/c", "a\tb/c.txt", "one\ntwo.txt", "3.5", "",
     "e.g. this", "x" * 5000 + ".txt", "is it 5*3?"],
)  # fmt: skip
def test_texts_do_not(word):
    assert not is_like_path(word, ENDINGS)


def test_a_name_with_spaces_in_a_folder_that_exists_is_a_path(tmp_path):
    assert is_like_path(f"{tmp_path}/my typo", ENDINGS)


def test_the_nearest_file_is_found_in_its_folder_and_in_folders_that_are_mistyped_themselves(tmp_path):
    (tmp_path / "reviews").mkdir()
    (tmp_path / "reviews" / "test.txt").write_text("")
    (tmp_path / "reviews" / ".test.txt").write_text("")
    assert nearest_file(f"{tmp_path}/reviews/tset.txt") == f"{tmp_path}/reviews/test.txt"
    assert nearest_file(f"{tmp_path}/reveiws/test.txt") == f"{tmp_path}/reviews/test.txt"
    assert nearest_file(f"{tmp_path}/elsewhere/zzz") is None
    assert missing_file(f"{tmp_path}/q/w") == f"{tmp_path}/q/w: there is no such file"
