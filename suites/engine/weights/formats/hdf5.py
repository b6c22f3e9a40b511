"""The numbers that an HDF5 file holds, by their paths: as much of the format as files of weights use.

Groups, new and old, and data sets that lie in one piece, in their header or in chunks (deflated, shuffled). Everything
else is an error: links to elsewhere, other filters, texts. Nothing is trusted: every block is looked up inside of the
file, all blocks together are no larger than it, and no object is read twice, so loops end.
The format: https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html (sections are named below).
"""

from __future__ import annotations

import itertools
import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from framework.errors import CheckpointError
from framework.limits import Meter, check

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_UNDEFINED = (1 << 64) - 1
_MOST_AXES, _LONGEST_NAME = 32, 1024
_SPACE, _LINKS, _TYPE, _LINK, _OUTSIDE, _LAYOUT, _FILTERS, _MORE, _TABLE = 1, 2, 3, 6, 7, 8, 11, 16, 17  # messages
_DEFLATE, _SHUFFLE = 1, 2
_KINDS = {  # of IEEE numbers by size: place and size of the exponent, of the mantissa, bias
    2: (10, 5, 0, 10, 15),
    4: (23, 8, 0, 23, 127),
    8: (52, 11, 0, 52, 1023),
}


def read_hdf5(data: bytes) -> dict[str, np.ndarray]:
    """Every data set of a file by its path, such as `block1/layers/conv2d/vars/0`.

    Raises:
        CheckpointError: it is no HDF5 file, is damaged, or has something that files of weights do not need.
    """
    try:
        return dict(_File(data).arrays())
    except (struct.error, UnicodeDecodeError, zlib.error, OverflowError) as error:
        raise _damaged(str(error)) from None


def _damaged(what: str) -> CheckpointError:
    return CheckpointError(f"not an HDF5 file, or a damaged one ({what})")


def _refused(name: str, what: str) -> CheckpointError:
    return CheckpointError(f"'{name or '/'}' {what}, which is not read here; save plain numbers with h5py's defaults")


@dataclass
class _Header:
    """The messages of an object that are looked at, by their number; of links there may be several."""

    messages: dict[int, memoryview] = field(default_factory=dict)
    links: list[memoryview] = field(default_factory=list)


class _Bytes:
    """Numbers that follow each other in a block."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> Any:
        """The next numbers in `struct`'s form, little endian; one number comes alone."""
        found = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return found[0] if len(found) == 1 else found

    def piece(self, size: int) -> memoryview:
        """The next bytes."""
        if not 0 <= size <= len(self.data) - self.at:
            raise _damaged("a message ends too early")
        self.at += size
        return self.data[self.at - size : self.at]


class _File:
    """Blocks of a file, each read once."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._left, self._steps = len(data), 0
        self._seen: set[int] = set()
        self._meter = Meter(len(data), "the file")

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        """(path, numbers) of each data set; groups wait on a list, so depth costs no stack."""
        waiting = [("", self._root())]
        while waiting:
            path, at = waiting.pop()
            header = self._header(at)
            if header.links or _TABLE in header.messages or _LINKS in header.messages:
                waiting += [(f"{path}/{name}" if path else name, to) for name, to in self._members(path, header)]
            elif _LAYOUT in header.messages:
                yield path, self._numbers(path, header)
            elif _TYPE in header.messages:
                raise _refused(path, "is a named type")

    def _block(self, at: int, size: int) -> memoryview:
        """Bytes of the file's structure, counted: honest blocks do not overlap, so their sum is at most the file."""
        self._left -= size
        if not 0 <= at <= len(self._data) - size or size < 0 or self._left < 0:
            raise _damaged(f"{size} bytes at {at} of {len(self._data)}")
        return self._data[at : at + size]

    def _step(self) -> None:
        self._steps += 1
        check("nodes", self._steps, "an HDF5 file of too many parts")

    def _once(self, at: int) -> None:
        self._step()
        if at in self._seen:
            raise _damaged(f"two ways lead to the part at {at}")
        self._seen.add(at)

    # -- superblock (II.A) and object headers (IV.A.1)
    def _root(self) -> int:
        """Where the root group's header lies."""
        if bytes(self._data[:8]) != SIGNATURE:
            raise _damaged("another signature")
        version = self._block(8, 1)[0]
        if version > 3:
            raise CheckpointError(f"an HDF5 file of version {version}; 0 to 3 are known")
        widths = self._block(13 if version < 2 else 9, 2)
        start = (24 if version == 0 else 28) if version < 2 else 12
        if tuple(widths) != (8, 8):
            raise CheckpointError(f"an HDF5 file whose addresses and lengths have {list(widths)} bytes; 8 are known")
        base, *_, root = struct.unpack("<4Q" if version > 1 else "<6Q", self._block(start, 32 if version > 1 else 48))
        if base:
            raise CheckpointError("an HDF5 file with a block of a user's before it, which is not read here")
        return int(root)

    def _header(self, at: int) -> _Header:
        """The messages of the object at an address."""
        self._once(at)
        found = _Header()
        if bytes(self._block(at, 4)) == b"OHDR":
            self._new_header(at, found)
        else:
            version, _, _, _, size = struct.unpack("<BBHII", self._block(at, 12))
            if version != 1:
                raise _damaged(f"an object header of version {version}")
            self._messages([(at + 16, size)], found, "HHB3x", 8, 0)
        return found

    def _new_header(self, at: int, found: _Header) -> None:
        flags = self._block(at + 4, 2)[1]
        start = at + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        width = 1 << (flags & 3)
        size = int.from_bytes(self._block(start, width), "little")
        form = "BHBH" if flags & 4 else "BHB"
        self._messages([(start + width, size)], found, form, struct.calcsize("<" + form), 4)

    def _messages(self, blocks: list[tuple[int, int]], found: _Header, form: str, head: int, frame: int) -> None:
        """Collect messages; `frame` bytes stand before and behind those of a further block, of new headers."""
        for at, size in blocks:  # grows while it is read
            part = _Bytes(self._block(at, size))
            while len(part.data) - part.at >= head:
                self._step()
                number, length, flags, *_ = part.take(form)
                body = part.piece(length)
                if number == _MORE:
                    more, extent = struct.unpack_from("<QQ", body)
                    self._once(more)
                    blocks.append((more + frame, extent - 2 * frame))
                elif flags & 2 and number in (_SPACE, _TYPE, _LAYOUT, _FILTERS, _LINK):
                    raise CheckpointError("an HDF5 file whose objects share their descriptions, which is not read here")
                elif number == _LINK:
                    found.links.append(body)
                elif number in found.messages and number in (_SPACE, _TYPE, _LAYOUT, _FILTERS, _TABLE):
                    raise _damaged("an object is described twice")
                else:
                    found.messages[number] = body

    # -- groups (III.A.1, III.B, III.D, IV.A.2.c and g)
    def _members(self, path: str, header: _Header) -> Iterator[tuple[str, int]]:
        """(name, address) of what a group has."""
        names: set[str] = set()
        linked = (_link(path, link) for link in header.links)
        for raw, to in itertools.chain(linked, self._old_links(path, header), self._dense(path, header)):
            name = raw.decode("utf-8")
            if not name or "/" in name or name in names:
                raise _damaged(f"the name {name[:40]!r} in '{path or '/'}'")
            names.add(name)
            yield name, to

    def _dense(self, path: str, header: _Header) -> Iterator[tuple[bytes, int]]:
        if _LINKS in header.messages:
            part = _Bytes(header.messages[_LINKS])
            _, flags = part.take("BB")
            part.piece(8 if flags & 1 else 0)
            if part.take("Q") != _UNDEFINED:
                raise _refused(path, "keeps its links in a heap")
        yield from ()

    def _old_links(self, path: str, header: _Header) -> Iterator[tuple[bytes, int]]:
        if _TABLE not in header.messages:
            return
        tree, heap = struct.unpack_from("<QQ", header.messages[_TABLE])
        if bytes(self._block(heap, 4)) != b"HEAP":
            raise _damaged("a group without its heap")
        size, _, start = struct.unpack("<QQQ", self._block(heap + 8, 24))
        texts = self._block(start, size)
        for _, leaf in self._leaves(tree, 0, 8):
            self._once(leaf)
            magic, _, _, count = struct.unpack("<4sBBH", self._block(leaf, 8))
            if magic != b"SNOD":
                raise _damaged("a group without its table")
            entries = self._block(leaf + 8, 40 * count)
            for i in range(count):
                self._step()
                at, to, kind = struct.unpack_from("<QQI", entries, 40 * i)
                if kind == 2:
                    raise _refused(path, "has a soft link")
                if at >= size:
                    raise _damaged("a name outside of its heap")
                name, end, _ = bytes(texts[at : at + _LONGEST_NAME]).partition(b"\0")
                if not end:
                    raise _damaged("a name without an end")
                yield name, to

    def _leaves(self, root: int, kind: int, key: int) -> Iterator[tuple[memoryview, int]]:
        """(key before it, address) of each child of the last level of a B-tree; `key` is a key's size."""
        waiting: list[tuple[int, int | None]] = [(root, None)]
        while waiting:
            at, expected = waiting.pop()
            self._once(at)
            magic, what, height, count = struct.unpack("<4sBBH", self._block(at, 8))
            if magic != b"TREE" or what != kind or (expected is not None and height != expected):
                raise _damaged("a tree of another kind")
            pairs = self._block(at + 24, count * (key + 8))
            for i in range(count):
                begin = pairs[i * (key + 8) : (i + 1) * (key + 8)]
                to = struct.unpack("<Q", begin[key:])[0]
                if height:
                    waiting.append((to, height - 1))
                else:
                    yield begin[:key], to

    # -- data sets (IV.A.2.b, d, i, l)
    def _numbers(self, path: str, header: _Header) -> np.ndarray:
        """The array of a data set."""
        if not {_SPACE, _TYPE} <= header.messages.keys():
            raise _damaged(f"'{path}' has no shape or no type")
        if _OUTSIDE in header.messages:
            raise _refused(path, "lies in other files")
        shape, dtype = _shape(path, header.messages[_SPACE]), _dtype(path, header.messages[_TYPE])
        filters = _filters(path, header.messages[_FILTERS]) if _FILTERS in header.messages else []
        count = math.prod(shape)
        if not count:
            self._meter.take(8 * len(shape))
            return np.zeros(shape, dtype.newbyteorder("="))
        part = _Bytes(header.messages[_LAYOUT])
        version, kind = part.take("BB")
        if version not in (3, 4) or kind > 2 or (version == 4 and kind == 2):
            raise _refused(path, f"has the layout {kind} of version {version}")
        size = count * dtype.itemsize
        if kind == 2:
            return self._chunks(path, _Chunked(shape, dtype, filters), part)
        if filters:
            raise _damaged(f"'{path}' is filtered without chunks")
        if kind == 1:
            raw = self._raw(path, part.take("Q"), size)
        else:
            raw = part.piece(part.take("H"))
            if len(raw) != size:
                raise _damaged(f"'{path}' has {len(raw)} bytes for {size}")
        self._meter.take(size if dtype.itemsize > 2 else 2 * size)  # float16 is widened
        return _native(np.frombuffer(raw, dtype).reshape(shape))

    def _raw(self, path: str, at: int, size: int) -> memoryview:
        """Bytes of numbers, which several data sets may share: what they become is counted by the meter."""
        if at == _UNDEFINED:
            raise CheckpointError(f"'{path}' was never written; it has a shape and no numbers")
        if at > len(self._data) - size:
            raise _damaged(f"'{path}' wants {size} bytes at {at} of {len(self._data)}")
        return self._data[at : at + size]

    def _chunks(self, path: str, form: _Chunked, part: _Bytes) -> np.ndarray:
        """The array out of all its chunks, each of which must be there."""
        axes, tree = part.take("BQ")
        rank = len(form.shape)
        if axes != rank + 1 or not rank:
            raise _damaged(f"'{path}' has chunks of another rank")
        *extents, width = part.take(f"{rank + 1}I")
        if min(extents) < 1 or width != form.dtype.itemsize:
            raise _damaged(f"'{path}' has chunks of {extents}")
        if tree == _UNDEFINED:
            raise CheckpointError(f"'{path}' was never written; it has a shape and no numbers")
        grid = [-(-side // extent) for side, extent in zip(form.shape, extents, strict=True)]
        size = math.prod(extents) * width
        wanted = math.prod(grid)
        self._meter.take(wanted * size * (1 if width > 2 else 2))
        places: dict[tuple[int, ...], tuple[int, int, int]] = {}
        for key, at in self._leaves(tree, 1, 8 + 8 * (rank + 1)):
            self._step()
            length, mask, *at_each, _ = struct.unpack(f"<II{rank + 1}Q", key)
            places[tuple(at_each)] = at, length, mask
        if len(places) != wanted:
            raise CheckpointError(f"'{path}' has {len(places)} of its {wanted} chunks; it was written in part")
        array = np.empty(form.shape, form.dtype.newbyteorder("="))
        for corner, (at, length, mask) in places.items():
            if any(c % e or c >= s for c, e, s in zip(corner, extents, form.shape, strict=True)):
                raise _damaged(f"'{path}' has a chunk at {list(corner)}")
            chunk = form.unpacked(path, self._raw(path, at, length), mask, size).reshape(extents)
            inside = tuple(slice(c, c + e) for c, e in zip(corner, extents, strict=True))
            target = array[inside]
            target[...] = chunk[tuple(slice(n) for n in target.shape)]
        return array


@dataclass(frozen=True)
class _Chunked:
    """What the chunks of a data set have in common."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    filters: list[int]

    def unpacked(self, path: str, raw: memoryview | bytes, mask: int, size: int) -> np.ndarray:
        """A chunk's numbers: its filters undone, the last one first; `mask` has a bit for each that was left out."""
        for i in reversed(range(len(self.filters))):
            if mask >> i & 1:
                continue
            if self.filters[i] == _DEFLATE:
                inflate = zlib.decompressobj()
                raw = inflate.decompress(raw, size)
                if len(raw) == size and inflate.decompress(inflate.unconsumed_tail, 1):
                    raise _damaged(f"a chunk of '{path}' inflates to more than {size} bytes")
            else:
                width = self.dtype.itemsize
                whole = len(raw) // width
                raw = np.frombuffer(raw, np.uint8, whole * width).reshape(width, whole).T.tobytes()
        if len(raw) != size:
            raise _damaged(f"a chunk of '{path}' has {len(raw)} bytes for {size}")
        return np.frombuffer(raw, self.dtype)


def _native(array: np.ndarray) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _link(path: str, message: memoryview) -> tuple[bytes, int]:
    """The name and address of a link message."""
    part = _Bytes(message)
    version, flags = part.take("BB")
    kind = part.take("B") if flags & 8 else 0
    part.piece((8 if flags & 4 else 0) + (1 if flags & 0x10 else 0))
    if version != 1 or kind:
        raise _refused(path, f"has {'a soft' if kind == 1 else 'an external' if kind == 64 else 'an unknown'} link")
    length = int.from_bytes(part.piece(1 << (flags & 3)), "little")
    if length > _LONGEST_NAME:
        raise _damaged(f"a name of {length} bytes")
    return bytes(part.piece(length)), int(part.take("Q"))


def _shape(path: str, message: memoryview) -> tuple[int, ...]:
    """The extents of a data set; () for one number."""
    part = _Bytes(message)
    version, axes, _, kind = part.take("BBBB")
    if version not in (1, 2) or axes > _MOST_AXES:
        raise _damaged(f"'{path}' has a shape of version {version} with {axes} axes")
    if version == 2 and kind == 2:
        raise _refused(path, "has no numbers")
    part.piece(4 if version == 1 else 0)
    shape = tuple(part.take("Q") for _ in range(axes))
    if math.prod(max(side, 1) for side in shape) >= 1 << 48:
        raise _damaged(f"'{path}' has the shape {list(shape)}")
    return shape


def _dtype(path: str, message: memoryview) -> np.dtype[Any]:
    """Numbers of IEEE, and whole numbers of all their bits, in either order of bytes."""
    part = _Bytes(message)
    kind, bits, _, _, size = part.take("BBBBI")
    order = ">" if bits & 1 else "<"
    if kind & 15 == 0 and size in (1, 2, 4, 8) and part.take("HH") == (0, 8 * size):
        return np.dtype(f"{order}{'i' if bits & 8 else 'u'}{size}")
    known = kind & 15 == 1 and size in _KINDS and not bits & 0x40
    if known and part.take("HH") == (0, 8 * size) and part.take("BBBBI") == _KINDS[size]:
        return np.dtype(f"{order}f{size}")
    names = {0: "odd whole numbers", 1: "numbers of another form", 3: "texts", 5: "bytes without a type", 8: "an enum"}
    raise _refused(path, f"holds {names.get(kind & 15, 'no plain numbers')}")


def _filters(path: str, message: memoryview) -> list[int]:
    """The filters of a data set in the order of writing."""
    part, found = _Bytes(message), []
    version, count = part.take("BB")
    if version not in (1, 2) or count > _MOST_AXES:
        raise _damaged(f"'{path}' has {count} filters of version {version}")
    part.piece(6 if version == 1 else 0)
    for _ in range(count):
        number = part.take("H")
        name = part.take("H") if version == 1 or number >= 256 else 0
        _, values = part.take("HH")
        part.piece(name)
        part.piece(4 * (values + (values % 2 if version == 1 else 0)))
        if number not in (_DEFLATE, _SHUFFLE):
            raise _refused(path, f"is stored with the filter {number}{' (fletcher32)' if number == 3 else ''}")
        found.append(number)
    if len(set(found)) != len(found):
        raise _damaged(f"'{path}' has a filter twice")
    return found
