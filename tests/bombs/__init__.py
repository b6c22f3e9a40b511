"""Files and requests that are small and cost much, and what reads them within limits; see `tests.bombs.core`."""

from tests.bombs import data, files
from tests.bombs.core import BOMBS, BYTES, READERS, SECONDS, data_now, within, write
from tests.bombs.files import chain_of, endless, operation, png, program, zip_of

__all__ = [
    "BOMBS",
    "BYTES",
    "READERS",
    "SECONDS",
    "chain_of",
    "data",
    "data_now",
    "endless",
    "files",
    "operation",
    "png",
    "program",
    "within",
    "write",
    "zip_of",
]
