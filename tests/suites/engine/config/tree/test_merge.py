"""How a child file changes what it inherits: by key, by list item id, by `$delete`, by another `type`."""

# ruff: noqa: E501 (messages are tested whole)

import pytest

from framework.errors import AttributeValueError, ConfigError, DataError
from suites.engine.config.schema.factory import construct
from suites.engine.config.tree.lookups import lookup

LIST = """\
t:
  - {id: crop, type: Crop}
  - {id: flip, type: Flip, prob: 0.5}
  - {id: resize, type: Resize, size: 320}
"""


@pytest.fixture
def merged(load):
    def merge_texts(base, child):
        return load(check=False, base=base, x=f"extends: base.yml\n{child}").as_dict()

    return merge_texts


def test_mappings_merge_and_lists_and_scalars_are_replaced(merged):
    base = "m: {a: 1, b: {c: 2}}\nl: [1, 2]\ns: 1"
    assert merged(base, "m: {b: {d: 3}}\nl: [3]\ns: null") == {
        "m": {"a": 1, "b": {"c": 2, "d": 3}},
        "l": [3],
        "s": None,
    }


def test_delete_drops_an_inherited_key(merged):
    assert merged("m: {a: 1, b: 2}", "m: {a: $delete}") == {"m": {"b": 2}}
    assert merged("m: {a: 1}\nn: 1", "m: $delete") == {"n": 1}


def test_delete_of_nothing_names_the_nearest(merged):
    with pytest.raises(ConfigError, match=r"x\.yml:2: m\.aa: \$delete: no 'aa' was inherited.* Inherited: aaa, b"):
        merged("m: {aaa: 1, b: 2}", "m: {aa: $delete}")
    with pytest.raises(ConfigError, match="did you mean 'prob'"):
        merged("m: {prob: 1}", "m: {porb: $delete}")


def test_another_type_drops_all_inherited_keys_at_every_depth(merged):
    base = "o: {type: Momentum, momentum: 0.9, decay: 1, sub: {type: A, x: 1}}"
    assert merged(base, "o: {type: Adam, beta: 0.9}") == {"o": {"type": "Adam", "beta": 0.9}}
    assert merged(base, "o: {sub: {type: B}}")["o"]["sub"] == {"type": "B"}


def test_the_same_type_or_none_keeps_inherited_keys(merged):
    base = "o: {type: Momentum, momentum: 0.9}"
    assert merged(base, "o: {type: Momentum, decay: 1}")["o"] == {"type": "Momentum", "momentum": 0.9, "decay": 1}
    assert merged(base, "o: {decay: 1}")["o"]["momentum"] == 0.9
    assert merged("o: {decay: 1}", base)["o"] == {"decay": 1, "type": "Momentum", "momentum": 0.9}


def test_replace_inherits_nothing_also_of_the_same_type(merged):
    base = "o: {type: Momentum, momentum: 0.9, sub: {type: A, x: 1}}\nl: [1, 2]"
    assert merged(base, "o: {$replace: {type: Momentum, decay: 1}}")["o"] == {"type": "Momentum", "decay": 1}
    assert merged(base, "o: {sub: {$replace: {type: A}}}\nl: {$replace: [3]}") == {
        "o": {"type": "Momentum", "momentum": 0.9, "sub": {"type": "A"}},
        "l": [3],
    }
    assert merged("a: 1", "n: {$replace: {b: 2}}")["n"] == {"b": 2}
    flip = {"id": "flip", "type": "Flip", "axis": 1}
    assert merged(LIST, "t: {$patch: {flip: {$replace: {type: Flip, axis: 1}}}}")["t"][1] == flip


def test_an_error_says_what_a_component_inherited_and_from_where(load):
    config = load(check=False, base="o: {type: A, x: 1, y: 2}", x="extends: base.yml\no: {type: A, y: 3}")
    _, node = lookup(config.root, "o")
    assert node.note == "x (base.yml:1) was inherited, as both have the type A; {$replace: ...} inherits nothing"
    for error, kind in ((AttributeValueError("bad y"), ConfigError), (DataError("no rows"), DataError)):

        def refuse(error=error):
            raise error

        with pytest.raises(kind, match=r"(bad y|no rows) \(.*x \(base\.yml:1\) was inherited, .*\$replace"):
            construct(refuse, {}, {}, "x.yml:2: o", node.note)


def test_deleting_what_the_change_of_type_drops_anyway_is_no_error(merged):
    assert merged("o: {type: A, x: 1}", "o: {type: B, x: $delete}") == {"o": {"type": "B"}}


def test_patch_changes_and_deletes_single_items_and_keeps_order(merged):
    assert merged(LIST, "t: {$patch: {flip: {prob: 0.3}, crop: $delete}}")["t"] == [
        {"id": "flip", "type": "Flip", "prob": 0.3},
        {"id": "resize", "type": "Resize", "size": 320},
    ]


def test_a_patch_to_another_type_keeps_the_id(merged):
    item = merged(LIST, "t: {$patch: {resize: {type: Pad, to: 32}}}")["t"][2]
    assert item == {"id": "resize", "type": "Pad", "to": 32}


def test_new_items_go_to_the_end_or_beside_an_item(merged):
    child = "t: {$append: [{id: z}], $before: {flip: [{id: a}, {id: b}]}, $after: {crop: [{id: c}]}}"
    ids = [item["id"] for item in merged(LIST, child)["t"]]
    assert ids == ["crop", "c", "a", "b", "flip", "resize", "z"]


def test_edits_act_on_the_same_list_again_in_a_grandchild(load):
    config = load(
        check=False,
        base=LIST,
        child="extends: base.yml\nt: {$patch: {flip: {prob: 0.3}}}",
        x="extends: child.yml\nt: {$patch: {flip: {axis: 1}}}",
    )
    assert config["t[flip]"] == {"id": "flip", "type": "Flip", "prob": 0.3, "axis": 1}


@pytest.mark.parametrize(
    ("child", "message"),
    [
        ("t: {$patch: {filp: {prob: 1}}}", r"x\.yml:2: t\.\$patch: no inherited item has id 'filp'; did you mean 'flip'\? Ids"),
        ("t: {$before: {nope: []}}", r"no inherited item has id 'nope'. Ids: crop, flip, resize"),
        ("t: {$patch: {flip: 3}}", r"x\.yml:2: .*a patch is a mapping of changes, or \$delete"),
        ("t: {$patch: [1]}", r"names items by id"),
        ("t: {$append: {id: a}}", r"takes a list of new items"),
        ("t: {$patch: {}, size: 3}", r"mixes list edits with the key 'size'"),
        ("t: {$append: [{id: flip}]}", r"t\[3\]: id 'flip' is used twice in this list, first at base\.yml:3"),
        ("u: {$patch: {}}", r"x\.yml:2: u: \$patch changes an inherited list, but nothing was inherited here"),
        ("n: {$append: []}", r"n: \$append changes an inherited list, but what was inherited here is not a list"),
        ("v: [{id: a}, {id: a}]", r"x\.yml:2: v\[1\]: id 'a' is used twice in this list, first at x\.yml:2"),
        ("v: [1, $delete]", r"x\.yml:2: v\[1\]: \$delete drops a key or, in \$patch, an item"),
        ("u: {$replace: {a: 1}, b: 2}", r"x\.yml:2: u: mixes \$replace with the key 'b'; \$replace stands alone"),
        ("t: {$replace: $delete}", r"x\.yml:2: t: \$replace takes the new value"),
        ("v: [{w: $delete}]", r"v\[0\]\.w: \$delete: no 'w' was inherited"),
    ],
)  # fmt: skip
def test_wrong_edits_are_explained(merged, child, message):
    with pytest.raises(ConfigError, match=message):
        merged(LIST + "n: 1", child)


def test_ids_that_are_numbers_are_plain_data(merged):
    assert merged("c: [{id: 1}, {id: 1}]", "")["c"] == [{"id": 1}, {"id": 1}]
