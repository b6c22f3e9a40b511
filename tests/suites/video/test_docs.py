"""The examples of docs/video.md are real: the config is right, and every type in its tables is registered."""

import re
from pathlib import Path

from suites.engine.config import load_config
from suites.engine.registry import REGISTRY, load_suites

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "video.md").read_text()


def test_the_config_of_ones_own_is_right(tmp_path):
    (block,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.S)
    folder = ROOT / "configs" / "video"
    extends = [str(folder / name) for name in re.search(r"extends: \[(.*)\]", block)[1].split(", ")]
    path = tmp_path / "own.yml"
    path.write_text(re.sub(r"extends: .*", f"extends: {extends}", block))
    config = load_config(path)
    assert config["model.num_classes"] == config["data.num_classes"]
    config.build("data.eval.transforms")


def test_every_type_and_config_in_the_tables_exists():
    load_suites(["video"])
    seen = REGISTRY.seen_by("video")
    known = {name for role in seen.roles() for name in seen.names(role)}
    cells = " ".join(line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `"))
    named = re.findall(r"`([\w.]+)`", cells)
    configs = {name for name in named if name.endswith(".yml")}
    assert configs == {path.name for path in (ROOT / "configs" / "video").glob("*.yml")}
    assert set(named) - configs <= known
