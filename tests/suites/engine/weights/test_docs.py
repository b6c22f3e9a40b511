"""docs/howto/pretrained.md names every record and every scheme; its examples are right."""

import re
from pathlib import Path

import yaml

from suites.engine.registry import REGISTRY, load_suites
from suites.engine.weights.records import get_record, record_names

ROOT = Path(__file__).resolve().parents[4]
TEXT = (ROOT / "docs" / "howto" / "pretrained.md").read_text()


def test_every_record_is_in_the_table_and_its_config_comes_with_paddock():
    rows = [
        line for line in TEXT.splitlines() if line.startswith("| `") and ("MB" in line or "| not published |" in line)
    ]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == record_names()
    for name in record_names():
        config = get_record(name).config
        assert config is None or (ROOT / "configs" / f"{config}.yml").is_file()


def test_every_backbone_is_in_the_table():
    load_suites(["detection"])
    named = set(
        re.findall(r"`(\w+)`", " ".join(line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `")))
    )
    assert set(REGISTRY.names("backbone")) <= named


def test_the_examples_are_yaml_with_backbones_and_records_that_there_are():
    blocks = [yaml.safe_load(block.replace(", ...}", "}")) for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.S)]
    blocks = [block for block in blocks if "model" in block]
    assert len(blocks) == 2
    assert blocks[0]["model"]["backbone"]["pretrained"] in record_names()
    assert blocks[1]["model"]["pretrained"] in record_names()
