"""`zoo.lock` in the working folder: digests of files whose publisher states none, or only its first digits.

The first download of such a file is pinned there. From then on no other file passes under that address, on any machine
that has the lock file: commit it.
"""

from __future__ import annotations

import json
from pathlib import Path

from framework.atomic import write_text
from framework.errors import CheckpointError
from framework.outside import read_json
from suites.engine.weights.wheels import check_sha256

LOCK = Path("zoo.lock")


def pinned(url: str) -> str | None:
    """The digest that an address is pinned to; None where it is not.

    Raises:
        CheckpointError: the lock file is damaged.
    """
    return _read().get(url)


def pin(url: str, sha256: str) -> None:
    """Pin an address to a digest."""
    found = _read() | {url: sha256}
    write_text(LOCK, json.dumps({"version": 1, "sha256": dict(sorted(found.items()))}, indent=2) + "\n")


def _read() -> dict[str, str]:
    if not LOCK.exists():
        return {}
    try:
        found = read_json(LOCK)["sha256"]
        for digest in found.values():
            check_sha256(digest)
        return dict(found)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{LOCK}: is damaged ({error}); take it from your version control, or remove it"
        ) from None
