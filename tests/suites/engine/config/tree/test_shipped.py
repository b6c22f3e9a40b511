"""The configs that come with Paddock are found by name, from any folder; a path that exists wins."""

import tomllib
from pathlib import Path

import pytest

from framework.errors import ConfigError
from suites.engine.config import load_config
from suites.engine.config.tree.shipped import configs_folder, shipped_configs

ROOT = Path(__file__).resolve().parents[5]


def test_the_wheel_has_the_folder_of_the_clone():
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]["wheel"]["packages"]
    assert packages["suites/configs"] == "configs"
    assert configs_folder() == ROOT / "configs"
    leaves = [path for path in (ROOT / "configs").rglob("*.yml") if "_base_" not in path.parts]
    assert [ROOT / "configs" / f"{name}.yml" for name in shipped_configs()] == sorted(leaves)


@pytest.mark.parametrize("ending", ["", ".yml"])
def test_a_config_is_found_by_name_from_any_folder(ending, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = load_config(f"detection/yolov3_demo{ending}", check=False)
    assert config.as_dict() == load_config(ROOT / "configs/detection/yolov3_demo.yml", check=False).as_dict()


def test_a_path_that_exists_wins(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "detection").mkdir()
    (tmp_path / "detection" / "yolov3_demo.yml").write_text("suite: mine\n")
    assert load_config("detection/yolov3_demo.yml", check=False).as_dict() == {"suite": "mine"}


def test_an_unknown_name_is_one_error_with_the_nearest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_config("detection/yolov3_dmo")
    assert str(caught.value).startswith(
        "detection/yolov3_dmo: there is no such config file; did you mean 'detection/yolov3_demo'"
    )
    assert "`paddock config list configs` shows those" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["../pyproject.toml", "/etc/hostname.yml", "detection"])
def test_only_configs_inside_the_folder_are_found(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="there is no such config file"):
        load_config(name)


def test_a_users_config_extends_one_of_them(tmp_path):
    path = tmp_path / "mine.yml"
    path.write_text("extends: detection/yolov3_demo\nruntime: {seed: 7}\n")
    assert load_config(path, check=False)["runtime.seed"] == 7
    path.write_text("extends: _base_/schedule/cosine.yml\n")
    assert load_config(path, check=False).as_dict()["schedule"]["type"] == "Cosine"


def test_a_base_beside_the_file_wins(tmp_path):
    (tmp_path / "_base_").mkdir()
    (tmp_path / "_base_" / "runtime.yml").write_text("runtime: {seed: 9}\n")
    (tmp_path / "mine.yml").write_text("extends: _base_/runtime.yml\n")
    assert load_config(tmp_path / "mine.yml", check=False).as_dict() == {"runtime": {"seed": 9}}
