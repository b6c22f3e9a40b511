"""How files from outside are opened. A flag that the system lacks is left out."""

from __future__ import annotations

import os


def _flags(*names: str) -> int:
    found = 0
    for name in names:
        found |= getattr(os, name, 0)
    return found


# No program that is started gets the file, a named pipe does not wait for its other end, and on Windows bytes stay as
# they are.
READING = _flags("O_CLOEXEC", "O_NONBLOCK", "O_BINARY")
NO_LINK = _flags("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "O_BINARY")
