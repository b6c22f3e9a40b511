"""What suites say of a stranger's path: the reason why one cannot read it comes through."""

import ast
import re
import zipfile
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from framework.errors import DataError
from suites.engine.cli.data import inspector_of, main
from suites.engine.config.building import read_config
from suites.engine.contract.recognising import recognise, recogniser
from suites.engine.data.skipping import OtherKindError
from suites.engine.registry import REGISTRY

ROOT = Path(__file__).resolve().parents[4]
LATIN = "text;label\n" + "".join(f"ein schöner Film über Zürich Nummer {i};{i % 2}\n" for i in range(40))
CLICKS = "click,town,price\n" + "".join(f"{i % 2},Zürich{i % 5},{i}.5\n" for i in range(40))


@pytest.mark.parametrize(("text", "name"), [(LATIN, "a.csv"), (CLICKS, "b.csv"), (LATIN.replace(";", "\t"), "c.tsv")])
def test_a_table_of_another_encoding_is_refused_by_that_reason(tmp_path, capsys, text, name):
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    assert main(["check", str(tmp_path / name)]) == 2
    said = capsys.readouterr().err
    assert f"{name}:2: is no UTF-8 text (byte 0x" in said and "no suite knows" not in said


@pytest.mark.parametrize("suite", ["classification", "detection", "segmentation", "video"])
def test_a_damaged_zip_is_refused_by_that_reason(tmp_path, capsys, suite):
    path = tmp_path / "photos.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("cat/1.jpg", b"x" * 1000)
    path.write_bytes(path.read_bytes()[:-30])
    assert main(["check", str(path)]) == 2
    assert "photos.zip" in (said := capsys.readouterr().err) and "no suite knows" not in said
    view = REGISTRY.seen_by(suite)
    with pytest.raises(DataError, match=r"photos.zip"):
        view.get("recogniser", suite)(path)


def photo(path, values=256):
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (24, 32) if values < 256 else (24, 32, 3)
    pixels = np.random.default_rng(zlib.crc32(path.as_posix().encode())).integers(0, values, shape, np.uint8)
    assert cv2.imwrite(str(path), pixels)


def classes(root):
    for name in ("cat/1", "cat/2", "dog/1", "dog/2"):
        photo(root / f"{name}.png")


def label_maps(root):
    for name in range(6):
        photo(root / f"images/{name}.png")
        photo(root / f"labels/{name}.png", 3)


def clips(root):
    for name in ("wave/a", "wave/b", "clap/a", "clap/b"):
        for number in range(8):
            photo(root / f"{name}/{number}.png")


def categories(root):
    for name in ("train/good/1", "train/good/2", "test/good/3", "test/hole/4"):
        photo(root / f"{name}.png")
    photo(root / "ground_truth/hole/4_mask.png", 2)


def folders_of_texts(root):
    for name in ("good/1", "good/2", "bad/1", "bad/2"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / f"{name}.txt").write_text(f"a film that is {name}")


def table_of_texts(root):
    rows = (f"a film of {number} words\t{number % 2}\n" for number in range(20))
    (root / "train.tsv").write_text("text\tlabel\n" + "".join(rows))


def lines(root):
    for number in range(10):
        photo(root / f"lines/{number}.png")
    (root / "rec_gt.txt").write_text("".join(f"lines/{number}.png\tline {number}\n" for number in range(10)))


def pages(root):
    for part, number in (("train", 1), ("train", 2), ("test", 3)):
        photo(root / f"{part}_images/{number}.jpg")
        (root / f"{part}_gts").mkdir(exist_ok=True)
        (root / f"{part}_gts/gt_{number}.txt").write_text("1,1,9,1,9,6,1,6,word\n")


SETS = {
    classes: "classification/photos", label_maps: "segmentation/photos", clips: "video/clips",
    lines: "ocr/svtr_lcnet_lines", pages: "ocr/dbnet_icdar2015", categories: "anomaly/patchcore",
    folders_of_texts: "nlp/classify", table_of_texts: "nlp/classify",
}  # fmt: skip


@pytest.mark.parametrize("make", SETS, ids=lambda make: make.__name__)
def test_a_set_is_known_where_all_of_it_lies_in_a_folder_or_a_zip(tmp_path, make):
    said = []
    for lies in ("", "my set", "a/b"):
        root = tmp_path / f"set{len(said)}"
        (root / lies).mkdir(parents=True)
        make(root / lies)
        if lies:
            (root / "README.txt").write_text("what this is")
        with zipfile.ZipFile(f"{root}.zip", "w") as archive:
            for path in sorted(root.rglob("*.*")):
                archive.write(path, path.relative_to(root))
                archive.writestr(f"__MACOSX/{path.relative_to(root).parent}/._{path.name}", b"")
        for place in (root, Path(f"{root}.zip")):
            best = recognise(place).found[0]
            said.append((best.config, best.what.replace(str(place), "")))
            config = read_config(Path(best.config), best.overrides)
            assert len(inspector_of(config).opened(config, "data.train.dataset")) >= 2
    assert {config for config, _ in said} == {SETS[make]}
    assert len({what for _, what in said}) == 1


def test_a_list_of_few_labels_is_none_of_lines(tmp_path):
    lines(tmp_path)
    (tmp_path / "rec_gt.txt").write_text("".join(f"lines/{number}.png\t{number % 2}\n" for number in range(10)))
    assert [found.config for found in recognise(tmp_path).found if found.config.startswith("ocr/")] == []


def test_what_is_of_no_kind_is_said_to_be_unknown(tmp_path, capsys):
    (tmp_path / "notes.md").write_text("hello")
    assert recognise(tmp_path / "notes.md").refused == []
    assert main(["check", str(tmp_path / "notes.md")]) == 2 and "no suite knows" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("price\n1\n2\n3\n", "no delimiter cuts its lines into columns .*a click log has a label and features"),
        ("label,a,b\n1,,\n0,,\n1,,\n", r"no column beside the label 'label' can be a feature \(a: it holds 0 diff"),
        ("label,a,b\n,,\n,,\n,,\n", "no column has two values, so none can be a click"),
        ("label,a\n", "has 0 rows; some dozen are needed"),
    ],
    ids=["one column", "features missing", "all missing", "names alone"],
)
def test_of_a_table_that_nobody_knows_each_suite_says_what_it_misses(tmp_path, capsys, text, match):
    (tmp_path / "a.csv").write_text(text)
    assert main(["check", str(tmp_path / "a.csv")]) == 2
    said = capsys.readouterr().err
    assert re.search(match, said) and "no column holds sentences" in said


def test_a_recogniser_hands_on_why_it_refuses_and_not_what_is_of_another_kind(tmp_path):
    def answer(error):
        def look(path):
            raise error

        return recogniser((".csv",))(look)

    assert answer(OtherKindError("x"))(tmp_path) is None
    assert answer(DataError("x"))(tmp_path / "a.txt") is None  # not asked
    with pytest.raises(DataError, match="why"):
        answer(DataError("why"))(tmp_path)
    with pytest.raises(DataError, match=r"cannot be read \(Permission denied\)"):
        answer(PermissionError(13, "Permission denied"))(tmp_path / "a.csv")


def test_no_recogniser_swallows_an_exception():
    """They are wrapped by `recogniser`, which tells data of another kind from data that cannot be read."""
    found = 0
    for path in (ROOT / "suites").rglob("*.py"):
        if path.name == "recognising.py" and path.parent.name == "contract":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name == "recognise":
                found += 1
                assert any("Name(id='recogniser'" in ast.dump(each) for each in node.decorator_list), path
                handlers = [each for each in ast.walk(node) if isinstance(each, ast.ExceptHandler)]
                assert all(any(isinstance(part, ast.Raise) for part in ast.walk(each)) for each in handlers), path
    assert found >= 6
