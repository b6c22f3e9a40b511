"""The examples of docs/segmentation.md are real: types and arguments exist."""

import re
from pathlib import Path

import yaml

from suites.engine.config.signatures import signature_of
from suites.engine.registry import REGISTRY, load_suites

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "segmentation.md").read_text()


def components():
    load_suites(["segmentation"])
    return REGISTRY.seen_by("segmentation")


def test_every_dataset_line_names_a_type_and_arguments_it_takes():
    (block,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.S)
    for line in block.splitlines():
        spec = yaml.safe_load(line)["dataset"]
        kind = components().get("dataset", spec.pop("type"))
        assert set(spec) <= set(signature_of(kind).parameters)


def test_every_transform_and_loss_is_in_its_table():
    named = set(re.findall(r"`([A-Z]\w+)`", TEXT.split("## Transforms")[1].split("## Figures")[0]))
    assert named == {name for role in ("transform", "batch_transform", "loss") for name in components().names(role)}


def test_every_config_is_in_the_table():
    shipped = {path.name for path in (ROOT / "configs" / "segmentation").glob("*.yml")}
    assert shipped == set(re.findall(r"^\| `(\w+\.yml)`", TEXT, re.M))
