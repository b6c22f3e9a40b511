"""The examples of docs/howto/config.md run."""

import re
import subprocess
import sys
from pathlib import Path

from suites.engine.config.tree.yaml_text import parse_text

ROOT = Path(__file__).resolve().parents[4]
TEXT = (ROOT / "docs" / "howto" / "config.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_yaml_examples_can_be_read():
    assert blocks("yaml")
    for block in blocks("yaml"):
        parse_text(block, "docs/howto/config.md")


def test_python_examples_run():
    assert len(blocks("python")) == 2
    program = "\n".join(blocks("python"))
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=60)
