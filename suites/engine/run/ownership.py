"""One owner at a time for a run folder: a lock that ends with the process that holds it, however that dies."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import socket
import weakref
from functools import partial
from pathlib import Path

from framework.confined import confine, open_regular
from framework.errors import CheckpointError, ConfigError
from framework.forks import in_child
from framework.locks import is_still
from framework.system.file_locks import lock_file, unlock_file
from framework.system.users import other_owner

LOCK = ".lock"  # in the run folder; it stays when the run ends, for a file that is removed can be locked twice
_HELD = (errno.EWOULDBLOCK, errno.EACCES)
_log = logging.getLogger(__name__)


class Ownership:
    """Held from construction to `release`, or to the end of the process: also with kill -9.

    The lock is `flock` on `<folder>/.lock`, which also says who holds it. Processes that the owner starts, such as data
    workers, do not inherit it. Before each write below the folder it is looked at again, so that an owner whose lock
    was removed, or whose folder was moved, does not write beside another one.

    Args:
        folder: of the run; made when missing.

    Raises ConfigError that names the holder, or the reason where the folder cannot be locked.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _refusal(folder / LOCK, error) from None
        self._release = weakref.finalize(self, _unlock, _lock(folder / LOCK))
        if not _excludes(folder / LOCK):
            _log.warning(
                "%s: this file system gives one lock twice, as some network file systems do; nothing keeps a second "
                "run from writing here at the same time, so see to that yourself",
                folder,
            )
        mine = weakref.ref(self)
        confine(folder, lambda: _expect_held(mine))
        # Or a forked child would go on holding it.
        in_child(partial(_close_in_child, mine))

    def release(self) -> None:
        """Let others have the folder; a second call does nothing."""
        self._release()

    def expect_held(self) -> None:
        """Raise CheckpointError where the folder is not this process's own any more.

        A lock file that was removed is made again, if no other process was faster.
        """
        found = self._release.peek()
        if found is None or is_still(self._folder / LOCK, fd := found[2][0]):
            return
        _expect_there(self._folder, fd)
        try:
            new = _lock(self._folder / LOCK)
        except (ConfigError, OSError) as error:
            raise CheckpointError(
                f"{self._folder}: its {LOCK} was removed while this run was written, and is not ours any more "
                f"({error}); nothing more is written, and what was saved before is untouched"
            ) from None
        _log.warning("%s: its %s was removed while this run was written; it is locked again", self._folder, LOCK)
        self._release()
        self._release = weakref.finalize(self, _unlock, new)


def is_owned(folder: Path) -> bool:
    """Whether some process, this one included, holds the run in `folder`."""
    try:
        fd = open_regular(folder / LOCK, os.O_RDONLY)
    except (OSError, CheckpointError):
        return False
    try:
        lock_file(fd, shared=True)
    except OSError as error:
        return error.errno in _HELD
    finally:
        os.close(fd)
    return False


def _expect_held(owner: weakref.ref[Ownership]) -> None:
    held = owner()
    if held is not None:
        held.expect_held()


def _expect_there(folder: Path, fd: int) -> None:
    """Raise CheckpointError where the run's folder was moved or removed; its lock file, still open, tells where to."""
    if folder.is_dir():
        return
    now = ""
    with contextlib.suppress(OSError):
        now = os.path.dirname(os.readlink(f"/proc/self/fd/{fd}"))
    moved = f"was moved to {now}" if now and os.path.isdir(now) else "was moved or removed"
    raise CheckpointError(
        f"{folder}: the folder {moved} while the run was written, so nothing more is saved; what was saved before is "
        "where it is now: move it back, and continue with --resume"
    )


def _lock(path: Path) -> int:
    """Return the descriptor of the locked file, which names this process."""
    while True:
        try:
            fd = open_regular(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise _refusal(path, error) from None
        try:
            lock_file(fd)
            if is_still(path, fd):
                os.ftruncate(fd, 0)
                os.lseek(fd, 0, os.SEEK_SET)
                os.write(fd, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
                return fd
            os.close(fd)
        except OSError as error:
            os.close(fd)
            raise _refusal(path, error) from None


def _excludes(path: Path) -> bool:
    """Whether a second lock on the locked file is refused; a file system may give every lock to everybody."""
    fd = open_regular(path, os.O_RDWR)
    try:
        lock_file(fd)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def _refusal(path: Path, error: OSError) -> ConfigError:
    folder = path.parent
    if isinstance(error, PermissionError) and error.errno != errno.EWOULDBLOCK and not os.access(path, os.W_OK):
        return ConfigError(
            f"{folder}: this user may not write there ({error.strerror}){_whose(folder)}; choose another --runs or "
            f"--name, or work on a copy of your own: cp -r {folder} COPY"
        )
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


def _whose(folder: Path) -> str:
    """Whose a folder is, for a message; nothing where it is one's own, or unknown."""
    owner = other_owner(folder)
    return f", it belongs to {owner}" if owner else ""


def _unlock(fd: int) -> None:
    unlock_file(fd)
    os.close(fd)


def _close_in_child(owner: weakref.ref[Ownership]) -> None:
    """Let go of the descriptor alone: unlocking would take the lock from the parent."""
    held = owner()
    found = None if held is None else held._release.detach()
    if found is not None:
        os.close(*found[2])
