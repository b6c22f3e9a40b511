"""Opening a sealed export: all of it is checked before any of it is used, and it is decrypted in memory alone."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import logging
import mmap
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from framework import limits
from framework.errors import CheckpointError
from framework.outside import open_file, read_bytes
from framework.sealing.cipher import cipher_of
from framework.sealing.form import ENDING, MAGIC, NAME, SIGNATURE, TAG, Form, form_of, nonce, told
from framework.sealing.keys import Keys, current_keys, public_key, require_cryptography, secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_log = logging.getLogger(__name__)
_FEW = 8  # segments that are no work for threads
_AGAIN = "copy the whole folder again from where you trust it"


# Of this process alone; by default Python shares it, in small pages.
_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}


class Wiped(mmap.mmap):
    """Memory that is not in core dumps, and is zeros once nothing uses it any more."""

    def __new__(cls, size: int) -> Wiped:
        """`size` bytes, zeros."""
        made = super().__new__(cls, -1, max(size, 1), **_PRIVATE)
        for advice in ("MADV_DONTDUMP", "MADV_HUGEPAGE"):  # the second saves most of its page faults
            with contextlib.suppress(AttributeError, OSError):
                made.madvise(getattr(mmap, advice))
        return made

    def __del__(self) -> None:
        """What views of it held it is gone, so nobody reads it."""
        if not self.closed:
            ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(self)), 0, len(self))


@dataclass(frozen=True)
class Opened:
    """The files of a sealed export in memory.

    Attributes:
        files: by name.
        signer: the public key that signed them; None where nobody did.
    """

    files: dict[str, memoryview]
    signer: bytes | None


def is_sealed(folder: Path | str) -> bool:
    """Whether a folder has a seal."""
    return (Path(folder) / NAME).is_file()


def expect_sealed(path: Path | str) -> None:
    """Of a model without a seal: CheckpointError where only what an owner signed is opened, a word about a lone key."""
    if is_sealed(path):
        return
    if current_keys().verify is not None:
        raise CheckpointError(f"{path}: is not sealed, and only what the owner of --verify signed is opened")
    if current_keys().decrypt is not None:
        _log.warning("%s: is not encrypted, so the key of --decrypt is not used; --verify refuses such a model", path)


def open_sealed(folder: Path | str, keys: Keys | None = None) -> Opened:
    """Check and decrypt a sealed export.

    Args:
        folder: it.
        keys: what it is opened with; by default those of this thread, see `framework.sealing.keys`.

    Raises:
        CheckpointError: a key is missing or another one, or something was changed, cut, moved or swapped.
        NotSupportedError: the package `cryptography` is not installed.
    """
    folder = Path(folder)
    keys = current_keys() if keys is None else keys
    path = folder / NAME
    try:
        text = read_bytes(path)
        form = form_of(json.loads(text))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}); {_AGAIN}") from None
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}") from None
    _check_signature(folder, text, form, keys)
    cipher = None
    if form.salt is not None:
        if keys.decrypt is None:
            raise CheckpointError(
                f"{folder}: is encrypted; name its key: --decrypt SOURCE, framework.sealing.keys(decrypt=...) in Python"
            )
        cipher, check = cipher_of(secret(keys.decrypt), form.salt)
        if check != form.check:
            raise CheckpointError(f"{folder}: was encrypted with another key")
        for file in form.files:
            if (folder / file.name).exists():
                raise CheckpointError(
                    f"{folder}: has {file.name} beside its encrypted form, which no whole export has; {_AGAIN}"
                )
    return Opened({file.name: _opened(folder, form, k, cipher) for k, file in enumerate(form.files)}, form.signer)


def _check_signature(folder: Path, text: bytes, form: Form, keys: Keys) -> None:
    wanted = None if keys.verify is None else public_key(keys.verify)
    if form.signer is None:
        if wanted is not None:
            raise CheckpointError(f"{folder}: is not signed, and only what the owner of --verify signed is opened")
        return
    if wanted is not None and wanted != form.signer:
        raise CheckpointError(f"{folder}: is signed by another key, {form.signer.hex()[:16]}..., not by --verify's")
    require_cryptography()
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        signature = read_bytes(folder / SIGNATURE)
        Ed25519PublicKey.from_public_bytes(form.signer).verify(signature, MAGIC + text)
    except (OSError, ValueError, InvalidSignature):
        raise CheckpointError(
            f"{folder}: {NAME} and its signature {SIGNATURE} do not fit, so it was changed; {_AGAIN}"
        ) from None
    if wanted is None:
        _log.info("%s: signed by %s...; --verify KEY.pem checks who that is", folder, form.signer.hex()[:16])


def _opened(folder: Path, form: Form, number: int, cipher: AESGCM | None) -> memoryview:
    """The bytes of a file, in memory that is wiped where it was encrypted."""
    file = form.files[number]
    stored = folder / (file.name if cipher is None else file.name + ENDING)
    count, extra = file.segments(form.segment), 0 if cipher is None else TAG
    limits.check("weight_bytes", file.size, f"{stored}: it has too many bytes")
    try:
        with open_file(stored, "weight_bytes") as source:
            if os.fstat(source.fileno()).st_size != file.size + count * extra:
                raise CheckpointError(f"{stored}: is cut, or longer than its seal says; {_AGAIN}")
            memory = memoryview(Wiped(file.size))[: file.size]
            room = threading.local()  # each thread's for a segment as it is stored

            def take(k: int) -> None:
                if not hasattr(room, "bytes"):
                    room.bytes = memoryview(bytearray(min(form.segment, file.size) + extra))
                _take(source, stored, form, number, k, cipher, memory, room.bytes)

            if count < _FEW:
                for k in range(count):
                    take(k)
            else:  # decryption and digests leave Python's lock to others
                with ThreadPoolExecutor(4) as pool:
                    list(pool.map(take, range(count)))
    except OSError as error:
        raise CheckpointError(f"{stored}: cannot be read ({error.strerror or error}); {_AGAIN}") from None
    return memory


def _take(
    source: BinaryIO,
    stored: Path,
    form: Form,
    number: int,
    k: int,
    cipher: AESGCM | None,
    memory: memoryview,
    room: memoryview,
) -> None:
    """Segment k into its place, checked."""
    file = form.files[number]
    at = k * form.segment
    size = min(form.segment, file.size - at)
    extra = 0 if cipher is None else TAG
    place = memory[at : at + size]
    part = place if cipher is None else room[: size + extra]
    changed = f"{stored}: was changed (segment {k}); {_AGAIN}"
    got = os.preadv(source.fileno(), [part], k * (form.segment + extra))
    if got != len(part) or (file.digests and hashlib.sha256(part).digest() != file.digests[k]):
        raise CheckpointError(changed)
    if cipher is not None:
        _decrypt(cipher, nonce(number, k), part, told(number, file, k, form.segment), place, changed)


def _decrypt(cipher: AESGCM, once: bytes, part: memoryview, about: bytes, place: memoryview, changed: str) -> None:
    from cryptography.exceptions import InvalidTag

    try:
        cipher.decrypt_into(once, part, about, place)
    except InvalidTag:
        raise CheckpointError(changed) from None
