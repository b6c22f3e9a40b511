"""Compressed logs as blocks of bytes: gzip and zip by Python's own modules, zstd by Python's or its backport.

Neither needs a header of the system to build; both let other threads run while they work.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from framework.data.logs.archives import Member, in_zip
from framework.errors import DataError, NotSupportedError
from framework.extras import install_command
from framework.limits import current, how_to_raise
from framework.outside import open_file

_READ = 1 << 16  # bytes of the file at a time
_MADE = 1 << 18  # bytes inflated at a time: what a bomb costs before it is seen
_ENDINGS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}


def compression(path: Path) -> str | None:
    """ "zip" for what leads into one, "gzip" or "zstd" by the file's ending; None for a plain file."""
    return "zip" if in_zip(path) else _ENDINGS.get(path.suffix.lower())


class _Inflater(Protocol):
    @property
    def eof(self) -> bool:
        """Whether a member has ended."""

    @property
    def unused_data(self) -> bytes:
        """What was fed behind its end."""

    def feed(self, data: bytes) -> bytes:
        """Take compressed bytes, b"" for more of what it has, and return `_MADE` inflated ones at most."""


class _Gzip:
    def __init__(self) -> None:
        self._object = zlib.decompressobj(31)

    @property
    def eof(self) -> bool:
        return self._object.eof

    @property
    def unused_data(self) -> bytes:
        return self._object.unused_data

    def feed(self, data: bytes) -> bytes:
        return self._object.decompress(self._object.unconsumed_tail + data, _MADE)


class _Zstd:
    def __init__(self, module: Any) -> None:
        # A frame may ask for a window of its own size; 128 MiB is what the format's tools allow by default.
        self._object = module.ZstdDecompressor(options={module.DecompressionParameter.window_log_max: 27})

    @property
    def eof(self) -> bool:
        return self._object.eof

    @property
    def unused_data(self) -> bytes:
        return self._object.unused_data

    def feed(self, data: bytes) -> bytes:
        return self._object.decompress(data, _MADE)


def zstd_module() -> Any:
    """Python's zstd (3.14) or its backport; raise NotSupportedError where neither is installed."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise NotSupportedError(f"a zstd log needs a package: {install_command('logs')}")


def inflated(path: Path) -> Iterator[bytes]:
    """Blocks of a compressed file's content, of 256 KiB at most; several members are read one after the other.

    Raises DataError for a file that is damaged, ends in the middle or grows beyond `limits.log_growth`.
    """
    kind = compression(path)
    if kind == "zip":
        yield from _from_zip(path)
        return
    with open_file(path, None, DataError) as file:
        yield from (gzip_blocks if kind == "gzip" else _zstd_blocks)(file, path)


def gzip_blocks(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Likewise of an open gzip file; `path` is its name for messages."""
    try:
        yield from _members(file, _Gzip, path)
    except zlib.error as error:
        raise _damaged(path, error) from None


def _zstd_blocks(file: BinaryIO, path: Path) -> Iterator[bytes]:
    module = zstd_module()
    try:
        yield from _members(file, lambda: _Zstd(module), path)
    except module.ZstdError as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(f"{path}: it is damaged ({error}); make or fetch it again")


def _members(file: BinaryIO, make: Callable[[], _Inflater], path: Path) -> Iterator[bytes]:
    meter = _Growth(path)
    data = file.read(_READ)
    if not data:
        raise DataError(f"{path}: it is empty, without the header of a compressed file; make or fetch it again")
    while data.strip(b"\0"):  # zeros behind a gzip member are padding
        inflater = make()
        while not inflater.eof:
            meter.read += len(data)
            made = inflater.feed(data)
            meter.take(len(made))
            if made:
                yield made
            data = b""
            if len(made) < _MADE and not inflater.eof:
                data = file.read(_READ)
                if not data and not made:
                    raise DataError(f"{path}: it ends in the middle of its compressed data; make or fetch it again")
        data = inflater.unused_data or file.read(_READ)


def _from_zip(path: Path) -> Iterator[bytes]:
    member, meter = Member(path), _Growth(path)
    meter.read = member.packed
    for made in member.blocks(_MADE):
        meter.take(len(made))
        yield made


class _Growth:
    """Bytes made of a file, against the bytes read."""

    def __init__(self, path: Path) -> None:
        self.read, self._made, self._path, self._limits = 0, 0, path, current()

    def take(self, count: int) -> None:
        self._made += count
        if self._made > self._limits.free_bytes + self._limits.log_growth * self.read:
            raise DataError(
                f"{self._path}: {self.read} bytes of it grow to more than {self._made}, over {self._limits.log_growth} "
                f"times as many. {how_to_raise('log_growth')}"
            )
