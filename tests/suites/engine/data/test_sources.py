"""Where data are looked for: the working folder, then $PADDOCK_DATA; an error names both."""

import logging
import os
import unicodedata
import zipfile
from pathlib import Path

import pytest
import yaml

from framework.errors import DataError
from suites.classification.datasets import ImageFolder
from suites.ctr.datasets import ClickLog, LogStream
from suites.ctr.schema import schema_of
from suites.engine.config import load_config
from suites.engine.config.tree.shipped import configs_folder, shipped_configs
from suites.engine.data.sources import find_data, open_source, places_tried, read_file
from suites.video.datasets import YouTube8M


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A working folder and a folder of all data sets."""
    here, sets = tmp_path / "here", tmp_path / "sets"
    here.mkdir()
    sets.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("PADDOCK_DATA", str(sets))
    return here, sets


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_working_folder_comes_first(places):
    here, sets = places
    write(here / "data/words.txt", "here")
    write(sets / "words.txt", "sets")
    assert find_data("data/words.txt") == Path("data/words.txt") and read_file("data/words.txt") == b"here"


@pytest.mark.parametrize("name", ["data/nlp/words.txt", "nlp/words.txt"])
def test_the_other_place_is_told_when_it_is_taken_and_data_stands_for_it(places, name, caplog):
    write(places[1] / "nlp/words.txt", "sets")
    with caplog.at_level(logging.INFO, "suites.engine.data.sources"):
        assert read_file(name) == b"sets"
    assert f"{name}: taken from {places[1]}/nlp/words.txt ($PADDOCK_DATA)" in caplog.text


def test_a_path_into_a_zip_is_found_by_its_zip(places):
    with zipfile.ZipFile(places[1] / "set.zip", "w") as archive:
        archive.writestr("images/a.txt", "a")
    assert read_file("data/set.zip/images/a.txt") == b"a"
    assert open_source("data/set.zip/images").names() == ["a.txt"]


def test_a_relative_variable_is_of_the_working_folder(places, monkeypatch):
    write(places[1] / "a.txt", "a")
    monkeypatch.setenv("PADDOCK_DATA", "../sets")
    assert find_data("a.txt").is_absolute() and read_file("a.txt") == b"a"


def test_an_absolute_path_is_looked_for_there_only(places):
    write(places[1] / "a.txt", "a")
    with pytest.raises(DataError, match=r"/nowhere/a.txt: no such file; the path is absolute, so it was looked for"):
        read_file("/nowhere/a.txt")


def test_an_error_names_both_places(places):
    here, sets = places
    both = f"looked for {here}/data/coco and {sets}/coco ($PADDOCK_DATA)"
    with pytest.raises(DataError) as error:
        open_source("data/coco")
    assert str(error.value) == f"data/coco: no such folder or .zip file; {both}"


@pytest.mark.parametrize("value", [None, ""])
def test_without_the_variable_the_error_says_so(places, monkeypatch, value):
    monkeypatch.delenv("PADDOCK_DATA") if value is None else monkeypatch.setenv("PADDOCK_DATA", value)
    assert places_tried("data/coco") == f"looked for {places[0]}/data/coco; PADDOCK_DATA names no other folder"


def test_data_sets_of_every_kind_of_reader_look_in_both_places(places):
    sets = places[1]
    write(sets / "photos/cat/a.jpg", "")
    write(sets / "log/train.csv", "a,1\n" * 8)
    form = {"columns": ["x", "y"], "header": False}
    schema = schema_of({"format": form, "features": {"x": {"type": "Sparse"}}, "labels": {"y": {}}})
    assert ImageFolder("data/photos").class_names == ("cat",)
    assert len(ClickLog(schema, "data/log", ["train.csv"])) == 8
    LogStream(schema, "data/log", ["train.csv"])
    with zipfile.ZipFile(sets / "logs.zip", "w") as archive:
        archive.writestr("day.csv", "a,1\n" * 8)
    LogStream(schema, "data/logs.zip", ["day.csv"])
    for make in (
        lambda: ImageFolder("data/none"),
        lambda: ClickLog(schema, "data/none", ["train.csv"]),
        lambda: LogStream(schema, "data/none", ["train.csv"]),
        lambda: YouTube8M("data/none/*.tfrecord"),
    ):
        with pytest.raises(DataError, match=r"looked for .*/here/data/none.* and .*/sets/none"):
            make()


def test_shipped_configs_name_no_folder_of_this_machine():
    for path in configs_folder().rglob("*.yml"):
        assert "shared/" not in path.read_text(), path


def test_with_the_variable_shipped_configs_find_their_sets(shared_data, monkeypatch, tmp_path):
    sets = shared_data("detection").parent
    monkeypatch.setenv("PADDOCK_DATA", str(sets))
    monkeypatch.chdir(tmp_path)
    there = {place.relative_to(sets).as_posix() for place in sets.glob("*/*/*.zip")}
    roots = {str(load_config(name, check=False).as_dict()["data"].get("root", "")) for name in shipped_configs()}
    found = {root.removeprefix("data/") for root in roots} & there
    assert {"detection/bccd/bccd.zip", "detection/nuclei/nuclei.zip"} <= found
    assert all(find_data(f"data/{root}").is_file() for root in found)


def test_the_page_on_data_sets_has_every_root_of_a_shipped_config():
    page = (Path(__file__).resolve().parents[4] / "docs" / "howto" / "data.md").read_text()
    own = {"own", "photos", "lines", "coco_style", "pedestrian", "vehicle"}  # the user's
    for path in configs_folder().rglob("*.yml"):
        data = (yaml.safe_load(path.read_text()) or {}).get("data") or {}
        root = str(data.get("root", "")) if isinstance(data, dict) else ""
        if root.startswith("data/") and root.removeprefix("data/") not in own:
            file, zipped, _ = root.removeprefix("data/").partition(".zip")  # what lies in it has no row of its own
            assert f"`{file}{zipped}`" in page, (path, root)


def test_workers_need_no_variable(places, monkeypatch):
    """What was found when a set was opened is read later, whatever the process's folder and variables are."""
    write(places[1] / "set/a.txt", "a")
    table = open_source("data/set").table(["a.txt"])
    monkeypatch.delenv("PADDOCK_DATA")
    os.chdir("/")
    assert table.read(0) == b"a"


def test_hidden_names_and_clutter_are_not_there_and_are_counted(tmp_path):
    for name in ("a.jpg", ".ipynb_checkpoints/a-checkpoint.jpg", "@eaDir/a.jpg", "b/._c.jpg", "b/c.jpg", "Thumbs.db"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    source = open_source(tmp_path)
    assert (source.names(), source.folders(), source.below()) == (["a.jpg"], ["b"], ["a.jpg", "b/c.jpg"])
    assert {reason: count for reason, count, _ in source.passed} == {"hidden": 2, "left by the system": 2}
    source.below()
    assert len(source.passed) == 4, "each is counted once"


def test_links_to_folders_that_are_read_anyway_and_broken_links_are_not_followed(tmp_path):
    for name in ("cat/1.jpg", "cat/sub/2.jpg", "dog/3.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "cat/again").symlink_to("../cat")
    (tmp_path / "cat/sub/top").symlink_to(tmp_path)
    (tmp_path / "cat/twice").symlink_to("sub")
    (tmp_path / "cat/gone.jpg").symlink_to("nowhere.jpg")
    (tmp_path / "cat/more").symlink_to("../dog")
    source = open_source(tmp_path)
    assert source.below("cat") == ["1.jpg", "more/3.jpg", "sub/2.jpg"]
    assert str(source.passed).count("again") == 1 and "broken links (cat/gone.jpg)" in str(source.passed)


def test_a_zip_of_windows_and_one_of_macos_are_read_like_others(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("cat\\été.jpg", "./cat/2.jpg", "__MACOSX/cat/._2.jpg", "cat/10.jpg", "dog/"):
            info = zipfile.ZipInfo("x")
            info.filename = info.orig_filename = name
            archive.writestr(info, b"x")
    source = open_source(tmp_path / "a.zip")
    assert (source.folders(), source.names("cat")) == (["cat"], ["2.jpg", "10.jpg", "été.jpg"])
    assert source.read("cat/été.jpg") == b"x"


def test_a_name_that_is_no_text_is_read_and_shown_escaped(tmp_path):
    raw = os.fsdecode(b"caf\xe9.jpg")
    (tmp_path / raw).write_bytes(b"x")
    source = open_source(tmp_path)
    table = source.table(source.names())
    assert (table.read(0), table.full_name(0)) == (b"x", f"{tmp_path}/caf\\xe9.jpg")


def test_a_list_s_name_finds_its_file_however_it_is_written(tmp_path):
    (tmp_path / "Bilder" / "Tag 2").mkdir(parents=True)
    (tmp_path / "Bilder" / "Tag 2" / "été.JPG").touch()
    source = open_source(tmp_path)
    for written in (
        "./Bilder/Tag 2/été.JPG",
        "bilder\\tag 2\\été.jpg",
        unicodedata.normalize("NFD", "Bilder/Tag 2/été.JPG"),
    ):
        assert source.find(written) == "Bilder/Tag 2/été.JPG"
    assert source.find("Bilder/1.jpg") is None
    assert source.find(f"{tmp_path}/Bilder/Tag 2/été.JPG") == "Bilder/Tag 2/été.JPG"
    assert source.find("/nowhere/1.jpg") is None


def test_a_member_without_a_name_is_damage(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a", b"x")
    data = (tmp_path / "a.zip").read_bytes()
    at = data.index(b"PK\x01\x02")
    (tmp_path / "a.zip").write_bytes(data[: at + 46] + b"\0" + data[at + 47 :])
    with pytest.raises(DataError, match="not a readable zip"):
        open_source(tmp_path / "a.zip")


def test_an_encrypted_zip_is_told_when_it_is_opened(tmp_path):
    path = tmp_path / "photos.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("cat/1.jpg", b"x" * 1000)
    data = bytearray(path.read_bytes())
    for sign, place in ((b"PK\1\2", 8), (b"PK\3\4", 6)):  # flags of the directory's entry, and of the file's
        data[data.index(sign) + place] |= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"photos.zip: cat/1.jpg is encrypted; unpack the zip by its password"):
        open_source(path)


def test_a_pointer_of_git_lfs_inside_a_zip_is_told(tmp_path):
    with zipfile.ZipFile(tmp_path / "set.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/1.jpg", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n")
    with pytest.raises(DataError, match=r"set.zip/a/1.jpg: is a pointer of Git LFS, .* run `git lfs pull`"):
        read_file(tmp_path / "set.zip" / "a" / "1.jpg")


def test_a_file_inside_a_file_that_is_no_zip_is_named_in_full(tmp_path):
    (tmp_path / "best.safetensors").write_bytes(b"weights")
    with pytest.raises(DataError, match=r"best\.safetensors/vocab\.txt: best\.safetensors is a file and no"):
        read_file(tmp_path / "best.safetensors" / "vocab.txt")
