"""Packages whose modules are imported for what they register: found in their folder, listed nowhere."""

from __future__ import annotations

import importlib
import pkgutil


def import_all(package: str) -> None:
    """Import a package and every module and package directly in it, in the order of their names.

    A module that is added to the folder is found; nothing else needs an edit.

    Args:
        package: its name, such as "framework.xla.rules".
    """
    for found in sorted(each.name for each in pkgutil.iter_modules(importlib.import_module(package).__path__)):
        importlib.import_module(f"{package}.{found}")
