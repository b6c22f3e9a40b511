"""What a thing from outside may cost: bytes, pixels, nodes, steps. Every reader asks here before it pays.

`allow` changes limits for a `with` block. They are those of the calling thread, and of what asyncio starts from it;
worker processes get those of the thread that starts them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace

from framework.errors import AttributeValueError, CheckpointError, PaddockError


@dataclass(frozen=True)
class Limits:
    """How much one file, or one run of a loaded program, may cost.

    Args:
        pixels: of an image, by its header.
        scans: of a progressive JPEG; each of them costs as much as a whole image.
        scan_pixels: of a JPEG, its pixels times its scans.
        picture_bytes: that decoding a picture may take; those of a rare kind have 64 MB and 8 times their own size.
        picture_seconds: that decoding a picture of a rare kind may take.
        member_bytes: of one file of a data set, such as a picture or COCO's annotations; of a zip's, inflated.
        data_bytes: of a file that is a data set by itself, such as a click log that is read into memory.
        weight_bytes: of a weight file.
        free_bytes: that reading a weight file may take, whatever its own size.
        growth: beyond `free_bytes`, so many times the file's own size.
        text_bytes: of a file that is parsed as a whole: program.json, a vocabulary, the annotations of a picture.
        yaml_bytes: of a text in YAML, such as a config: its reader takes up to 17 s and 300 MB for each MB.
        elements: of one result in a program, where it is more than `element_growth` times the inputs and weights.
        element_growth: see `elements` and `plan_elements`.
        plan_elements: of all values of a program that are alive at the same time, under the same condition.
        nodes: of an ONNX file, those in bodies and functions among them; operations of a program.
        levels: of blocks in blocks, functions in functions, containers in containers.
        unrolled_steps: of all loops of an ONNX file that run node by node, together; also the parts of a sequence.
        loop_steps: of all loops together, in one run of a program that was read from a file.
        references: values that the `${}` of a config may lead to, all together.
        reference_chars: that references fill into texts, all together.
        line_bytes: of one line of a click log.
        video_bytes: of a video file.
        video_frames: of a video file.
        video_seconds: of a video, by its header.
        clip_bytes: of the frames of one video that are in memory together.
        log_growth: of a compressed click log, beyond `free_bytes`: so many times the bytes that were read of it.
        message_bytes: of one message between a trainer and a shard of a table.
    """

    pixels: int = 1 << 26
    scans: int = 64
    scan_pixels: int = 1 << 28
    picture_bytes: int = 1 << 28
    picture_seconds: int = 10
    member_bytes: int = 1 << 30
    data_bytes: int = 1 << 36
    weight_bytes: int = 1 << 36
    free_bytes: int = 64 << 20
    growth: int = 8
    text_bytes: int = 64 << 20
    yaml_bytes: int = 2 << 20
    elements: int = 1 << 26
    element_growth: int = 64
    plan_elements: int = 1 << 31
    nodes: int = 1_000_000
    levels: int = 32
    unrolled_steps: int = 20_000
    loop_steps: int = 10_000_000
    references: int = 100_000
    reference_chars: int = 1 << 20
    line_bytes: int = 1 << 20
    video_bytes: int = 1 << 36
    video_frames: int = 1 << 22
    video_seconds: int = 86_400
    clip_bytes: int = 1 << 31
    log_growth: int = 256
    message_bytes: int = 1 << 28

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise AttributeValueError(f"limits: {field.name} is {value!r}; it must be a whole number above 0")


_current: ContextVar[Limits] = ContextVar("limits", default=Limits())  # noqa: B039  frozen


def current() -> Limits:
    """The limits that count here."""
    return _current.get()


@contextlib.contextmanager
def allow(**changes: int) -> Iterator[Limits]:
    """Inside, these limits are others; see `Limits` for their names.

    >>> with allow(pixels=200_000_000) as limits:
    ...     limits.pixels
    200000000

    Raises AttributeValueError for a name that there is not, or a value that is no whole number above 0.
    """
    token = _current.set(changed(**changes))
    try:
        yield current()
    finally:
        _current.reset(token)


def changed(**changes: int) -> Limits:
    """The current limits with some others in their place; raises as `allow` does."""
    known = [field.name for field in fields(Limits)]
    for name in changes:
        if name not in known:
            raise AttributeValueError(f"limits: there is no {name!r}; there are {', '.join(known)}")
    return replace(current(), **changes)


def settle(**changes: int) -> None:
    """Change limits of this thread for good, as a run's settings do; raises as `allow` does."""
    _current.set(changed(**changes))


def check(name: str, amount: int, what: str, error: type[PaddockError] = CheckpointError) -> None:
    """Raise `error` where `amount` is over the limit `name`; `what` says whose amount it is and its unit."""
    allowed = getattr(current(), name)
    if amount > allowed:
        raise error(f"{what}, {amount}; {allowed} are allowed. {how_to_raise(name)}")


def how_to_raise(name: str) -> str:
    """The sentence that ends a message about a limit."""
    return (
        f"If you trust it, raise the limit: paddock ... --limit {name}=N, runtime.limits.{name} in a config, "
        f"framework.limits.allow({name}=N) in Python"
    )


class Meter:
    """Bytes made while one file is read, against what a file of its size may make.

    Args:
        size: bytes of the file.
        what: the file or its part, for the message.
    """

    def __init__(self, size: int, what: str) -> None:
        limits = current()
        self._left = self._allowed = max(limits.free_bytes, limits.growth * size)
        self._size, self._what = size, what

    def take(self, count: int) -> None:
        """Count bytes; raises CheckpointError where they become too many."""
        self._left -= count
        if self._left < 0:
            raise CheckpointError(
                f"{self._what} has {self._size} bytes and would take more than {self._allowed} bytes of memory. "
                f"{how_to_raise('free_bytes')}"
            )
