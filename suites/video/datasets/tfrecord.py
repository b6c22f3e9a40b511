"""TFRecord files and the SequenceExamples in them, read without TensorFlow.

A record is its length (8 bytes), a checksum of the length, the data, a checksum of the data
(https://www.tensorflow.org/tutorials/load_data/tfrecord). The length's checksum is verified, the data's is not: what is
cut off or no record is found by lengths and by reading the message.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import numpy as np

from framework.errors import DataError
from framework.outside import open_file

_HEADER = struct.Struct("<QI")
_MOST_BYTES = 1 << 27  # of a record


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)  # Castagnoli's polynomial, reflected
        table.append(byte)
    return table


_CRC = _crc_table()


def masked_crc32c(data: bytes) -> int:
    """The checksum of TFRecord: CRC-32C, turned by 15 bits, plus a constant."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record_places(path: str | os.PathLike[str]) -> np.ndarray:
    """Where the data of each record of a file begins, and how long it is: int64 [records, 2].

    Raises:
        DataError: the file is no TFRecord file, or is cut off.
    """
    places: list[tuple[int, int]] = []
    at, end = 0, _size_of(path)
    with open_file(path, "data_bytes", DataError) as file:
        while at < end:
            file.seek(at)
            header = file.read(_HEADER.size)
            length, crc = _HEADER.unpack(header) if len(header) == _HEADER.size else (0, -1)
            if crc != masked_crc32c(header[:8]) or length > _MOST_BYTES:
                raise DataError(
                    f"{path}: byte {at} begins no TFRecord of up to {_MOST_BYTES} bytes; the file is damaged"
                )
            if at + _HEADER.size + length + 4 > end:
                raise DataError(f"{path}: is cut off in record {len(places)}; copy it again")
            places.append((at + _HEADER.size, length))
            at += _HEADER.size + length + 4
    return np.array(places, np.int64).reshape(-1, 2)


def _size_of(path: str | os.PathLike[str]) -> int:
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


Features = dict[str, "list[bytes] | np.ndarray"]


def read_sequence_example(data: bytes) -> tuple[Features, dict[str, list[bytes]]]:
    """The context and the lists of byte strings of a SequenceExample message.

    Raises:
        DataError: it is no such message.
    """
    context: Features = {}
    lists: dict[str, list[bytes]] = {}
    try:
        for field, part in _fields(memoryview(data)):
            for entry in _all(part, 1):
                name = bytes(_one(entry, 1)).decode()
                if field == 1:
                    context[name] = _feature(_one(entry, 2))
                elif field == 2:
                    rows = [_feature(feature) for feature in _all(_one(entry, 2), 1)]
                    lists[name] = [row[0] for row in rows if isinstance(row, list) and row]
    except (ValueError, IndexError, struct.error):
        raise DataError("is no SequenceExample message") from None
    return context, lists


def _feature(data: memoryview) -> list[bytes] | np.ndarray:
    """Byte strings, float32 or int64 numbers."""
    for field, part in _fields(data):
        if field == 1:
            return [bytes(value) for value in _all(part, 1)]
        if field == 2:
            return np.concatenate([np.frombuffer(value, "<f4") for value in _all(part, 1)] or [np.zeros(0, np.float32)])
        if field == 3:
            return np.array([number for value in _all(part, 1) for number in _varints(value)], np.int64)
    return []


def _fields(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and content of each field of a protobuf message; numbers that stand alone are given as their bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        start, kind = at, key & 7
        if kind == 0:
            _, at = _varint(data, at)
        elif kind == 1:
            at += 8
        elif kind == 2:
            length, start = _varint(data, at)
            at = start + length
        elif kind == 5:
            at += 4
        else:
            raise ValueError(kind)
        if at > len(data):
            raise ValueError(at)
        yield key >> 3, data[start:at]


def _all(data: memoryview, field: int) -> Iterator[memoryview]:
    return (part for number, part in _fields(data) if number == field)


def _one(data: memoryview, field: int) -> memoryview:
    return next(_all(data, field), memoryview(b""))


def _varints(data: memoryview) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value - (1 << 64) if value >= 1 << 63 else value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(at)
