"""The configs that come with Paddock, found by name: `detection/yolov3_demo` is `configs/detection/yolov3_demo.yml`."""

from __future__ import annotations

import difflib
from pathlib import Path

import suites

_ENDINGS = ("", ".yml", ".yaml")


def configs_folder() -> Path:
    """Return the folder of the configs: a part of an installed wheel, in a clone the one beside `suites`."""
    package = Path(suites.__file__).resolve().parent
    installed = package / "configs"
    return installed if installed.is_dir() else package.parent / "configs"


def shipped_configs() -> list[str]:
    """Return the names of all configs that come with Paddock, without those that are only bases of others; sorted."""
    folder = configs_folder()
    paths = (path.relative_to(folder) for path in folder.rglob("*.yml"))
    return sorted(path.with_suffix("").as_posix() for path in paths if "_base_" not in path.parts)


def find_config(name: Path) -> Path:
    """Return `name` if there is such a path, else the config of that name that comes with Paddock, else `name`."""
    return name if name.exists() else shipped_config(name) or name


def shipped_config(name: Path) -> Path | None:
    """Return the config of that name that comes with Paddock, with or without its ending; None if there is none."""
    if name.is_absolute() or ".." in name.parts:
        return None
    found = (Path(f"{configs_folder() / name}{ending}") for ending in _ENDINGS)
    return next((path for path in found if path.is_file()), None)


def near_configs(name: str) -> list[str]:
    """Return up to three names of configs that come with Paddock and look like `name`."""
    asked, known = name.removesuffix(".yml"), shipped_configs()
    by_end = {config.rpartition("/")[2]: config for config in known}
    ends = difflib.get_close_matches(asked.rpartition("/")[2], by_end, n=3, cutoff=0.7)
    whole = difflib.get_close_matches(asked, known, n=3, cutoff=0.7)
    return list(dict.fromkeys([*whole, *(by_end[end] for end in ends)]))[:3]
