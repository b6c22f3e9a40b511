"""The examples of docs/howto/classification.md and video.md are real: configs are right, types are registered."""

import re
from pathlib import Path

import pytest

from suites.engine.config import load_config
from suites.engine.registry import REGISTRY, load_suites

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.parametrize("suite", ["classification", "video"])


def text_of(suite):
    return (ROOT / "docs" / "howto" / f"{suite}.md").read_text()


def test_the_config_of_ones_own_is_read_and_builds_its_transforms(tmp_path, suite):
    (block,) = re.findall(r"```yaml\n(.*?)```", text_of(suite), re.S)
    folder = ROOT / "configs" / suite
    extends = [str(folder / name) for name in re.search(r"extends: \[(.*)\]", block)[1].split(", ")]
    path = tmp_path / "own.yml"
    path.write_text(re.sub(r"extends: .*", f"extends: {extends}", block))
    config = load_config(path)
    assert config["model.num_classes"] == config["data.num_classes"]
    config.build("data.eval.transforms")


def test_every_type_and_config_in_the_tables_exists(suite):
    load_suites([suite])
    seen = REGISTRY.seen_by(suite)
    known = {name for role in seen.roles() for name in seen.names(role)}
    cells = " ".join(line.split("|")[1] for line in text_of(suite).splitlines() if line.startswith("| `"))
    braces = re.compile(r"\{([\w,]+)\}([\w.]+)")  # {a,b}_c.yml stands for a_c.yml and b_c.yml
    cells = braces.sub(lambda found: " ".join(f"`{one}{found[2]}`" for one in found[1].split(",")), cells)
    named = re.findall(r"`([\w.]+)`", cells)
    configs = {name for name in named if name.endswith(".yml")}
    assert configs == {path.name for path in (ROOT / "configs" / suite).glob("*.yml")}
    assert set(named) - configs <= known
