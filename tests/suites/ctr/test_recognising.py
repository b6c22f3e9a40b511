"""A click log is recognised, and ctr/clicks trains on the schema that is guessed and kept in the run."""

import random
from pathlib import Path

import pytest

from framework.errors import ConfigError
from suites.ctr.inspection.recognising import recognise
from suites.engine.cli.data import main
from suites.engine.config.building import read_config
from suites.engine.contract.recognising import recognise as recognised


def log(path, count=200, head="click,user_id,ad,price"):
    drawn = random.Random(0)
    lines = [
        f"{drawn.randrange(2)},u{drawn.randrange(30)},a{drawn.randrange(9)},{drawn.random():.3f}" for _ in range(count)
    ]
    path.write_text("\n".join([head, *lines]))
    return path


def test_the_schema_is_guessed_and_written_into_the_config(tmp_path):
    path = log(tmp_path / "log, 50% (a).csv")
    config = read_config(Path("ctr/clicks"), [f"data.root={path}"]).as_dict()
    assert config["data"]["schema"]["labels"] == {"click": {}}
    assert list(config["data"]["schema"]["features"]) == ["user_id", "ad", "price"]
    found = recognise(path)
    assert found.config == "ctr/clicks" and "label click, 3 features, 2 of them sparse" in found.what


def test_a_set_that_names_no_file_is_refused(tmp_path):
    (tmp_path / "mine.yml").write_text("extends: ctr/clicks\ndata: {train: {dataset: {root: null}}}\n")
    with pytest.raises(ConfigError, match=r"data\.schema: auto: data\.train\.dataset names no file"):
        read_config(tmp_path / "mine.yml")


def test_data_check_names_the_command(tmp_path, capsys):
    path = log(tmp_path / "log.csv")
    assert main(["check", str(path)]) == 0
    assert f"paddock train ctr/clicks -o data.root={path}" in capsys.readouterr().out


def test_long_texts_with_two_labels_are_texts_first(tmp_path):
    lines = [f"{i % 2},what a fine and moving film, number {i}" for i in range(40)]
    (tmp_path / "reviews.tsv").write_text("\n".join(["click\ttext", *(line.replace(",", "\t", 1) for line in lines)]))
    assert next(each.config for each in recognised(tmp_path / "reviews.tsv").found) == "nlp/classify"
