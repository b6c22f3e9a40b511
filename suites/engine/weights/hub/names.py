"""`hf:OWNER/NAME[@REVISION]`: the name of a repository of a model hub, and what is known here of one that was fetched.

Its files lie in `hf/OWNER--NAME/COMMIT/` of the zoo's folder with `.fetched.json`, which lists them with their sizes
and digests. `hf/OWNER--NAME/refs/REVISION` says which commit a revision was when it was fetched last.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from framework.errors import CheckpointError, ConfigError
from framework.outside import read_json, read_text
from suites.engine.weights.wheels import check_sha256

PREFIX = "hf:"
MANIFEST = ".fetched.json"
BELOW = ("1_Pooling/config.json",)  # files that are taken from a folder of a repository: of sentence-transformers
ENDPOINT = "https://huggingface.co"
_NAME = re.compile(
    r"hf:(?P<owner>[A-Za-z0-9][A-Za-z0-9._-]{0,95})/(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,95})"
    r"(?:@(?P<revision>[A-Za-z0-9_][A-Za-z0-9_./-]{0,254}))?"
)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Repository:
    """A repository of the hub at a revision: a branch, a tag or a commit."""

    owner: str
    name: str
    revision: str = "main"

    @property
    def id(self) -> str:
        """`OWNER/NAME`."""
        return f"{self.owner}/{self.name}"

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a commit."""
        return _COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        return f"{PREFIX}{self.id}" + (f"@{self.revision}" if self.revision != "main" else "")


@dataclass(frozen=True)
class Fetched:
    """What was fetched of a repository.

    Attributes:
        commit: which state of it.
        licence: as its card has it.
        files: names with their SHA-256 digests and bytes.
    """

    commit: str
    licence: str = "not stated"
    files: dict[str, tuple[str, int]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Fit for JSON."""
        files = {name: {"sha256": sha256, "bytes": size} for name, (sha256, size) in sorted(self.files.items())}
        return {"commit": self.commit, "licence": self.licence, "files": files}


def is_hub(name: str) -> bool:
    """Whether a name is one of the hub."""
    return name.startswith(PREFIX)


def parse(name: str) -> Repository:
    """The repository that a name means; ConfigError where it is none."""
    found = _NAME.fullmatch(name)
    if found is None or ".." in name:
        raise ConfigError(
            f"'{name[:200]}' is no name on the hub; it takes hf:OWNER/NAME or hf:OWNER/NAME@REVISION, such as "
            "hf:google-bert/bert-base-uncased"
        )
    return Repository(found["owner"], found["name"], found["revision"] or "main")


def with_file(path: str) -> tuple[str, str] | None:
    """Name and file of `hf:OWNER/NAME[@REVISION]/FILE`, whose file lies at the top; None for any other path."""
    head, _, file = path.rpartition("/")
    return (head, file) if is_hub(path) and _NAME.fullmatch(head) else None


def endpoint() -> str:
    """The address of the hub, or of its mirror: `HF_ENDPOINT`, which all tools of the hub follow."""
    return (os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")


def folder_of(repository: Repository, zoo: Path) -> Path:
    """Where all states of a repository lie."""
    return zoo / "hf" / f"{repository.owner}--{repository.name}"


def ref_of(repository: Repository, zoo: Path) -> Path:
    """The file that says which commit a revision was."""
    return folder_of(repository, zoo) / "refs" / quote(repository.revision, safe="")


def known_commit(repository: Repository, zoo: Path, pinned: str | None) -> str | None:
    """The commit that a revision means here, without asking the hub; None where it was never fetched.

    Args:
        repository: with the revision.
        zoo: the zoo's folder.
        pinned: the commit that the lock file has.
    """
    if repository.is_pinned or pinned is not None:
        return pinned or repository.revision
    ref = ref_of(repository, zoo)
    text = read_text(ref).strip() if ref.is_file() else ""
    return text if _COMMIT.fullmatch(text) else None


def read_manifest(folder: Path) -> Fetched | None:
    """What was fetched into a folder; None where it is not whole.

    Raises CheckpointError where the list is damaged.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        return fetched_from(read_json(path))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path}: is damaged ({error}); remove the folder and fetch it again") from None


def fetched_from(found: Any) -> Fetched:
    """What `Fetched.as_json` describes; ValueError, KeyError, TypeError or AttributeError for anything else."""
    files = {str(name): (str(entry["sha256"]), int(entry["bytes"])) for name, entry in found["files"].items()}
    for name, (sha256, _) in files.items():
        check_sha256(sha256)
        if Path(name).name != name and name not in BELOW:
            raise ValueError(f"{name} is no plain file name")
    return Fetched(check_commit(found["commit"]), str(found["licence"]), files)


def check_commit(text: Any) -> str:
    """The commit; ValueError for what is none."""
    if not isinstance(text, str) or not _COMMIT.fullmatch(text):
        raise ValueError(f"{str(text)[:60]!r} is no commit of 40 hexadecimal digits")
    return text
