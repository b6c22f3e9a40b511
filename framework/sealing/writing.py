"""Writing a sealed export: nothing of it reaches the disk before it is encrypted."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from framework.atomic import remove_file, write_bytes
from framework.errors import CheckpointError
from framework.remedies import refusal
from framework.sealing.cipher import cipher_of
from framework.sealing.form import ENDING, MAGIC, NAME, SALT_BYTES, SEGMENT, SIGNATURE, Form, SealedFile, nonce, told
from framework.sealing.keys import Seal, private_key, secret


def write_sealed(folder: Path, files: Mapping[str, bytes], seal: Seal, *, segment: int = SEGMENT) -> None:
    """Write files, by their names, into a folder that is there; what was sealed there before is replaced.

    The seal is written last, so a process that is killed leaves an export that is refused, not one of two halves.

    Args:
        folder: to write into.
        files: what is sealed, by name.
        seal: the keys.
        segment: bytes that are encrypted and checked together.

    Raises:
        CheckpointError: a key cannot be had, or a file cannot be written.
    """
    signer = None if seal.sign is None else private_key(seal.sign)
    salt = None if seal.encrypt is None else os.urandom(SALT_BYTES)
    cipher, check = (None, b"") if seal.encrypt is None or salt is None else cipher_of(secret(seal.encrypt), salt)
    try:
        remove_seal(folder, files)
        listed = []
        for number, (name, content) in enumerate(files.items()):
            file, view = SealedFile(name, len(content), None), memoryview(content)
            parts: list[bytes | memoryview] = []
            for k in range(file.segments(segment)):
                part: bytes | memoryview = view[k * segment : (k + 1) * segment]
                if cipher is not None:
                    part = cipher.encrypt(nonce(number, k), part, told(number, file, k, segment))
                parts.append(part)
            digests = None if signer is None else tuple(hashlib.sha256(part).digest() for part in parts)
            listed.append(SealedFile(name, len(content), digests))
            write_bytes(folder / (name if cipher is None else name + ENDING), b"".join(parts))
            if cipher is not None:
                remove_file(folder / name)
        public = None if signer is None else signer.public_key().public_bytes_raw()
        text = json.dumps(Form(segment, salt, check, public, tuple(listed)).as_json(), indent=1).encode()
        if signer is not None:
            write_bytes(folder / SIGNATURE, signer.sign(MAGIC + text))
        write_bytes(folder / NAME, text)
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be written ({refusal(error)})") from error


def remove_seal(folder: Path, names: Iterable[str]) -> None:
    """Remove a seal from a folder, and the encrypted forms of files of these names; other files stay."""
    for name in (NAME, SIGNATURE, *(name + ENDING for name in names)):
        remove_file(folder / name)
