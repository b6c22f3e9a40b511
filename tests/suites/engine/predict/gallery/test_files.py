"""A gallery knows its files again, and a run and its exports know that they are one model."""

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from framework.errors import CheckpointError, ConfigError, DataError
from suites.engine.cli import main as paddock
from suites.engine.config.building import read_config
from suites.engine.predict.gallery import (
    Embedder,
    build_gallery,
    changes_of,
    find_alike,
    open_gallery,
    stale_items,
    update_gallery,
)
from suites.engine.predict.gallery import files as gallery_files
from suites.engine.predict.gallery.files import FILE, Changes, Files, Stamp
from suites.engine.predict.inference import export_run, open_model
from suites.engine.predict.origin import origin_of_export, origin_of_run
from suites.engine.predict.quantizing import Quantization
from suites.engine.run.folder import RunFolder, best_weights
from tests.suites.retrieval.helpers import pictures


@pytest.fixture(scope="module")
def embedder(run):
    return Embedder(run)


@pytest.fixture
def gallery(embedder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pictures(tmp_path / "photos", {"blue": 3, "green": 3})
    build_gallery(embedder, ["photos"], tmp_path / "g")
    return tmp_path / "g"


def alter(root):
    """One picture becomes another, one goes, one comes."""
    shutil.copy(root / "green" / "0.png", root / "blue" / "0.png")
    (root / "blue" / "1.png").unlink()
    shutil.copy(root / "green" / "1.png", root / "blue" / "new.png")


def test_find_says_which_files_changed_went_and_came(run, gallery, tmp_path, capsys):
    alter(tmp_path / "photos")
    asked = str(tmp_path / "photos" / "green" / "0.png")
    assert paddock(["index", "find", str(run), str(gallery), asked, "--json"]) == 0
    told = capsys.readouterr()
    found = {each["name"]: each.get("file") for each in json.loads(told.out)["found"]}
    assert found["photos/blue/0.png"] == "changed" and found["photos/blue/1.png"] == "gone"
    assert found["photos/green/0.png"] is None
    assert "1 changed (photos/blue/0.png), 1 gone (photos/blue/1.png), 1 not in it yet (photos/blue/new" in told.err
    assert paddock(["infer", str(run), asked, "--similar", str(gallery)]) == 0
    told = capsys.readouterr()
    assert "photos/blue/1.png  (gone since the gallery was written)" in told.out and "index update" in told.err


def test_duplicates_leave_out_what_is_no_longer_there(run, gallery, tmp_path, capsys):
    shutil.copy(tmp_path / "photos" / "green" / "0.png", tmp_path / "photos" / "green" / "copy.png")
    assert paddock(["index", "update", str(run), str(gallery)]) == 0
    assert "7 vectors; files: 0 changed, 0 gone, 1 new" in capsys.readouterr().out
    assert paddock(["index", "duplicates", str(gallery), "--least", "0.9999"]) == 0
    assert "photos/green/0.png  photos/green/copy.png" in capsys.readouterr().out
    (tmp_path / "photos" / "green" / "copy.png").unlink()
    assert paddock(["index", "duplicates", str(gallery), "--least", "0.9999"]) == 0
    told = capsys.readouterr()
    assert "copy.png" not in told.out and "1 items whose files changed or are gone are left out" in told.err


def test_an_updated_gallery_is_that_built_anew_also_from_another_folder(embedder, gallery, tmp_path, monkeypatch):
    alter(tmp_path / "photos")
    build_gallery(embedder, ["photos"], tmp_path / "anew")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    done = update_gallery(embedder, gallery)
    assert done.total == 6 and done.changes.new == ("photos/blue/new.png",)
    index, anew = open_gallery(gallery, embedder), open_gallery(tmp_path / "anew", embedder)
    assert sorted(index.names) == sorted(anew.names)
    order = [anew.names.index(name) for name in index.names]
    np.testing.assert_allclose(index.vectors, anew.vectors[order], atol=1e-5)
    assert changes_of(index, gallery, embedder) == Changes() and stale_items(index, gallery, Changes()) == {}
    assert update_gallery(embedder, gallery).changes == Changes()


def test_a_file_that_was_only_touched_did_not_change(embedder, gallery, tmp_path, monkeypatch):
    os.utime(tmp_path / "photos" / "blue" / "0.png", ns=(1, 1))
    index = open_gallery(gallery)
    assert changes_of(index, gallery) == Changes()
    monkeypatch.setattr(gallery_files, "_COMPARED", 0)  # no bytes are left to compare it
    assert changes_of(index, gallery).changed == {"photos/blue/0.png"}


def test_files_that_could_not_be_read_are_not_new(embedder, gallery, tmp_path):
    (tmp_path / "photos" / "blue" / "torn.png").write_bytes(b"no picture")
    done = update_gallery(embedder, gallery)
    assert done.total == 6 and "torn.png" in done.skipped[0]
    assert changes_of(open_gallery(gallery), gallery, embedder) == Changes()


def test_a_gallery_far_from_its_files_answers_and_says_that_it_knows_nothing(run, embedder, gallery, tmp_path, capsys):
    (tmp_path / "photos").rename(tmp_path / "moved")
    assert paddock(["index", "find", str(run), str(gallery), str(tmp_path / "moved" / "blue" / "0.png")]) == 0
    told = capsys.readouterr()
    assert "photos/blue/0.png\n" in told.out and "none of its files is where it was" in told.err
    with pytest.raises(DataError, match="none of its files is where it was, below"):
        update_gallery(embedder, gallery)


def test_exports_in_float32_are_the_same_model_and_ones_in_8_bits_are_told_apart(
    run, embedder, gallery, tmp_path, caplog
):
    asked = [str(tmp_path / "photos" / "green" / "1.png")]
    ((_, wanted),) = find_alike(open_gallery(gallery, embedder), embedder, asked, 3, [])
    export_run(run, tmp_path / "whole")
    export_run(run, tmp_path / "onnx", onnx=True)
    for path in (tmp_path / "whole", tmp_path / "onnx", tmp_path / "onnx" / "model.onnx"):
        other = Embedder(path)
        ((_, found),) = find_alike(open_gallery(gallery, other), other, asked, 3, [])
        assert [each.name for each in found] == [each.name for each in wanted] and not caplog.records
    export_run(run, tmp_path / "small", quantization=Quantization("static"))
    small = Embedder(tmp_path / "small")
    assert open_gallery(gallery, small).names and "rounded to 8 bits another way" in caplog.text
    with pytest.raises(CheckpointError, match="update it with the model that it was built with"):
        update_gallery(small, gallery)
    build_gallery(small, ["photos"], tmp_path / "g8")
    caplog.clear()
    assert open_gallery(tmp_path / "g8", small).names and not caplog.records
    assert open_gallery(tmp_path / "g8", embedder).names and "rounded to 8 bits" in caplog.text


def test_a_network_of_other_settings_on_the_same_weights_is_another_model(run):
    config, weights = read_config(run), best_weights(RunFolder(run))
    whole = origin_of_run(config, weights)
    assert origin_of_run(config.changed({"model": {"pooling": {"$replace": {"type": "Average"}}}}), weights) != whole
    assert origin_of_run(config.changed({"data": {"root": "elsewhere"}}), weights) == whole


@pytest.mark.parametrize("said", [3, {"network": 3}, []])
def test_an_origin_of_another_form_is_a_clear_error(said):
    with pytest.raises(CheckpointError, match=r"'origin' is .*export it again"):
        origin_of_export({"origin": said}, [], "here")


def damaged(part):
    stamps = {"a": Stamp(1, 2, bytes(16)), "b": Stamp(3, 4, bytes(16))}
    files = Files("/", ("w",), stamps, np.array([0, 1, -1]))
    facts, items = files.facts(), 3
    if part == "facts":
        facts = None
    elif part == "names":
        facts["names"] = ["a"]
    elif part == "twice":
        facts["names"] = ["a", "a"]
    elif part == "items":
        items = 2
    else:
        files = Files("/", ("w",), stamps, np.array([0, 1, 7]))
    return files, facts, items


@pytest.mark.parametrize("part", ["facts", "names", "twice", "items", "owners"])
def test_damaged_facts_of_files_are_a_clear_error(tmp_path, part):
    files, facts, items = damaged(part)
    files.write(tmp_path / FILE)
    with pytest.raises(CheckpointError, match="build the gallery again"):
        Files.read(tmp_path / FILE, facts, items)


def test_a_gallery_that_kept_no_files_is_to_be_built_again(gallery, tmp_path):
    index = open_gallery(gallery)
    del index.about["files"]
    index.save(tmp_path / "old")
    with pytest.raises(CheckpointError, match="written by an earlier version, which kept no files; build it again"):
        open_gallery(tmp_path / "old")


def test_a_model_that_cannot_be_known_again_makes_no_gallery(run):
    with pytest.MonkeyPatch.context() as patch:
        nameless = replace(open_model(run), origin=None)
        patch.setattr("suites.engine.predict.gallery.galleries.open_model", lambda path, device: nameless)
        with pytest.raises(ConfigError, match="could be known again"):
            Embedder(run)
