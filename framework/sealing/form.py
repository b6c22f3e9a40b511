"""The form of a sealed export: `seal.json`, `seal.sig` and the files that it names.

seal.json: `format` "paddock-seal"; `version` 1; `segment_bytes`; `encryption`, null or {`cipher`, `kdf`, `salt`,
`key`}; `signer`, null or a public key; `files`, each with `name`, `bytes` and, of a signed export, `digests`: the
SHA-256 of each segment as it is stored. Bytes are written in hexadecimal.

seal.sig: Ed25519 (RFC 8032) over `MAGIC` and the bytes of seal.json.

An encrypted file is called NAME.sealed. It is cut into segments of `segment_bytes`, the last one shorter; each is
AES-256-GCM (NIST SP 800-38D) with its tag of 16 bytes behind it. The key is HKDF-SHA256 (RFC 5869) of the user's and a
salt that is drawn for each export. The nonce is the number of the file (4 bytes) and of the segment (8), and the
authenticated data say both, the file's name and its size; so a segment opens in its own place only.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Any

from framework.errors import CheckpointError

NAME, SIGNATURE, ENDING = "seal.json", "seal.sig", ".sealed"
FORMAT, VERSION = "paddock-seal", 1
CIPHER, KDF = "AES-256-GCM", "HKDF-SHA256"
MAGIC = b"paddock seal 1\0"
SEGMENT, TAG = 1 << 20, 16
SALT_BYTES, CHECK_BYTES = 32, 8
_LEAST, _MOST_SEGMENT, _MOST_FILES = 1 << 10, 1 << 26, 1 << 10
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_HEX = re.compile(r"(?:[0-9a-f]{2})+")


@dataclass(frozen=True)
class SealedFile:
    """A file of a sealed export.

    Attributes:
        name: of the file that was sealed.
        size: its bytes.
        digests: of a signed export, the SHA-256 of each segment as it is stored.
    """

    name: str
    size: int
    digests: tuple[bytes, ...] | None

    def segments(self, segment: int) -> int:
        """How many there are; one, of no bytes, of an empty file."""
        return max(1, -(-self.size // segment))


@dataclass(frozen=True)
class Form:
    """What seal.json says.

    Attributes:
        segment: bytes of a segment.
        salt: of an encrypted export; None of one that everybody can read.
        check: tells a wrong key from a changed file.
        signer: the public key of who signed it; None where nobody did.
        files: in order.
    """

    segment: int
    salt: bytes | None
    check: bytes
    signer: bytes | None
    files: tuple[SealedFile, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        encryption = {"cipher": CIPHER, "kdf": KDF, "salt": (self.salt or b"").hex(), "key": self.check.hex()}
        files = [
            {"name": file.name, "bytes": file.size}
            | ({} if file.digests is None else {"digests": [digest.hex() for digest in file.digests]})
            for file in self.files
        ]
        return {
            "format": FORMAT,
            "version": VERSION,
            "segment_bytes": self.segment,
            "encryption": None if self.salt is None else encryption,
            "signer": None if self.signer is None else self.signer.hex(),
            "files": files,
        }


def form_of(data: Any) -> Form:
    """Checked, whatever it is.

    Raises CheckpointError for what no seal says.
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise CheckpointError(f"it is no seal of an export ('format' is not {FORMAT!r})")
    version = data.get("version")
    if version != VERSION:
        newer = isinstance(version, int) and version > VERSION
        hint = "; it was made by a newer version of Paddock: update it" if newer else ""
        raise CheckpointError(f"its version is {version!r:.20}, and {VERSION} is read{hint}")
    segment = _number(data, "segment_bytes", _LEAST, _MOST_SEGMENT)
    salt, check = None, b""
    encryption = data.get("encryption")
    if encryption is not None:
        if not isinstance(encryption, dict) or (encryption.get("cipher"), encryption.get("kdf")) != (CIPHER, KDF):
            raise CheckpointError(f"'encryption' is not {CIPHER} with {KDF}")
        salt, check = _bytes(encryption, "salt", SALT_BYTES), _bytes(encryption, "key", CHECK_BYTES)
    signer = None if data.get("signer") is None else _bytes(data, "signer", 32)
    if salt is None and signer is None:
        raise CheckpointError("it neither encrypts nor signs")
    entries = data.get("files")
    if not isinstance(entries, list) or not 0 < len(entries) <= _MOST_FILES:
        raise CheckpointError("'files' is no list of files")
    files = tuple(_file(entry, segment, signed=signer is not None) for entry in entries)
    if len({file.name for file in files}) < len(files):
        raise CheckpointError("'files' names one twice")
    return Form(segment, salt, check, signer, files)


def _file(entry: Any, segment: int, *, signed: bool) -> SealedFile:
    name = entry.get("name") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not _PLAIN.fullmatch(name) or name in (NAME, SIGNATURE):
        raise CheckpointError(f"{name!r:.80} is no name of a sealed file")
    file = SealedFile(name, _number(entry, "bytes", 0, 1 << 50), None)
    if not signed:
        return file
    digests, count = entry.get("digests"), file.segments(segment)
    if not isinstance(digests, list) or len(digests) != count:
        raise CheckpointError(f"'digests' of {name} are not one for each of its {count} segments")
    return SealedFile(name, file.size, tuple(_bytes({"digests": each}, "digests", 32) for each in digests))


def _number(data: dict[str, Any], key: str, least: int, most: int) -> int:
    value = data.get(key)
    if type(value) is not int or not least <= value <= most:
        raise CheckpointError(f"{key!r} is {value!r:.40}; it must be a whole number from {least} to {most}")
    return value


def _bytes(data: dict[str, Any], key: str, count: int) -> bytes:
    value = data.get(key)
    if not isinstance(value, str) or len(value) != 2 * count or not _HEX.fullmatch(value):
        raise CheckpointError(f"{key!r} is not {count} bytes in hexadecimal")
    return bytes.fromhex(value)


def nonce(file: int, segment: int) -> bytes:
    """12 bytes that come once under a key."""
    return struct.pack(">IQ", file, segment)


def told(number: int, file: SealedFile, segment: int, segment_bytes: int) -> bytes:
    """What a segment's tag vouches for beside its bytes."""
    return MAGIC + struct.pack(">IQQQ", number, segment, file.size, segment_bytes) + file.name.encode()
