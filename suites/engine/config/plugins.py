"""Plug-ins: modules of a user that register components, hooks or whole suites.

Nothing that is loaded runs code unasked. What a person names on the command line, or in the config file that they
train, is imported. What a run or an exported model remembers is not: a person imports it first, or says `--import`.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterable

from framework.errors import ConfigError

_OURS = ("framework", "suites", "builtins", "__main__", "__mp_main__")  # need no import, or allow none


def import_plugins(names: Iterable[str], asked_by: str) -> None:
    """Import the modules, installed ones or those in the working folder.

    Args:
        names: of modules, such as "my_package" or "my_package.nets".
        asked_by: who names them, for messages.

    Raises:
        ConfigError: there is no such module, or it cannot be imported.
    """
    for name in names:
        if name not in sys.modules:
            _import(name, asked_by)


def require_plugins(names: Iterable[str], asked_by: str) -> None:
    """Raise ConfigError unless the modules that a run or an exported model remembers are imported already."""
    missing = [name for name in names if name not in sys.modules]
    if missing:
        options = " ".join(f"--import {name}" for name in missing)
        raise ConfigError(
            f"{asked_by}: it needs {', '.join(missing)}, which is not imported unasked because it runs code; if you "
            f"trust it, add {options} to the command, or import it before in Python"
        )


def modules_of(targets: Iterable[object]) -> list[str]:
    """Return the modules to import so that these classes and functions are registered; none for Paddock's own."""
    names = {str(getattr(target, "__module__", "builtins")) for target in targets}
    outside = sorted(name for name in names if name.partition(".")[0] not in _OURS)
    return [name for name in outside if not any(name.startswith(f"{other}.") for other in outside)]


def covered(name: str, listed: Iterable[str]) -> bool:
    """Return whether importing one of `listed` is known to import `name`: the module itself or a package around it."""
    return any(name == other or name.startswith(f"{other}.") for other in listed)


def _import(name: str, asked_by: str) -> None:
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", name):
        raise ConfigError(f"{asked_by}: {name!r} is no name of a module; write it as in Python's import, without .py")
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # behind what is installed; data workers get it too
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(f"{asked_by}: no module {name!r} is installed or in {here}") from None
        raise ConfigError(f"{asked_by}: importing {name!r} failed: {error}") from error
    except Exception as error:
        raise ConfigError(f"{asked_by}: importing {name!r} failed: {type(error).__name__}: {error}") from error
