"""`zoo.lock` in the working folder: digests of files whose publisher states none, or only its first digits; and which
commit of a hub's repository a name means, with the digests of its files.

The first download is pinned there. From then on no other file passes under that address or name, on any machine that
has the lock file: commit it.
"""

from __future__ import annotations

import json
from pathlib import Path

from framework.atomic import write_text
from framework.errors import CheckpointError
from framework.outside import read_json
from suites.engine.weights.hub.names import Fetched, fetched_from
from suites.engine.weights.wheels import check_sha256

LOCK = Path("zoo.lock")


def pinned(url: str) -> str | None:
    """The digest that an address is pinned to; None where it is not.

    Raises:
        CheckpointError: the lock file is damaged.
    """
    return _read()[0].get(url)


def pin(url: str, sha256: str) -> None:
    """Pin an address to a digest."""
    digests, repositories = _read()
    _write(digests | {url: sha256}, repositories)


def pinned_repository(name: str) -> Fetched | None:
    """The commit, and the digests of its files, that a name of the hub is pinned to; None where it is not.

    Raises:
        CheckpointError: the lock file is damaged.
    """
    return _read()[1].get(name)


def pin_repository(name: str, fetched: Fetched) -> None:
    """Pin a name of the hub to a commit and the digests of its files."""
    digests, repositories = _read()
    _write(digests, repositories | {name: fetched})


def _write(digests: dict[str, str], repositories: dict[str, Fetched]) -> None:
    found: dict[str, object] = {"version": 1, "sha256": dict(sorted(digests.items()))}
    if repositories:
        found["hub"] = {name: fetched.as_json() for name, fetched in sorted(repositories.items())}
    write_text(LOCK, json.dumps(found, indent=2) + "\n")


def _read() -> tuple[dict[str, str], dict[str, Fetched]]:
    if not LOCK.exists():
        return {}, {}
    try:
        found = read_json(LOCK)
        digests = dict(found["sha256"])
        for digest in digests.values():
            check_sha256(digest)
        return digests, {str(name): fetched_from(entry) for name, entry in found.get("hub", {}).items()}
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{LOCK}: is damaged ({error}); take it from your version control, or remove it"
        ) from None
