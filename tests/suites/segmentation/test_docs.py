"""The examples of docs/howto/segmentation.md are real: types and arguments exist."""

import re
from pathlib import Path

import pytest
import yaml

from suites.engine.config.schema.signatures import signature_of
from suites.engine.registry import REGISTRY, load_suites
from tests.shipped import load_shipped

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "howto" / "segmentation.md").read_text()
BLOCKS = "".join(re.findall(r"```yaml\n(.*?)```", TEXT, re.S))


def components():
    load_suites(["segmentation"])
    return REGISTRY.seen_by("segmentation")


def test_every_dataset_line_names_a_type_and_arguments_it_takes():
    lines = [yaml.safe_load(line) for line in BLOCKS.splitlines() if line.startswith("dataset:")]
    assert lines
    for spec in (line["dataset"] for line in lines):
        kind = components().get("dataset", spec.pop("type"))
        assert set(spec) <= set(signature_of(kind).parameters)


def test_every_transform_and_loss_is_in_its_table():
    named = set(re.findall(r"`([A-Z]\w+)`", TEXT.split("## Transforms")[1].split("## Figures")[0]))
    assert named == {name for role in ("transform", "batch_transform", "loss") for name in components().names(role)}


def test_the_mixture_of_losses_can_be_made():
    (listed,) = re.findall(r"^losses:\n(?:  - .*\n)+", BLOCKS, re.M)
    for spec in yaml.safe_load(listed)["losses"]:
        spec.pop("id")
        components().get("loss", spec.pop("type"))(**spec)


def test_every_network_is_in_its_table():
    named = set(re.findall(r"^\| `([A-Z]\w+)`", TEXT.split("## Networks")[1], re.M))
    assert named == set(components().names("segmenter"))


CONFIGS = sorted((ROOT / "configs" / "segmentation").glob("*.yml"))


def test_every_config_is_in_a_table():
    rows = "".join(line for line in TEXT.splitlines() if line.startswith("|"))
    assert {path.name for path in CONFIGS} == set(re.findall(r"`(\w+\.yml)`", rows))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_is_read_as_one_of_this_suite(path):
    assert load_shipped(path)["suite"] == "segmentation"
