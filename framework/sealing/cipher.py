"""The keys that a user's key and an export's salt give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from framework.sealing.form import CHECK_BYTES, MAGIC
from framework.sealing.keys import require_cryptography

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM


def cipher_of(secret: bytes, salt: bytes) -> tuple[AESGCM, bytes]:
    """What encrypts and opens segments, and the bytes by which another key is known."""
    require_cryptography()
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    derived = HKDF(hashes.SHA256(), 32 + CHECK_BYTES, salt, MAGIC).derive(secret)
    return AESGCM(derived[:32]), derived[32:]
