"""What a person does about an error of the system: a full disk, a limit of the shell, memory that ran out."""

from __future__ import annotations

import errno

_REMEDIES = {
    errno.ENOSPC: "free some space or choose another folder",
    errno.EDQUOT: "the quota is used up: remove files, or choose another folder",
    errno.EMFILE: "this shell's limit of open files: raise it with `ulimit -n 4096`, or use fewer runtime.workers",
    errno.ENFILE: "the system's limit of open files: close other programs, or use fewer runtime.workers",
    errno.EFBIG: "free some space or choose another disk, or raise this shell's limit: `ulimit -f unlimited`",
    errno.ENOMEM: "use a smaller batch or fewer runtime.workers, or raise the shell's limit with `ulimit -v unlimited`",
    errno.EAGAIN: "no more processes or threads: raise `ulimit -u`, or use fewer runtime.workers and runtime.threads",
    errno.EROFS: "it can only be read: choose another folder",
    errno.EACCES: "this user may not: choose another folder, or ask its owner",
    errno.EPERM: "this user may not: choose another folder, or ask its owner",
    errno.EIO: "the disk reports an error (`dmesg`): choose another one, and look after the data on this one",
    errno.ESTALE: "the network file system has lost it: mount it again",
    errno.ENAMETOOLONG: "choose shorter names",
}


def remedy(error: BaseException | None) -> str:
    """What to do about an error, without the error itself; empty where nothing is known."""
    if isinstance(error, MemoryError):
        return _REMEDIES[errno.ENOMEM]
    return _REMEDIES.get(error.errno or 0, "") if isinstance(error, OSError) else ""


def refusal(error: OSError) -> str:
    """What the system says of a file that it refused, and what to do about it."""
    return ": ".join(part for part in (error.strerror or str(error), remedy(error)) if part)


def with_remedy(error: BaseException) -> str:
    """An error's text, and what to do about it."""
    text = str(error) or ("memory ran out" if isinstance(error, MemoryError) else type(error).__name__)
    return "; ".join(part for part in (text, remedy(error)) if part)
