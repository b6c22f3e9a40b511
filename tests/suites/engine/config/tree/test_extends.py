"""`extends` lays files over each other from left to right; missing and circular files are explained with the chain."""

import pytest

from framework.errors import ConfigError


def test_files_are_merged_left_to_right_then_the_file_itself(load):
    config = load(
        check=False,
        one="a: 1\nb: 1\nc: 1\nd: {x: 1, y: 1}",
        two="b: 2\nc: 2\nd: {y: 2}",
        x="extends: [one.yml, two.yml]\nc: 3",
    )
    assert config.as_dict() == {"a": 1, "b": 2, "c": 3, "d": {"x": 1, "y": 2}}


def test_a_single_base_may_be_a_string_and_paths_are_relative_to_the_file(load, write, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "base.yml").write_text("extends: ../root.yml\na: 1")
    assert load(check=False, root="r: 0", x="extends: sub/base.yml").as_dict() == {"r": 0, "a": 1}


def test_bases_that_share_a_base_do_not_undo_each_other(load):
    config = load(
        check=False,
        root="a: 0\nb: 0",
        one="extends: root.yml\na: 1",
        two="extends: root.yml\nb: 2",
        x="extends: [one.yml, two.yml]",
    )
    assert config.as_dict() == {"a": 1, "b": 2}


def test_a_cycle_shows_the_chain_and_the_line(load):
    with pytest.raises(
        ConfigError, match=r"^b\.yml:2: extends: these files extend each other: x\.yml -> b\.yml -> x\.yml$"
    ):
        load(b="a: 1\nextends: [x.yml]", x="extends: b.yml")


def test_a_file_that_extends_itself(load):
    with pytest.raises(ConfigError, match=r"x\.yml:1: extends: .*: x\.yml -> x\.yml"):
        load("extends: x.yml")


def test_a_missing_base_names_the_line_the_nearest_file_and_the_way(load):
    with pytest.raises(ConfigError, match=r"^x\.yml:2: extends: there is no file bsae\.yml; did you mean 'base\.yml'"):
        load(base="a: 1", x="a: 1\nextends: [bsae.yml]")
    with pytest.raises(ConfigError, match=r"y\.yml:1: .* no file gone\.yml.* through x\.yml -> y\.yml -> gone\.yml"):
        load(y="extends: gone.yml", x="extends: y.yml")


def test_a_missing_config(load, tmp_path):
    from suites.engine.config import load_config

    load(check=False, yolo="a: 1")
    with pytest.raises(ConfigError, match=r"yoloo\.yml: there is no such config file; did you mean 'yolo\.yml'"):
        load_config("yoloo.yml")
    with pytest.raises(ConfigError, match="is a folder, not a config file"):
        load_config(tmp_path)


@pytest.mark.parametrize("data", [b"a,b\n1,2\n", b"PK\x03\x04\xff"])
def test_data_in_the_place_of_a_config_are_told_what_to_do_with_them(tmp_path, data):
    from suites.engine.config.building import read_config

    (tmp_path / "photos").write_bytes(data)
    with pytest.raises(ConfigError, match=r"`paddock data check \S*photos` says what trains on it"):
        read_config(tmp_path / "photos")
    with pytest.raises(ConfigError, match=r"is no run \(config.yml\); where it is data, `paddock data check \S+` says"):
        read_config(tmp_path)


@pytest.mark.parametrize("value", ["3", "{a: b}", "[a.yml, 3]", "null"])
def test_extends_takes_files_only(load, value):
    with pytest.raises(ConfigError, match=r"x\.yml:1: extends: expects a file or a list of files|no file"):
        load(f"extends: {value}", check=False, a="a: 1", x=f"extends: {value}")
