"""Arguments that exclude each other, or need each other, are refused with both places; what docs say so is declared."""

import re
import typing
from dataclasses import dataclass, is_dataclass

import pytest

from framework.errors import AttributeValueError, ConfigError
from suites.engine.bonds import bonds_of
from suites.engine.config import load_config
from suites.engine.config.schema.signatures import signature_of
from suites.engine.registry import REGISTRY, Registry, load_suites, suite_names

# `a` says what another argument means beside it, or a value turns it off; both together do something.
REVIEWED = {
    ("VGG", "out_strides", "reduced_fc"): "which strides there are",
    ("ClickLog", "root", "files"): "files is required, and configs name it for either kind of root",
    ("ClickLog", "split", "root"): "root is required",
    ("ImageLabelPairs", "images", "pairs"): "a list stands in for the folders that a config inherits",
    ("ImageLabelPairs", "labels", "pairs"): "as images",
    ("ImageLabelPairs", "label_suffix", "pairs"): "as images",
    ("ImageLabelPairs", "pairs", "images"): "as images",
    ("ImageLabelPairs", "pairs", "labels"): "as images",
    ("VocDetection", "split", "holdout"): "names a list of the set without, and a part with",
    ("TrainData", "tokens", "batch_size"): "a config that bounds its batches by tokens inherits a batch size",
    ("RecurrentLanguageModel", "cutoffs", "tied"): "cutoffs go with tied: false alone, as an error says",
    ("RecurrentLanguageModel", "tree", "tied"): "as cutoffs",
    ("BertTokenizer", "strip_accents", "lower_case"): "lower_case says what null is",
}


def components():
    """(name, target) of all that configs can name, once each."""
    load_suites(suite_names())
    found = {}
    for suite in (None, *suite_names()):
        seen = REGISTRY.owned_by(suite)
        for role in seen.roles():
            found |= {seen.get(role, name): name for name in seen.names(role)}
    return [(name, target) for target, name in found.items()]


def sections():
    """(name, class) of the sections of all configs: dataclasses that are not registered, once each."""
    load_suites(suite_names())
    found = {}

    def look(hint):
        for inner in typing.get_args(hint):
            look(inner)
        made = typing.get_origin(hint) or hint
        if isinstance(made, type) and is_dataclass(made) and made not in found:
            found[made] = made.__name__
            for each in typing.get_type_hints(made, include_extras=True).values():
                look(each)

    for suite in suite_names():
        seen = REGISTRY.seen_by(suite)
        for name in seen.names("config"):
            look(seen.get("config", name))
    registered = {target for _, target in components()}
    return [(name, made) for made, name in found.items() if made not in registered]


def related(parameters):
    """(argument, other) where the documentation of the argument says that it is for, or in place of, the other."""
    for parameter in parameters.values():
        for other in parameters:
            mark = rf"`{other}`"
            said = rf"(?i)\b(with|without|where|for|in place of|instead of|beside|needs) (the )?{mark}"
            unused = rf"{mark} (is|are) (then )?(not|ignored|nothing)"
            if other != parameter.name and re.search(f"{said}|{unused}", parameter.doc):
                yield parameter.name, other


@pytest.fixture(scope="module")
def everything():
    return [*components(), *sections()]


def test_sections_and_schedules_are_among_what_is_audited(everything):
    names = {name for name, _ in everything}
    assert {"Runtime", "EvaluationSettings", "LossScaleSettings", "TrainData", "Distil", "Written", "Slices"} <= names
    assert {"Constant", "Cosine", "MultiStep", "Piecewise", "Polynomial"} <= names


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("runtime.loss_scale={mode: static, growth: 4.0}", "growth: does nothing where 'mode' is 'static'"),
        ("runtime.data={timeout: 0.0, hung: end}", "timeout is 0"),
    ],
)
def test_settings_that_do_nothing_are_refused_in_sections_too(override, said):
    load_suites(["ctr"])
    with pytest.raises(ConfigError, match=said):
        load_config("ctr/deepfm_csv", [override]).build("runtime")


def test_declared_arguments_are_arguments(everything):
    wrong = [(name, bonds_of(t).names() - set(signature_of(t).parameters)) for name, t in everything]
    assert [pair for pair in wrong if pair[1]] == []
    assert sum(bool(bonds_of(target).pairs()) for _, target in everything) > 8


def test_what_docs_say_of_two_arguments_is_declared(everything):
    missing = [
        (name, *pair)
        for name, target in everything
        for pair in related(signature_of(target).parameters)
        if frozenset(pair) not in bonds_of(target).pairs() and (name, *pair) not in REVIEWED
    ]
    assert all(any(target.__name__ == name for _, target in everything) for name, _, _ in REVIEWED)
    assert missing == [], "declare them at register(exclusive=, needs=), or say in REVIEWED why both do something"


@dataclass
class Set:
    """A set.

    Args:
        root: the folder.
        rows: which rows.
        split: which part.
        holdout: every so many.
        kind: what it is.
        zero: whether 0 is void.
    """

    root: str
    rows: int | None = None
    split: str = "all"
    part: str | None = None
    holdout: int | None = None
    kind: str = "ids"
    zero: bool = False


@dataclass
class Whole:
    """A config."""

    data: Set


@pytest.fixture
def registry():
    made = Registry()
    needs = {"part": "holdout", "zero": ("kind", ("ids", "bits"))}
    made.register("dataset", exclusive=(("rows", "split"),), needs=needs)(Set)
    made.register("config", "toy")(Whole)
    return made


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("rows: 3, split: train", r":3: data\.split: does nothing beside 'rows'.*\(data\.rows is at .*:3\)"),
        ("part: val", r"data\.part: does nothing without 'holdout'"),
        ("kind: colours, zero: true", r"data\.zero: .*where 'kind' is 'colours'; it is for 'ids' and 'bits'"),
    ],
)
def test_arguments_that_do_nothing_are_refused_with_both_places(registry, tmp_path, given, said):
    file = tmp_path / "toy.yml"
    file.write_text(f"suite: toy\ndata:\n  {{type: Set, root: x, {given}}}\n")
    with pytest.raises(ConfigError, match=said):
        load_config(file, registry=registry)


@pytest.mark.parametrize(
    "given", ["rows: 3, split: all", "rows: null, split: train", "part: val, holdout: 5", "kind: bits, zero: true"]
)
def test_the_default_of_an_argument_is_as_if_it_were_not_given(registry, tmp_path, given):
    file = tmp_path / "toy.yml"
    file.write_text(f"suite: toy\ndata:\n  {{type: Set, root: x, {given}}}\n")
    load_config(file, registry=registry)


def test_an_override_beside_what_a_base_says_names_the_line_of_the_base():
    load_suites(["ctr"])
    over = "data.train.dataset.rows={type: TimeSpan, start: 0.0, end: 0.8}"
    problems = list(map(str, load_config("ctr/deepfm_csv", [over], check=False).problems()))
    assert [("csv.yml:6: data.train.dataset.split" in text, over in text) for text in problems] == [(True, True)]


def test_python_is_refused_as_a_config_is(registry):
    with pytest.raises(AttributeValueError, match=r"Set: split: does nothing beside 'rows'"):
        Set("x", rows=3, split="train")
    assert Set("x", rows=3, split="all").rows == 3
