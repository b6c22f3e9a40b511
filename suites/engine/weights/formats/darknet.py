"""Darknet's weight files: float32 numbers one after the other, whose shapes only the network's `.cfg` tells.

A file begins with its version (major, minor, revision, int32 each) and how many images were seen: 64 bits from version
0.2 on, 32 before. Then come the convolutions in the cfg's order, each as biases, with batch norm scales, means and
variances, and weights [K, C / groups, R, S] (Redmon, https://pjreddie.com/darknet/).
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from framework.errors import CheckpointError
from framework.outside import check_file, open_file, read_bytes

_CFG_BYTES = 1 << 20
_LONGEST_HEADER = 20  # bytes
_MOST_CHANNELS = 1 << 20


@dataclass(frozen=True)
class Convolution:
    """A [convolutional] section: K filters of C / groups x size x size, with or without batch norm."""

    filters: int
    channels: int
    size: int
    norm: bool

    def arrays(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Name and shape of what the file holds for it, in order."""
        yield "bias", (self.filters,)
        if self.norm:
            yield from (("scale", (self.filters,)), ("mean", (self.filters,)), ("variance", (self.filters,)))
        yield "weight", (self.filters, self.channels, self.size, self.size)


def read_darknet(path: Path) -> dict[str, np.ndarray]:
    """The convolutions of a `.weights` file, numbered as in its `.cfg`: `0.weight`, `0.bias`, `0.scale`, `0.mean`,
    `0.variance`, the last one for a batch norm with eps 1e-5.

    The cfg lies beside the file under the same name, or is the only one in its folder.

    Raises:
        CheckpointError: there is no cfg, one of the two is damaged, or they do not belong together.
    """
    cfg = _cfg_of(path)
    layers = list(read_cfg(cfg))
    shapes = [(f"{i}.{name}", shape) for i, layer in enumerate(layers) for name, shape in layer.arrays()]
    wanted = sum(_product(shape) for _, shape in shapes)
    with open_file(path, "weight_bytes") as file:
        size = os.fstat(file.fileno()).st_size
        start = _header_bytes(file.read(_LONGEST_HEADER))
        file.seek(start)
        numbers = np.fromfile(file, "<f4", min(wanted, size // 4))
    if size - start != 4 * wanted:
        what = "cut off" if size - start < 4 * wanted else "too long"
        raise CheckpointError(
            f"{what}, or not of {cfg.name}: that has {wanted} numbers in {len(layers)} convolutions, "
            f"{start + 4 * wanted} bytes with the header, and the file has {size}"
        )
    arrays, at = {}, 0
    for name, shape in shapes:
        count = _product(shape)
        arrays[name] = numbers[at : at + count].reshape(shape)
        if name.endswith(".variance"):
            arrays[name] = _for_our_norm(arrays[name])
        at += count
    return arrays


def _for_our_norm(variance: np.ndarray) -> np.ndarray:
    """The variance v' with which sqrt(v' + 1e-5), our batch norm's divisor, is darknet's: sqrt(v) + 1e-6.

    It is negative where v is below 1e-5, of channels that hardly ever change.
    """
    return np.asarray((np.sqrt(np.maximum(variance.astype(np.float64), 0)) + 1e-6) ** 2 - 1e-5, np.float32)


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for extent in shape:
        result *= extent
    return result


def _header_bytes(data: bytes) -> int:
    """Bytes before the first number."""
    if len(data) < 16:
        raise CheckpointError("cut off: darknet's header has 16 bytes or more")
    major, minor, _ = struct.unpack_from("<iii", data)
    if not (0 <= major < 1000 and 0 <= minor < 1000):
        raise CheckpointError(f"it begins with version {major}.{minor}, so this is no darknet file")
    return 20 if 10 * major + minor >= 2 else 16


def _cfg_of(path: Path) -> Path:
    beside = path.with_suffix(".cfg")
    if beside.is_file():
        return beside
    others = sorted(path.parent.glob("*.cfg"))
    if len(others) == 1:
        return others[0]
    found = ", ".join(file.name for file in others) or "none"
    raise CheckpointError(
        f"darknet's weights have no shapes of their own: put the network's {beside.name} beside it (there is {found})"
    )


def read_cfg(path: Path) -> Iterator[Convolution]:
    """The convolutions of a darknet cfg, in order.

    Raises:
        CheckpointError: it is no cfg, or has a section whose channels are not known here.
    """
    channels: list[int] = []  # given out by each section after [net]
    at = 0
    for line, kind, options in _sections(path):
        get = _Options(f"{path.name}:{line}: [{kind}]", options)
        if kind in ("net", "network"):
            at = get.number("channels", 3)
            continue
        if not at:
            raise CheckpointError(f"{path.name}: it does not begin with [net], so this is no darknet cfg")
        if kind == "convolutional":
            groups = get.number("groups", 1)
            filters = get.number("filters", 1)
            get.one_of("activation", "logistic", ("leaky", "linear"))
            if at % groups or filters % groups:
                raise get.wrong(f"{at} channels in and {filters} out do not divide into {groups} groups")
            yield Convolution(filters, at // groups, get.number("size", 1), bool(get.number("batch_normalize", 0, 0)))
            at = filters
        elif kind == "route":
            at = sum(channels[i] for i in get.layers(len(channels))) // get.number("groups", 1)
        elif kind not in ("maxpool", "upsample", "shortcut", "yolo", "dropout", "avgpool", "softmax", "cost"):
            raise get.wrong("this kind of layer is not known here")
        if at > _MOST_CHANNELS:
            raise get.wrong(f"it has more than {_MOST_CHANNELS} channels, so this is no network of darknet's")
        channels.append(at)
    if not channels:
        raise CheckpointError(f"{path.name}: it has no layers, so this is no darknet cfg")


@dataclass(frozen=True)
class _Options:
    """The `key=value` lines of a section."""

    where: str
    values: dict[str, str]

    def wrong(self, text: str) -> CheckpointError:
        return CheckpointError(f"{self.where}: {text}")

    def number(self, key: str, default: int, least: int = 1) -> int:
        text = self.values.get(key, str(default))
        if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < least:
            raise self.wrong(f"{key} is {text[:20]!r}; it must be a whole number from {least} on")
        return int(text)

    def one_of(self, key: str, default: str, known: tuple[str, ...]) -> None:
        """Raise CheckpointError where a value changes what is computed in a way that the networks here do not have."""
        if (text := self.values.get(key, default)) not in known:
            raise self.wrong(f"{key} is {text[:20]!r}; the networks of darknet's here have {' or '.join(known)}")

    def layers(self, count: int) -> list[int]:
        """Numbers of the sections that a route names; from its own place where they are negative."""
        found = []
        named = self.values.get("layers", "")
        for text in named.split(","):
            if not re.fullmatch(r"\s*-?[0-9]{1,6}\s*", text):
                raise self.wrong(f"layers is {named[:40]!r}; it must be whole numbers")
            number = int(text)
            found.append(number if number >= 0 else count + number)
            if not 0 <= found[-1] < count:
                raise self.wrong(f"layers names {number}, which there is not before it")
        return found


def _sections(path: Path) -> Iterator[tuple[int, str, dict[str, str]]]:
    """Line, kind and options of each section."""
    if (size := check_file(path, "text_bytes")) > _CFG_BYTES:
        raise CheckpointError(f"{path.name}: {size} bytes are too many for a darknet cfg")
    current: tuple[int, str, dict[str, str]] | None = None
    for line, raw in enumerate(read_bytes(path).decode("utf-8", "replace").splitlines(), start=1):
        text = raw.partition("#")[0].partition(";")[0].strip()
        if text.startswith("[") and text.endswith("]"):
            if current is not None:
                yield current
            current = (line, text[1:-1].strip(), {})
        elif text:
            key, equals, value = text.partition("=")
            if not equals or current is None:
                raise CheckpointError(f"{path.name}:{line}: expects [section] or key=value, found {text[:40]!r}")
            current[2][key.strip()] = value.strip()
    if current is not None:
        yield current
