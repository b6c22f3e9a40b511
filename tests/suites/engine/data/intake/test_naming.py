"""Names: what is no data, the order of numbers, and files found by the names that people write."""

import random
import unicodedata

import pytest

from suites.engine.data.intake.naming import (
    Endings,
    Finder,
    Stems,
    as_written,
    by_number,
    clutter,
    ending,
    entries,
    in_order,
    shown,
)


@pytest.mark.parametrize(
    "name",
    [".git", ".DS_Store", "._cat.jpg", ".ipynb_checkpoints", "__MACOSX", "@eaDir", "Thumbs.db", "THUMBS.DB",
     "desktop.ini", "$RECYCLE.BIN",
     "#recycle", "System Volume Information", "lost+found", "~$labels.xlsx", "__pycache__"],
)  # fmt: skip
def test_what_systems_and_tools_leave_is_no_data(name):
    assert clutter(name)


@pytest.mark.parametrize("name", ["cat.jpg", "_cat", "thumbs", "a.b.c", "@home", "#1", "~cat", "macosx"])
def test_other_names_are_data(name):
    assert clutter(name) is None


def test_numbers_in_names_are_numbers():
    names = ["f10.png", "f9.png", "f010b.png", "f1.png", "v2/f1.png", "v10/f1.png", "f.png", "scan (2).jpg", "scan.jpg"]
    ordered = in_order(names)
    assert ordered.index("f9.png") < ordered.index("f10.png")
    assert ordered.index("v2/f1.png") < ordered.index("v10/f1.png")
    assert in_order(reversed(names)) == ordered, "no order of the list shows"


def test_names_that_are_alike_and_others_have_the_order_of_their_numbers():
    rng = random.Random(0)
    for _ in range(2000):
        form = rng.choice(("a#", "##", "#b##", "x.#", "#é", "#/#", "{}", "a{}"))
        names = [
            "".join(str(rng.randrange(10)) if c == "#" else c for c in form).replace("{}", str(rng.randrange(2000)))
            for _ in range(rng.randint(0, 6))
        ]
        assert in_order(names) == sorted(names, key=by_number)


def test_endings_are_those_of_the_last_name_in_a_path():
    rng = random.Random(0)
    for _ in range(3000):
        name = "".join(rng.choice("a./B") for _ in range(rng.randint(0, 7)))
        last = name.rstrip("/").rpartition("/")[2]
        dot = last.rfind(".")
        assert ending(name) == (last[dot:].lower() if 0 < dot < len(last) - 1 else "")


def test_names_of_several_endings_keep_their_order():
    names = ["b.jpg", "a.PNG", "c", "a.jpg", "x/d.txt"]
    found = Endings(names)
    assert found.of((".png", ".jpg")) == ["b.jpg", "a.PNG", "a.jpg"] and found.of(("", ".gif")) == ["c"]
    assert found.of((".gif",)) == [] and found.counts == {".jpg": 2, ".png": 1, "": 1, ".txt": 1}


def test_equal_numbers_with_other_zeros_have_one_order():
    assert in_order(["01.png", "1.png"]) == in_order(["1.png", "01.png"])


def test_a_folder_s_files_stay_together():
    ordered = in_order(["a-1/x.png", "a/1.png", "a/2.png", "a b/1.png"])
    assert abs(ordered.index("a/1.png") - ordered.index("a/2.png")) == 1


def test_names_of_other_digits_do_not_stop_the_order():
    assert in_order(["²", "٣", "1"]) is not None and by_number("x" + "9" * 5000)


@pytest.mark.parametrize(
    "written",
    ["images/été (1).jpg", "./images/été (1).jpg", "images\\été (1).jpg", "images//été (1).jpg",
     unicodedata.normalize("NFD", "images/été (1).jpg"), "IMAGES/Été (1).JPG"],
)  # fmt: skip
def test_a_file_is_found_by_any_way_to_write_its_name(written):
    assert Finder(["images/été (1).jpg", "images/1.jpg"]).find(written) == "images/été (1).jpg"


def test_capitals_count_where_two_files_differ_in_them_only():
    finder = Finder(["A.jpg", "a.jpg"])
    assert (finder.find("A.jpg"), finder.find("a.jpg"), finder.find("a.JPG")) == ("A.jpg", "a.jpg", None)


def test_a_text_finds_its_picture_whatever_the_ending_and_the_order_of_endings_decides():
    stems = Stems(["d/1.PNG", "d/1.txt", "d/2.jpeg"], preferred=(".jpg", ".jpeg", ".png"))
    assert (stems.find("d/1"), stems.find("d/2"), stems.find("d/3")) == ("d/1.PNG", "d/2.jpeg", None)


def test_a_name_in_a_message_holds_nothing_that_a_terminal_obeys():
    assert shown("a\x1b[31m\udcff\n") == "a\\x1b[31m\\xff\\n"


def test_a_windows_path_in_a_list_is_the_path_below_the_root():
    assert as_written(".\\day 2\\a,b %20.jpg") == "day 2/a,b %20.jpg"


def test_entries_of_a_folder_come_in_order_without_clutter(tmp_path):
    for name in ("10.jpg", "9.jpg", "._9.jpg", "Thumbs.db"):
        (tmp_path / name).touch()
    assert [path.name for path in entries(tmp_path)] == ["9.jpg", "10.jpg"]
