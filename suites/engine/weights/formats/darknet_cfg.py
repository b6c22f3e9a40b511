"""Darknet's `.cfg`: the layers of a network, one `[section]` each (Redmon, https://pjreddie.com/darknet/).

A cfg comes from outside: its bytes, layers and channels are bounded, and what it says is checked before it is used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from framework.errors import CheckpointError, PaddockError
from framework.outside import check_file, read_bytes

_CFG_BYTES = 1 << 20
_MOST_CHANNELS = 1 << 20
# By darknet's name: ours, and what follows a convolution in the networks that are read.
ACTIVATIONS = {
    "leaky": "leaky_relu",
    "linear": "none",
    "mish": "mish",
    "relu": "relu",
    "swish": "silu",
    "logistic": "sigmoid",
}
_SAME_CHANNELS = ("maxpool", "upsample", "yolo", "dropout", "avgpool", "softmax", "cost")


@dataclass(frozen=True)
class Convolution:
    """What a [convolutional] section takes of the weight file: K filters of C / groups x size x size, with or without
    batch norm."""

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


@dataclass(frozen=True)
class Section:
    """The `key=value` lines of a section.

    Attributes:
        where: file, line and kind, for messages.
        kind: what stands in its brackets.
        values: its lines.
        error: what is raised where it is wrong.
    """

    where: str
    kind: str
    values: dict[str, str]
    error: type[PaddockError] = CheckpointError

    def wrong(self, text: str) -> PaddockError:
        """The error to raise."""
        return self.error(f"{self.where}: {text}")

    def number(self, key: str, default: int, least: int = 1) -> int:
        """A whole number."""
        text = self.values.get(key, str(default))
        if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < least:
            raise self.wrong(f"{key} is {text[:20]!r}; it must be a whole number from {least} on")
        return int(text)

    def fraction(self, key: str, default: float) -> float:
        """A number from 0 to below 1."""
        text = self.values.get(key, str(default))
        if not re.fullmatch(r"0?\.[0-9]{1,9}|0", text):
            raise self.wrong(f"{key} is {text[:20]!r}; it must be a number from 0 to below 1, such as .15")
        return float(text)

    def one_of(self, key: str, default: str, known: Sequence[str]) -> str:
        """A word; one that changes what is computed in a way that is not known here is an error."""
        if (text := self.values.get(key, default)) not in known:
            raise self.wrong(f"{key} is {text[:20]!r}; the networks of darknet's here have {' or '.join(known)}")
        return text

    def layers(self, key: str, count: int) -> list[int]:
        """Numbers of the layers that it names, of the `count` before it; from its own place where they are negative."""
        found = []
        named = self.values.get(key, "")
        for text in named.split(","):
            if not re.fullmatch(r"\s*-?[0-9]{1,6}\s*", text):
                raise self.wrong(f"{key} is {named[:40]!r}; it must be whole numbers")
            number = int(text)
            found.append(number if number >= 0 else count + number)
            if not 0 <= found[-1] < count:
                raise self.wrong(f"{key} names {number}, which there is not before it")
        return found


@dataclass(frozen=True)
class Layer:
    """A section behind [net], with what it takes and gives.

    Attributes:
        section: its lines.
        sources: numbers of the layers that it takes; -1 is the image.
        in_channels: of all that it takes, together.
        channels: that it gives.
        weights: of a convolution, what it takes of the weight file.
    """

    section: Section
    sources: tuple[int, ...]
    in_channels: int
    channels: int
    weights: Convolution | None = None


def convolutions(layers: Sequence[Layer]) -> list[Convolution]:
    """What the layers take of a weight file, in its order."""
    return [layer.weights for layer in layers if layer.weights is not None]


def read_cfg(path: Path, error: type[PaddockError] = CheckpointError) -> list[Layer]:
    """The layers of a darknet cfg, in order.

    Raises `error`: it is no cfg, or has a section whose channels are not known here.
    """
    layers: list[Layer] = []
    channels: list[int] = []  # of the image and of each layer
    for section in _sections(path, error):
        if section.kind in ("net", "network"):
            channels[:1] = [section.number("channels", 3)]
            continue
        if not channels:
            raise error(f"{path.name}: it does not begin with [net], so this is no darknet cfg")
        layers.append(_layer(section, channels))
        channels.append(layers[-1].channels)
        if channels[-1] > _MOST_CHANNELS:
            raise section.wrong(f"it has more than {_MOST_CHANNELS} channels, so this is no network of darknet's")
    if not layers:
        raise error(f"{path.name}: it has no layers, so this is no darknet cfg")
    return layers


def _layer(section: Section, channels: Sequence[int]) -> Layer:
    """The layer of a section; `channels` are those of the image and of each layer before it."""
    count = len(channels) - 1
    before = (count - 1,)
    given = channels[-1]
    if section.kind == "convolutional":
        groups, filters = section.number("groups", 1), section.number("filters", 1)
        section.one_of("activation", "logistic", tuple(ACTIVATIONS))
        if given % groups or filters % groups:
            raise section.wrong(f"{given} channels in and {filters} out do not divide into {groups} groups")
        norm = bool(section.number("batch_normalize", 0, 0))
        weights = Convolution(filters, given // groups, section.number("size", 1), norm)
        return Layer(section, before, given, filters, weights)
    if section.kind == "route":
        sources = section.layers("layers", count)
        taken = sum(channels[i + 1] for i in sources)
        groups = section.number("groups", 1)
        if any(channels[i + 1] % groups for i in sources):
            raise section.wrong(f"what it takes does not divide into {groups} groups of channels")
        return Layer(section, tuple(sources), taken, taken // groups)
    if section.kind == "shortcut":
        others = section.layers("from", count)
        if any(channels[i + 1] != given for i in others):
            raise section.wrong(f"it adds layers of {[channels[i + 1] for i in others]} channels to one of {given}")
        return Layer(section, (*before, *others), given, given)
    if section.kind not in _SAME_CHANNELS:
        raise section.wrong("this kind of layer is not known here")
    return Layer(section, before, given, given)


def numbers_of(layers: Sequence[Layer]) -> int:
    """How many weights the layers have, together."""
    return sum(math.prod(shape) for each in convolutions(layers) for _, shape in each.arrays())


def _sections(path: Path, error: type[PaddockError]) -> Iterator[Section]:
    """Each section, in order."""
    if (size := check_file(path, "text_bytes", error)) > _CFG_BYTES:
        raise error(f"{path.name}: {size} bytes are too many for a darknet cfg")
    current: Section | None = None
    for line, raw in enumerate(read_bytes(path, error=error).decode("utf-8", "replace").splitlines(), start=1):
        text = raw.partition("#")[0].partition(";")[0].strip()
        if text.startswith("[") and text.endswith("]"):
            if current is not None:
                yield current
            kind = text[1:-1].strip()
            current = Section(f"{path.name}:{line}: [{kind[:40]}]", kind, {}, error)
        elif text:
            key, equals, value = text.partition("=")
            if not equals or current is None:
                raise error(f"{path.name}:{line}: expects [section] or key=value, found {text[:40]!r}")
            current.values[key.strip()] = value.strip()
    if current is not None:
        yield current
