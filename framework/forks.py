"""Locks after a fork: a child has them as they were, and no thread to let go of those that another thread held."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol


class Locked(Protocol):
    """What has a lock of its own, `_lock`, which a child of a fork needs to be free."""

    _lock: Any


_with_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def free_in_child(owner: Locked) -> None:
    """Gives `owner` a new `_lock` in a child of a fork where a thread that the child lacks holds the old one.

    What such a thread was at is left half-done: `owner._after_fork()`, where there is one, mends or refuses it.
    """
    _with_locks.add(owner)


def _free_locks() -> None:
    for owner in list(_with_locks):
        if owner._lock.acquire(blocking=False):  # nobody's, or of the thread that has forked
            owner._lock.release()
            continue
        owner._lock = threading.RLock() if isinstance(owner._lock, _REENTRANT) else threading.Lock()
        if hasattr(owner, "_after_fork"):
            owner._after_fork()


def in_child(act: Callable[[], object]) -> None:
    """Call `act` in each child of a fork from now on; never where the system has no forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=act)


_REENTRANT = type(threading.RLock())
in_child(_free_locks)
