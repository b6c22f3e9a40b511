"""A teacher for all tests of the folder, which none of them may change."""

import shutil

import pytest

from tests.suites.nlp.slim import toy


@pytest.fixture(scope="package")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("taught")
    toy.write_data(folder)
    toy.train_teacher(folder, steps=60)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    """A copy of the data and the teacher's run."""
    for path in made.iterdir():
        (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / path.name)
    return tmp_path
