"""What an export states beside its Program is checked before it is used, and what Paddock writes follows no link."""

import json
import shutil

import numpy as np
import pytest

from framework.errors import CheckpointError
from suites.engine.predict.inference import export_run, infer_files, open_model
from suites.engine.train.training import train
from suites.vision.pictures.images import write_image
from tests.suites.engine import toy  # noqa: F401  (registers the suite)

CONFIG = """
suite: toy
data: {samples: 20}
optimizer: {type: Momentum, momentum: 0.9}
schedule: {type: Constant, base_lr: 0.02, reference_batch: 4}
runtime: {steps: 2, seed: 3, workers: 0, evaluation: {every: 0, pictures: 0}}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    (folder / "toy.yml").write_text(CONFIG)
    train(folder / "toy.yml", runs=folder, name="run")
    export_run(folder / "run", folder / "export")
    return folder


@pytest.fixture
def changed(made, tmp_path):
    """Writes a copy of the export whose extra says something else."""

    def write(key, value):
        shutil.copytree(made / "export", tmp_path / "export")
        path = tmp_path / "export" / "program.json"
        content = json.loads(path.read_text())
        extra = content["extra"]
        extra.pop(key) if value is ... else extra.update({key: value})
        path.write_text(json.dumps(content))
        return tmp_path / "export"

    return write


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("suite", ..., "lacks 'suite', which `paddock export` writes"),
        ("processor", ..., "lacks 'processor'"),
        ("outputs", ..., "lacks 'outputs'"),
        ("suite", ["toy"], "'suite' is a list"),
        ("processor", "x", "'processor' is a str"),
        ("outputs", {"a": 1}, "'outputs' is a dict"),
        ("imports", 5, "'imports' is a int"),
        ("outputs", [], "names 0 outputs, and the Program has"),
        ("outputs", ["a"] * 9, "names 9 outputs, and the Program has"),
    ],
)
def test_an_export_that_states_something_else_is_refused_with_its_file(changed, key, value, said):
    folder = changed(key, value)
    with pytest.raises(CheckpointError) as caught:
        open_model(folder)
    assert said in str(caught.value) and "export/program.json: " in str(caught.value)
    assert "export it again" in str(caught.value)


@pytest.mark.parametrize("what", ["program.json", "."])
def test_an_export_replaces_links_and_follows_no_link_out_of_its_folder(made, tmp_path, what):
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine").write_text("mine")
    output = tmp_path / "out"
    output.mkdir()
    names = {path.name for path in (made / "export").iterdir()} if what == "." else {what}
    for name in names:
        (output / name).symlink_to(home / "mine")
    export_run(made / "run", output)
    assert not any((output / name).is_symlink() for name in names)
    assert (home / "mine").read_text() == "mine" and [p.name for p in home.iterdir()] == ["mine"]


def test_what_infer_writes_follows_no_link_out_of_its_folder(made, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine").write_text("mine")
    (tmp_path / "out").mkdir()
    for name in ("predictions.json", "grey.jpg"):
        (tmp_path / "out" / name).symlink_to(home / "mine")
    write_image(tmp_path / "grey.png", np.full((8, 8, 3), 99, np.uint8))
    infer_files(open_model(made / "export"), [tmp_path / "grey.png"], tmp_path / "out")
    assert (home / "mine").read_text() == "mine"
    assert all((tmp_path / "out" / name).is_file() for name in ("predictions.json", "grey.jpg"))
    assert not (tmp_path / "out" / "predictions.json").is_symlink()
