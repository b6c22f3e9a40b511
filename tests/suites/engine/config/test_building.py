"""What a config leaves to the data: `data.num_classes: auto`."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from framework.errors import ConfigError, DataError
from suites.engine.config.building import read_config
from suites.engine.config.tree import files
from tests.suites.detection.datasets.helpers import write_voc

FINETUNE = Path("classification/finetune_mobilenetv2")


@pytest.fixture
def photos(tmp_path):
    for name in ("ant", "bee", "cat"):
        (tmp_path / name).mkdir()
        for i in range(5):
            cv2.imwrite(str(tmp_path / name / f"{i}.png"), np.full((8, 8, 3), 40 * i, np.uint8))
    return tmp_path


def test_classes_are_counted_in_the_training_set_and_written_down(photos):
    config = read_config(FINETUNE, [f"data.root={photos}", "data.num_classes=auto"])
    assert config["data.num_classes"] == config["model.num_classes"] == 3
    assert config.digest() == read_config(FINETUNE, [f"data.root={photos}", "data.num_classes=3"]).digest()


def test_a_missing_training_set_is_one_error(tmp_path):
    with pytest.raises((DataError, ConfigError), match="nowhere"):
        read_config(FINETUNE, [f"data.root={tmp_path / 'nowhere'}", "data.num_classes=auto"])


def test_data_that_want_to_be_told_their_classes_say_so(photos):
    given = ["data.train.dataset.holdout=auto", "data.num_classes=auto"]  # any argument that waits for the number
    with pytest.raises(ConfigError, match="auto: ImageFolder does not know its classes"):
        read_config(FINETUNE, [f"data.root={photos}", *given])


def test_a_config_whose_classes_are_written_is_read_once(photos, monkeypatch):
    read = []
    once = files.read_file
    monkeypatch.setattr(files, "read_file", lambda path, name: read.append(path) or once(path, name))
    read_config(FINETUNE, [f"data.root={photos}", "data.num_classes=3"])
    assert len(read) == len(set(read)) > 1


def test_a_training_set_without_any_class_is_refused_by_name(tmp_path):
    root = write_voc(tmp_path, {"a": [], "b": []})
    given = [f"data.root={root}", "data.train.dataset.split=null", "data.num_classes=auto"]
    with pytest.raises(ConfigError, match="auto: no object of VocDetection names a class; look at its annotations"):
        read_config(Path("detection/ssd300_mobilenetv2_voc"), given)
