"""Sealed exports: signed (Ed25519), encrypted (AES-256-GCM) or both; see docs/howto/sealed.md."""

from framework.sealing.keys import Keys, KeySource, Seal, current_keys, keys
from framework.sealing.opening import Opened, expect_sealed, is_sealed, open_sealed
from framework.sealing.writing import remove_seal, write_sealed

__all__ = [
    "KeySource",
    "Keys",
    "Opened",
    "Seal",
    "current_keys",
    "expect_sealed",
    "is_sealed",
    "keys",
    "open_sealed",
    "remove_seal",
    "write_sealed",
]
