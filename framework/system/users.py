"""Whose a file is."""

from __future__ import annotations

import os
from pathlib import Path


def other_owner(path: Path) -> str:
    """The name of the user that a file or folder belongs to; "" where it is this process's own, or unknown."""
    try:
        import pwd

        owner = path.stat().st_uid
        return "" if owner == os.getuid() else pwd.getpwuid(owner).pw_name
    except (ImportError, OSError, KeyError):
        return ""
