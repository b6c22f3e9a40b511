"""Folders that are written into, and nothing outside of them: no link below one leads a writer away.

A run, an export or an index may come from a stranger. A link in it, such as `log.txt -> ~/.bashrc`, would have us write
or remove a file of the person who uses it. So whoever writes into a folder names it with `confine` first, and all that
writes, `framework.atomic`, asks `expect_inside`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from framework.errors import CheckpointError
from framework.system.files import NO_LINK

_REMEDY = "remove it, or work on a copy without links: cp -rL"
# By absolute path, `..` kept; none is taken out, since a check too many does no harm.
_roots: dict[str, Callable[[], None] | None] = {}


def confine(folder: Path, expect: Callable[[], None] | None = None) -> None:
    """From now on nothing that this process writes or removes below `folder` lies outside of it.

    `expect` is called before each write below it, and raises where this process may not write there any more.
    """
    root = os.path.join(os.getcwd(), folder)
    _roots[root] = expect or _roots.get(root)


def expect_inside(path: Path) -> None:
    """Raise CheckpointError where the folder of `path` is reached through a link that leads out of a confined folder.

    The last part of the path may be a link: who writes there replaces it, or opens it with `open_inside`.
    """
    written = os.path.join(os.getcwd(), path)
    for root, expect in tuple(_roots.items()):
        # A name such as `/../x` in a stranger's config leads out of the folder, too.
        ways = ((written, root), (os.path.abspath(written), os.path.abspath(root)))
        if not any(way.startswith(above + os.sep) for way, above in ways):
            continue
        if expect is not None:
            expect()
        if not _is_below(os.path.dirname(written), root):
            where = os.path.realpath(os.path.dirname(written))
            raise CheckpointError(
                f"{path}: lies outside of {root}, in {where}, through a link or ..; nothing is written there; {_REMEDY}"
            )


def expect_no_way_out(folder: Path) -> None:
    """Raise CheckpointError for a link below `folder` that leads out of it, or for what is neither file nor folder."""
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(above, name)
            try:
                mode = os.lstat(path).st_mode
            except FileNotFoundError:  # a run that goes on has removed it
                continue
            if stat.S_ISLNK(mode) and not _is_below(path, os.fspath(folder)):
                raise CheckpointError(
                    f"{path}: is a link to {os.readlink(path)}, outside of the folder, where nothing may be written; "
                    f"{_REMEDY} {folder} COPY"
                )
            if not (stat.S_ISLNK(mode) or stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise CheckpointError(f"{path}: is neither a file nor a folder, so it is not opened; remove it")


def open_inside(path: Path, flags: int) -> int:
    """Open a regular file for writing and return its descriptor; raises as `open_regular` and `expect_inside` do."""
    expect_inside(path)
    return open_regular(path, flags)


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file and return its descriptor; one that is made follows the umask.

    Args:
        path: of the file; not followed where it is a link.
        flags: of `os.open`.

    Raises CheckpointError where it is a link or no regular file; OSError.
    """
    try:
        fd = os.open(path, flags | NO_LINK, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise CheckpointError(f"{path}: is a link or no regular file, so it is not opened; {_REMEDY}") from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise CheckpointError(f"{path}: is no regular file, so it is not opened; remove it")
    return fd


def _is_below(path: str, root: str) -> bool:
    real, base = os.path.realpath(path), os.path.realpath(root)
    return real == base or real.startswith(base + os.sep)
