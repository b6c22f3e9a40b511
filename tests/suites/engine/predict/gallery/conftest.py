"""A small run that gives vectors of pictures."""

import pytest

from suites.engine.train.training import train
from tests.suites.retrieval.helpers import pictures
from tests.suites.retrieval.test_task import SMALL


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gallery")
    pictures(folder / "data", {"a": 8, "b": 8, "c": 4, "d": 4})
    (folder / "small.yml").write_text(SMALL.format(root=folder / "data"), encoding="utf-8")
    train(folder / "small.yml", [], runs=folder, name="run")
    return folder / "run"
