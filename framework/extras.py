"""What to install for an extra of this distribution, said the same way in a clone and in an installation."""

from __future__ import annotations

import shlex
import sys
import tomllib
from importlib import metadata
from pathlib import Path

DISTRIBUTION = "paddock-zoo"


def install_command(extra: str) -> str:
    """The command that installs the packages of an extra, such as `python -m pip install 'onnx>=1.17'`.

    It names the packages themselves: a clone is not installed by the distribution's name.
    """
    return shlex.join([sys.executable, "-m", "pip", "install", *requirements(extra)])


def requirements(extra: str) -> list[str]:
    """The requirements of an extra; [] for an extra that does not exist."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # a clone that nobody installed
        project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
        return project["optional-dependencies"].get(extra, [])
    wanted, found = f"extra == '{extra}'", []
    for name, _, marker in (line.replace('"', "'").partition(";") for line in lines):
        if wanted in marker:
            others = [part.strip() for part in marker.split(" and ") if part.strip() != wanted]
            found.append("; ".join([name.strip(), *([" and ".join(others)] if others else [])]))
    return found
