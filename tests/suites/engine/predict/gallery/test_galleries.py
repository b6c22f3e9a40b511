"""Galleries: what was put in is found again, by the same model only, and copies are named."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from framework.errors import AttributeValueError, CheckpointError, ConfigError, DataError
from suites.engine.cli import index, infer
from suites.engine.cli import main as paddock
from suites.engine.contract.processor import Processor
from suites.engine.neighbours.items import ItemIndex
from suites.engine.predict.gallery import Alike, Embedder, alike_pairs, build_gallery, find_alike, open_gallery
from suites.engine.predict.inference import Model, open_model
from suites.engine.predict.inputs import new_name
from suites.engine.predict.objects import Finder
from tests.suites.retrieval.helpers import pictures


@pytest.fixture
def photos(tmp_path):
    root = tmp_path / "photos"
    pictures(root, {"blue": 3, "green": 3, "red": 3})
    shutil.copy(root / "blue" / "0.png", root / "blue" / "copy.png")
    return root


def test_a_name_that_comes_again_takes_no_others_place():
    assert new_name("a", {}) == "a" and new_name("a", {"a": 0, "a (2)": 1}) == "a (3)"


def test_what_was_put_in_is_found_first_and_a_copy_beside_it(run, photos, tmp_path, capsys):
    gallery = tmp_path / "gallery"
    assert paddock(["index", "build", str(run), str(photos), "--output", str(gallery)]) == 0
    assert "10 vectors" in capsys.readouterr().out
    asked = str(photos / "blue" / "copy.png")
    assert paddock(["index", "find", str(run), str(gallery), asked, "--count", "2", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    names = [each["name"] for each in row["found"]]
    assert row["name"] == asked and sorted(names) == [str(photos / "blue" / "0.png"), asked]
    assert row["found"][0]["cosine"] == pytest.approx(1, abs=1e-5)
    assert paddock(["index", "duplicates", str(gallery), "--least", "0.999999"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"1.000  {photos / 'blue' / '0.png'}  {asked}", "1 pairs with a cosine of 0.999999 or more"]


def test_names_that_come_twice_stay_apart_and_what_cannot_be_read_is_told(run, photos, tmp_path, capsys):
    (photos / "red" / "torn.png").write_bytes(b"no picture")
    words = ["index", "build", str(run), str(photos), str(photos / "red" / "0.png"), "--output", str(tmp_path / "g")]
    assert paddock(words) == 0
    told = capsys.readouterr()
    assert "11 vectors" in told.out and "torn.png" in told.err and "skipped" in told.err
    assert f"{photos / 'red' / '0.png'} (10)" in open_gallery(tmp_path / "g").names
    assert paddock(words) == 2 and "is there already" in capsys.readouterr().err


def test_a_gallery_of_another_model_or_pooling_is_refused(run, photos, tmp_path):
    build_gallery(Embedder(run), [str(photos)], tmp_path / "g")
    other = tmp_path / "other"
    shutil.copytree(run, other)
    for file in (other / "weights").glob("*.safetensors"):
        arrays = load_file(file)
        save_file({name: array * np.float32(1.01) for name, array in arrays.items()}, file)
    with pytest.raises(CheckpointError, match="its vectors are of another model"):
        open_gallery(tmp_path / "g", Embedder(other))
    index = ItemIndex.open(tmp_path / "g")
    index.about["pooling"] = "cls"
    index.save(tmp_path / "h")
    with pytest.raises(CheckpointError, match=r"of another pooling \(cls\)"):
        open_gallery(tmp_path / "h", Embedder(run))
    with pytest.raises(ConfigError, match="there is no pooling 'cls'; there are vector"):
        Embedder(run, "cls")


def test_no_gallery_damaged_or_empty_is_one_clear_error(run, photos, tmp_path):
    ItemIndex(["a"], np.ones((1, 2), np.float32)).save(tmp_path / "items")
    with pytest.raises(CheckpointError, match="is no gallery"):
        open_gallery(tmp_path / "items")
    with pytest.raises(CheckpointError, match="nowhere: there is no index"):
        open_gallery(tmp_path / "nowhere")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "0.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match="none of 1 inputs could be read"):
        build_gallery(Embedder(run), [str(tmp_path / "broken")], tmp_path / "g")
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize("count", [0, 1001])
def test_a_count_out_of_range_is_refused(run, photos, tmp_path, count):
    build_gallery(Embedder(run), [str(photos)], tmp_path / "g")
    with pytest.raises(AttributeValueError, match=f"index: {count} items are asked for; it must be 1 to 1000"):
        list(find_alike(open_gallery(tmp_path / "g"), Embedder(run), [str(photos)], count, []))


@pytest.mark.parametrize("least", [float("nan"), 1.5, -1.0])
def test_a_cosine_out_of_range_is_refused(least):
    with pytest.raises(AttributeValueError, match=f"index: the least cosine is {least}"):
        alike_pairs(ItemIndex(["a"], np.ones((1, 2), np.float32)), least)


def test_pairs_are_all_of_a_group_each_once(tmp_path):
    vectors = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0.6, 0.8]], np.float32)
    index = ItemIndex(list("abcde"), vectors)
    found = [(pair.first, pair.second, pair.cosine) for pair in alike_pairs(index, 0.8)]
    assert found == [("a", "b", 1.0), ("a", "c", 1.0), ("b", "c", 1.0), ("d", "e", 0.8)]


def test_a_model_without_vectors_says_which_have_some(run):
    model = open_model(run)
    model.processor.poolings = ()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ConfigError, match="this model gives no vectors"):
        patch.setattr("suites.engine.predict.gallery.galleries.open_model", lambda path, device: model)
        Embedder(run)


class Halves(Processor):
    """Finds the left half of each picture, and in those that are not blue the right half too."""

    def metadata(self):
        return {"class_names": ["half"]}

    @classmethod
    def from_metadata(cls, metadata):
        return cls()

    def read(self, path):
        raise NotImplementedError

    def prepare(self, items):
        return {"x": np.stack(items)}

    def results(self, outputs, batch):
        boxes = [{"box": [0, 0, 16, 32], "class": "half"}, {"box": [16, 0, 32, 32], "class": "half"}]
        return [boxes[: 0 if image[..., 2].mean() > 200 else 2] for image in batch["x"]]

    def draw(self, item, result):
        raise NotImplementedError


def test_objects_of_a_detector_are_in_a_gallery_each(run, photos, tmp_path):
    finder = Finder(Model(Halves(), ("x",), dict, lambda: dict))
    embedder = Embedder(run, finder=finder)
    count, skipped = build_gallery(embedder, [str(photos)], tmp_path / "g")
    gallery = open_gallery(tmp_path / "g", embedder)
    assert count == 12 and len(skipped) == 4 and "blue/0.png: no object was found in it" in skipped[0]
    assert f"{photos / 'red' / '2.png'}#1" in gallery.names
    ((name, found), _) = find_alike(gallery, embedder, [str(photos / "green" / "0.png")], 2, [])
    assert name == f"{photos / 'green' / '0.png'}#0" and found[0] == Alike(name, pytest.approx(1, abs=1e-5))
    with pytest.raises(CheckpointError, match="another model"):
        open_gallery(tmp_path / "g", Embedder(run))


def test_infer_prints_what_is_most_alike_as_find_does(run, photos, tmp_path, capsys):
    build_gallery(Embedder(run), [str(photos)], tmp_path / "g")
    asked = str(photos / "green" / "0.png")
    assert index.main(["find", str(run), str(tmp_path / "g"), asked]) == 0
    expected = capsys.readouterr().out
    assert infer.main([str(run), asked, "--similar", str(tmp_path / "g")]) == 0
    assert capsys.readouterr().out == expected and "green" in expected
    assert infer.main([str(run), asked, "--similar", str(tmp_path / "g"), "--output", "o", "--with", "x"]) == 2
    assert "--similar prints names alone; leave out --output, --with" in capsys.readouterr().err
