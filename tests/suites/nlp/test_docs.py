"""The recipes of docs/howto/nlp.md are right configs, and every type and config it names exists."""

import re
from pathlib import Path

import pytest

from suites.engine.config import load_config
from suites.engine.registry import REGISTRY, load_suites

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "howto" / "nlp.md").read_text()
RECIPES = re.findall(r"```yaml\n(.*?)```", TEXT, re.S)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda r: re.search(r"extends: (\S+)", r)[1])
def test_recipes_are_right_in_ten_lines_or_so(recipe, tmp_path):
    path = tmp_path / "own.yml"
    path.write_text(re.sub(r"extends: (\S+)", lambda m: f"extends: {ROOT}/configs/nlp/{m[1]}", recipe))
    assert load_config(path)["suite"] == "nlp" and len(recipe.splitlines()) <= 11


def test_there_is_a_recipe_for_each_problem():
    assert [re.search(r"extends: (\S+)", recipe)[1] for recipe in RECIPES] == [
        "_base_/minilm.yml",
        "minilm_pair.yml",
        "ernie_msra_ner.yml",
        "ernie_drcd.yml",
    ]


def test_every_type_and_config_in_the_tables_exists():
    load_suites(["nlp"])
    seen = REGISTRY.seen_by("nlp")
    known = {name for role in seen.roles() for name in seen.names(role)}
    named = {line.split("`")[1] for line in TEXT.splitlines() if line.startswith("| `")}
    named = {name for name in named if not name.startswith("paddock ")}  # commands of the results
    configs = {name for name in named if name.endswith(".yml")}
    assert configs == {path.name for path in (ROOT / "configs" / "nlp").glob("*.yml")}
    assert named - configs <= known
