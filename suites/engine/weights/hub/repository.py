"""Fetching a repository of a model hub: which files, their sizes and digests come from `huggingface_hub`, the bytes by
the downloader that all weights come by (resumed, one process at a time, checked). Configs, weights and tokenizers are
taken and never code.

A file of the hub's store of large files has a SHA-256 digest there, and a small one its Git digest: both are checked. A
file that the hub's own cache holds already is copied from there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from framework import limits
from framework.atomic import copy_file, make_folder, remove_file, write_text
from framework.errors import CheckpointError
from framework.locks import alone
from framework.outside import read_bytes
from suites.engine.weights.downloads import Wanted, digest_of, download
from suites.engine.weights.hub.names import (
    BELOW,
    MANIFEST,
    Fetched,
    Repository,
    check_commit,
    endpoint,
    folder_of,
    known_commit,
    parse,
    read_manifest,
    ref_of,
)
from suites.engine.weights.records.pins import LOCK, pin_repository, pinned_repository

_SMALL = frozenset(
    (
        *("config.yml", "processor.json", "metrics.json"),  # of a run that was shared, see `sharing`
        *("config.json", "generation_config.json", "preprocessor_config.json", "adapter_config.json"),
        *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
        *("vocab.txt", "vocab.json", "merges.txt", "spiece.model", "spm.model", "sentencepiece.bpe.model"),
        *("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json", *BELOW),
    )
)
_WHOLE = ("model.safetensors", "adapter_model.safetensors", "pytorch_model.bin", "adapter_model.bin")  # best first
_SHARDED = {
    "model.safetensors": re.compile(r"model-\d{5}-of-\d{5}\.safetensors|model\.safetensors\.index\.json"),
    "pytorch_model.bin": re.compile(r"pytorch_model-\d{5}-of-\d{5}\.bin|pytorch_model\.bin\.index\.json"),
}
_SECONDS = 30.0  # without an answer
_ON = ("1", "true", "yes", "on")


@dataclass(frozen=True)
class Listed:
    """A file as the hub lists it.

    Attributes:
        name: at the top of the repository.
        bytes: its size.
        sha256: its digest; None of a small file.
        blob: its Git digest; None where the hub does not say.
    """

    name: str
    bytes: int
    sha256: str | None
    blob: str | None


@dataclass(frozen=True)
class Listing:
    """What the hub says of a repository at a revision.

    Attributes:
        commit: which state that is.
        licence: as its card has it.
        gated: whether its files are only for those who accepted something.
        files: those at its top.
    """

    commit: str
    licence: str
    gated: bool
    files: list[Listed]


def fetch_repository(
    name: str, zoo: Path, say: Callable[[str], None] = lambda line: None, folder: Path | None = None
) -> list[Path]:
    """Put the files of a repository into a folder; what is there already is checked and stays.

    Args:
        name: `hf:OWNER/NAME[@REVISION]`.
        zoo: the zoo's folder.
        say: takes lines for people.
        folder: where to; by default the repository's own in the zoo's folder.

    Returns:
        The files. Commit and digests stand in the lock file of the working folder afterwards.

    Raises:
        CheckpointError: it cannot be fetched, or is not what the hub or the lock file says.
        ConfigError: it is no name of the hub.
    """
    repository = parse(name)
    pinned = pinned_repository(str(repository))
    commit = known_commit(repository, zoo, pinned.commit if pinned else None)
    if folder is None and commit is not None and (pinned is not None or repository.is_pinned):
        place = folder_of(repository, zoo) / commit
        if (there := read_manifest(place)) is not None:
            return _checked_again(place, there, say)
    listing = ask_hub(repository, commit if pinned else None)
    place = folder or folder_of(repository, zoo) / listing.commit
    make_folder(place)
    with alone(place / ".fetching", lambda: say(f"{name}: another process fetches it; waiting")):
        there = read_manifest(place)
        if there is None or there.commit != listing.commit:
            there = _fetch(repository, listing, place, say)
        paths = _checked_again(place, there, say)
    if pinned is not None and pinned.files != there.files:
        raise CheckpointError(
            f"{LOCK}: has other digests for {repository} than the hub now has for the same commit; it is not used. "
            "Remove that entry if you trust the hub"
        )
    make_folder(ref_of(repository, zoo).parent)
    write_text(ref_of(repository, zoo), there.commit + "\n")
    if pinned is None:
        pin_repository(str(repository), there)
        say(f"{repository}: commit {there.commit[:12]} is pinned in {LOCK}; commit that file")
    return paths


def ask_hub(repository: Repository, commit: str | None = None) -> Listing:
    """What the hub says of a repository at its revision, or at a commit in place of that.

    Raises CheckpointError where there is no such repository or revision, or no answer.
    """
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in _ON:
        raise CheckpointError(f"{repository}: HF_HUB_OFFLINE is set, so the hub is not asked; it has not been fetched")
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError

    where = f"{endpoint()}/{repository.id}"
    revision = commit or repository.revision
    try:
        info = HfApi(endpoint=endpoint()).model_info(
            repository.id, revision=revision, files_metadata=True, timeout=_SECONDS
        )
    except GatedRepoError:
        raise _gated(repository) from None
    except RevisionNotFoundError:
        raise CheckpointError(f"{repository}: {where} has no revision '{revision}'") from None
    except RepositoryNotFoundError:
        raise CheckpointError(
            f"{repository}: there is no {where}, or it is private; a private one needs HF_TOKEN"
        ) from None
    except HfHubHTTPError as error:
        status = getattr(error.response, "status_code", "an error")
        raise CheckpointError(f"{repository}: {endpoint()} answers {status}; try again later") from None
    except Exception as error:  # of whichever client the installed release uses
        text = str(error).partition("\n")[0][:200] or type(error).__name__
        raise CheckpointError(f"{repository}: {endpoint()} cannot be reached ({text}); is there a network?") from None
    return _listing(repository, info)


def _listing(repository: Repository, info: Any) -> Listing:
    card = getattr(info, "card_data", None)
    try:
        files = [_listed(each) for each in info.siblings or () if "/" not in each.rfilename or each.rfilename in BELOW]
        return Listing(
            check_commit(info.sha), str(getattr(card, "license", None) or "not stated"), bool(info.gated), files
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{repository}: {endpoint()} gives no list of files that can be read ({error})") from None


def _listed(sibling: Any) -> Listed:
    lfs = sibling.lfs
    size = sibling.size if lfs is None else lfs.size
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"{str(sibling.rfilename)[:60]} has no size")
    return Listed(sibling.rfilename, size, None if lfs is None else lfs.sha256, sibling.blob_id)


def described(name: str) -> str:
    """Bytes and licence of what would be fetched, for people; the hub is asked."""
    repository = parse(name)
    pinned = pinned_repository(str(repository))
    listing = ask_hub(repository, pinned.commit if pinned else None)
    total = sum(file.bytes for file in wanted_files(listing.files))
    return f"{total / 1e6:.1f} MB, licence {listing.licence}"


def wanted_files(files: Iterable[Listed]) -> list[Listed]:
    """Those that are fetched: configs, tokenizers, and weights as safetensors where there are any, else as pickles."""
    by_name = {file.name: file for file in files}
    small = [by_name[name] for name in sorted(_SMALL & by_name.keys())]
    for whole in _WHOLE:
        shards = [by_name[name] for name in sorted(by_name) if whole in _SHARDED and _SHARDED[whole].fullmatch(name)]
        if whole in by_name:
            return [by_name[whole], *small]
        if len(shards) > 1:
            return [*shards, *small]
    return small


def _fetch(repository: Repository, listing: Listing, folder: Path, say: Callable[[str], None]) -> Fetched:
    files = wanted_files(listing.files)
    if not any(file.name not in _SMALL for file in files):
        names = ", ".join(sorted(file.name for file in listing.files)[:12]) or "nothing"
        raise CheckpointError(
            f"{repository}: has no weights that are read here (model.safetensors or pytorch_model.bin, also in "
            f"shards); at its top it has {names}"
        )
    total = sum(file.bytes for file in files)
    limits.check("weight_bytes", total, f"{repository}: it has too many bytes")
    where = f"{endpoint()}/{repository.id} at {listing.commit[:12]}"
    say(f"fetching {where}, {total / 1e6:.1f} MB, licence {listing.licence}")
    found = {}
    for file in files:
        path = folder / file.name
        make_folder(path.parent)
        if not path.is_file() and not _from_cache(repository, listing.commit, file, path):
            _download(repository, listing, file, path, say)
        found[file.name] = (_checked(repository, file, path), file.bytes)
        say(str(path))
    there = Fetched(listing.commit, listing.licence, found)
    write_text(folder / MANIFEST, json.dumps(there.as_json(), indent=2) + "\n")
    return there


def _download(repository: Repository, listing: Listing, file: Listed, path: Path, say: Callable[[str], None]) -> None:
    from huggingface_hub import get_token

    url = f"{endpoint()}/{repository.id}/resolve/{listing.commit}/{quote(file.name)}"
    remedy = str(_gated(repository)) if listing.gated else "name a mirror with HF_ENDPOINT"
    download(
        Wanted(url, path, file.sha256 or "", file.bytes, f"{repository}: {file.name}", remedy, get_token() or ""), say
    )


def _from_cache(repository: Repository, commit: str, file: Listed, path: Path) -> bool:
    """Copy a file out of the hub's own cache; whether it has it."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repository.id, file.name, revision=commit)
    if not isinstance(found, str) or Path(found).stat().st_size != file.bytes:
        return False
    copy_file(Path(found), path)
    return True


def _checked(repository: Repository, file: Listed, path: Path) -> str:
    """The SHA-256 digest of a file that has come; CheckpointError, and no file, where it is another one."""
    found = digest_of(path)
    if path.stat().st_size != file.bytes:
        text = f"has {path.stat().st_size} bytes, not {file.bytes}"
    elif file.sha256 is not None and found != file.sha256:
        text = f"has the digest {found}, not {file.sha256}"
    elif file.sha256 is None and file.blob is not None and _blob(path) != file.blob:
        text = f"has the Git digest {_blob(path)}, not {file.blob}"
    else:
        return found
    remove_file(path)
    raise CheckpointError(f"{repository}: {file.name} {text}: it is damaged or another file, and removed")


def _blob(path: Path) -> str:
    content = read_bytes(path, "text_bytes")
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _checked_again(folder: Path, there: Fetched, say: Callable[[str], None]) -> list[Path]:
    for name, (sha256, size) in there.files.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size or digest_of(path) != sha256:
            raise CheckpointError(f"{path}: is missing or damaged; remove {folder} and fetch it again")
    say(f"{folder} is whole")
    return [folder / name for name in there.files]


def _gated(repository: Repository) -> CheckpointError:
    return CheckpointError(
        f"{repository}: its files are only for people who accepted its terms: do so at {endpoint()}/{repository.id}, "
        "then set HF_TOKEN to your token"
    )
