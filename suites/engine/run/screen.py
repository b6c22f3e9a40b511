"""The screen is a courtesy: what cannot be shown is dropped, and no command ends because nobody reads it any more.

A reader that goes away (`| head`), a full disk behind `>`, a closed descriptor (`>&-`), a lost terminal: the first
failure silences the stream, and `lost` says why.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO

_READER_GONE = (errno.EPIPE, errno.EIO, errno.ENXIO)  # of a pipe, of a terminal
# Of texts from outside: what moves a terminal's cursor, ends a line, or turns the order of letters around.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_BELOW_A_BAR = "rich_proxied_file"  # of what stands for standard output while a progress bar is shown
_STANDARD = (1, 2)  # descriptors of standard output and error


def escaped(text: str) -> str:
    r"""The text with control characters, such as those that steer a terminal, as `\x1b`; lines and tabs stay."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Screen:
    """A text stream whose loss is no error.

    Args:
        stream: that is written to; None for the standard output that is there when it is written to, as `print` does.
        raw: write control characters as they are, for what draws on a terminal.

    Attributes:
        lost: why nothing is shown any more; empty while all is well.
    """

    def __init__(self, stream: TextIO | None = None, *, raw: bool = False) -> None:
        self._stream, self._raw = stream, raw
        self._own_lost: OSError | ValueError | None = None

    @property
    def stream(self) -> Any:
        """What is written to; None where the process has none."""
        stream: Any = sys.stdout if self._stream is None else self._stream
        return getattr(stream, _BELOW_A_BAR, stream)

    @property
    def lost(self) -> OSError | ValueError | None:
        """Why nothing is shown any more; None while all is well."""
        inner = getattr(self.stream, "lost", None)
        return self._own_lost or inner

    def __getattr__(self, name: str) -> Any:
        if name == _BELOW_A_BAR:  # or a progress bar would write past this
            raise AttributeError(name)
        return getattr(self.stream, name)

    def isatty(self) -> bool:
        """Whether somebody sits there."""
        try:
            return self._own_lost is None and self.stream is not None and bool(self.stream.isatty())
        except ValueError:  # closed
            return False

    def fileno(self) -> int:
        """Of the stream."""
        if self.stream is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return int(self.stream.fileno())

    def write(self, text: str) -> int:
        """Show a text, or drop it."""
        if self._own_lost is None and self.stream is not None:
            try:
                self._write(text)
            except (OSError, ValueError) as error:
                self._lose(error)
        return len(text)

    def flush(self) -> None:
        """Show what is buffered, or drop it."""
        if self._own_lost is None and self.stream is not None:
            try:
                self.stream.flush()
            except (OSError, ValueError) as error:
                self._lose(error)

    def _write(self, text: str) -> None:
        inner = self.stream
        if self._raw:  # past one that escapes
            write_raw = getattr(inner, "write_raw", None)
            if write_raw is not None:
                write_raw(text)
                return
        _write_encoded(inner, text if self._raw else escaped(text))

    def write_raw(self, text: str) -> None:
        """Show a text with its control characters, or drop it."""
        if self._own_lost is None and self.stream is not None:
            try:
                _write_encoded(self.stream, text)
            except (OSError, ValueError) as error:
                self._lose(error)

    def _lose(self, error: OSError | ValueError) -> None:
        self._own_lost = error
        _drop_what_is_buffered(self.stream)


def _write_encoded(stream: Any, text: str) -> None:
    """Write a text; what the stream's encoding lacks (LANG=C) is shown as an escape."""
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = getattr(stream, "encoding", None) or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _drop_what_is_buffered(stream: Any) -> None:
    """Have a standard stream lead nowhere, or Python would fail at its end, when it writes what is left."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if stream.fileno() in _STANDARD and stream in (sys.__stdout__, sys.__stderr__):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


@contextlib.contextmanager
def screens() -> Iterator[Screen]:
    """Inside, standard output and error are courtesies for all that prints; gives the output's screen."""
    _fill_closed_descriptors()
    before = sys.stdout, sys.stderr
    shown, told = Screen(before[0] or _nowhere()), Screen(before[1] or _nowhere())
    sys.stdout, sys.stderr = shown, told
    try:
        yield shown
    finally:
        shown.flush()
        told.flush()
        sys.stdout, sys.stderr = before


def is_reader_gone(error: OSError | ValueError) -> bool:
    """Whether whoever read has seen enough or went away; else something is wrong, such as a full disk."""
    return not isinstance(error, OSError) or error.errno in _READER_GONE


def _nowhere() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")


def _fill_closed_descriptors() -> None:
    """Or the next file that is opened, such as a weight file, would be the standard output of what we start."""
    for number in (0, *_STANDARD):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
