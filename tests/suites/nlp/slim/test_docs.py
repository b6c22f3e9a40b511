"""docs/howto/slimming.md says what there is: the keys of `distil`, its example, the commands of `paddock slim`."""

import dataclasses
import re
from pathlib import Path

from suites.engine.cli import slim
from suites.engine.config import load_config
from suites.nlp.slim.settings import Distil

ROOT = Path(__file__).resolve().parents[4]
TEXT = (ROOT / "docs" / "howto" / "slimming.md").read_text()


def test_every_key_is_told(tmp_path):
    keys = {field.name for field in dataclasses.fields(Distil)}
    table = TEXT.split("| key | default |")[1].split("\n\n")[0]
    told = {key for line in table.splitlines() for key in re.findall(r"`(\w+)`", line.split("|")[1])}
    example = next(e for e in re.findall(r"```yaml\n(.*?)```", TEXT, re.S) if "minilm" in e)
    assert keys == told | set(re.findall(r"^  (\w+):", example, re.M))
    base = f"suite: nlp\nextends: {ROOT}/configs/nlp/distil_bow_sst2.yml\n"
    (tmp_path / "c.yml").write_text(base + example)
    assert load_config(tmp_path / "c.yml")["distil.temperature"] == 2.0


def test_the_commands_are_understood():
    commands = re.findall(r"^ {4}paddock slim (.*)$", TEXT.split("\n## ")[0].replace("\\\n", ""), re.M)
    assert len(commands) == 10
    for command in commands:
        slim._parser(None).parse_args(command.split())
