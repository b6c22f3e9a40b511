"""One owner at a time for a run folder: a lock that ends with the process that holds it, however that dies."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import weakref
from functools import partial
from pathlib import Path

from framework.errors import ConfigError

LOCK = ".lock"  # in the run folder; it stays when the run ends, for a file that is removed can be locked twice


class Ownership:
    """Held from construction to `release`, or to the end of the process: also with kill -9.

    The lock is `flock` on `<folder>/.lock`, which also says who holds it. Processes that the owner starts, such as data
    workers, do not inherit it.

    Args:
        folder: of the run; made when missing.

    Raises ConfigError that names the holder, or the reason where the file system cannot lock.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._release = weakref.finalize(self, _unlock, _lock(folder / LOCK))
        # Or a forked child would go on holding it.
        os.register_at_fork(after_in_child=partial(_close_in_child, weakref.ref(self)))

    def release(self) -> None:
        """Let others have the folder; a second call does nothing."""
        self._release()


def is_owned(folder: Path) -> bool:
    """Whether some process, this one included, holds the run in `folder`."""
    try:
        fd = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _HELD
    finally:
        os.close(fd)
    return False


_HELD = (errno.EWOULDBLOCK, errno.EACCES)


def _lock(path: Path) -> int:
    """Return the descriptor of the locked file, which names this process."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, fd):
                os.ftruncate(fd, 0)
                os.pwrite(fd, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)
                return fd
            os.close(fd)
        except OSError as error:
            os.close(fd)
            raise _refusal(path, error) from None


def _is_still(path: Path, fd: int) -> bool:
    """Whether nobody removed the file between opening and locking it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def _refusal(path: Path, error: OSError) -> ConfigError:
    folder = path.parent
    if error.errno not in _HELD:
        return ConfigError(
            f"{folder}: cannot be locked ({error.strerror}), so two runs could mix; choose another folder"
        )
    try:
        holder = json.loads(path.read_text(encoding="utf-8"))
        who = f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError, TypeError):  # it took the lock a moment ago
        who = "another process"
    return ConfigError(f"{folder}: {who} is writing this run; wait for it, stop it, or choose another --name")


def _unlock(fd: int) -> None:
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def _close_in_child(owner: weakref.ref[Ownership]) -> None:
    """Let go of the descriptor alone: unlocking would take the lock from the parent."""
    held = owner()
    found = None if held is None else held._release.detach()
    if found is not None:
        os.close(*found[2])
