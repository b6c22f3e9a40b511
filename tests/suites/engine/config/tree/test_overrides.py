"""`-o path=value` sets one value in YAML syntax, into mappings and lists, by the rules of a child file."""

# ruff: noqa: E501 (messages are tested whole)

import pytest

from framework.errors import ConfigError
from tests.suites.engine.config.world import GOOD


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("data.train.transforms[resize].size=416", "data.train.transforms[resize].size", 416),
        ("data.train.transforms[1].size=416", "data.train.transforms[resize].size", 416),
        ("data.train.transforms[-1].size=[4, 5]", "data.train.transforms[resize].size", [4, 5]),
        ("seed=7", "seed", 7),
        ("optimizer.momentum=1e-1", "optimizer.momentum", 0.1),
        ("model.name='1'", "model.name", "1"),
        ("model.name=a=b", "model.name", "a=b"),
        ("model.name=run_${data.num_classes}", "model.name", "run_3"),
        ("optimizer={type: Adam}", "optimizer.type", "Adam"),
        ("data.train.transforms={$append: [{type: Crop}]}", "data.train.transforms[2]", {"type": "Crop"}),
        ("data.train.transforms={$patch: {flip: {prob: 1}}}", "data.train.transforms[flip].prob", 1),
        ("data.train.transforms=[]", "data.train.transforms", []),
        (' data.extra = {"a.b": 1}', 'data.extra["a.b"]', 1),
    ],
)
def test_one_value_is_set(load, override, path, value):
    assert load(GOOD, override)[path] == value


def test_overrides_apply_in_order(load):
    assert load(GOOD, "seed=1", "seed=2")["seed"] == 2


def test_delete_drops_a_key_or_an_item(load):
    config = load(GOOD, "model.neck=$delete", "data.train.transforms[flip]=$delete")
    assert "neck" not in config.root.value["model"].value
    assert [t["id"] for t in config["data.train.transforms"]] == ["resize"]


def test_setting_the_type_drops_the_keys_of_the_other_type(load):
    config = load(GOOD, "optimizer.type=Adam", "optimizer.beta1=0.5")
    assert config.as_dict()["optimizer"] == {"type": "Adam", "beta1": 0.5}


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", r"-o seed: an override is written path=value"),
        ("=3", r"-o =3: '' is not a key path"),
        ("a b=3", r"'a b' is not a key path"),
        ("data.train.transforms[reszie].size=1", r"^-o .*: data\.train\.transforms has no item with id 'reszie'; did you mean 'resize'\? It has: flip, resize"),
        ("data.train.transforms[7].size=1", r"data\.train\.transforms has 2 items, so there is no \[7\]"),
        ("data.train.transforms.size=1", r"data\.train\.transforms is a list; select an item"),
        ("model.backbone.out_strides[a]=1", r"model\.backbone\.out_strides has no items with an id"),
        ("seed=[1", r"^-o seed=\[1: not valid YAML: expected"),
        ("data.num_classes.x=1", r"data\.num_classes is a single value, so it has no 'x'"),
        ("model.head.num_classes.x=1", r"stands for \$\{data\.num_classes\}; override it there"),
        ("nothing[0]=1", r"nothing: there is no list here"),
        ("model[0]=1", r"model is not a list, so it has no \[0\]"),
        ("modle.backbone.type=DarkNet", r"^-o modle\.backbone\.type=DarkNet: modle: a toy config takes no 'modle'; did you mean 'model'"),
        ("data.train.batchsize=4", r"data\.train\.batchsize: Loader takes no 'batchsize'; did you mean 'batch_size'"),
        ("data.train.batch_size=four", r"-o .*: data\.train\.batch_size: expects int, found 'four' \(str\)"),
        ("seed=!!python/name:os.system", r"tags are not allowed"),
    ],
)  # fmt: skip
def test_wrong_overrides_are_explained(load, override, message):
    with pytest.raises(ConfigError, match=message):
        load(GOOD, override)
