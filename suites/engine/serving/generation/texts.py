"""Growing: the text of tokens that come one by one, in pieces that never have to be taken back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_LOOK = 64  # tokens before a text that are looked at
_BROKEN = "\ufffd"  # a character whose other bytes have not come


class Growing:
    """A text that grows.

    Args:
        text_of: tokens to text.
        stops: texts that end it, which are no part of it.
        before: tokens that it stands behind; their text is no part of it.

    Attributes:
        stopped: whether one of them came.
    """

    def __init__(
        self, text_of: Callable[[Sequence[int]], str], stops: Sequence[str], before: Sequence[int] = ()
    ) -> None:
        self._text_of, self._stops = text_of, tuple(stops)
        self._ids = list(before[-_LOOK:])
        self._from = 0  # of the tokens that stand before the next ones for their look
        self._read = len(self._ids)  # tokens that are told
        self._held = ""  # the beginning of a stop text, perhaps
        self.stopped = False

    def add(self, token: int) -> str:
        """What is certain of the text now, beyond what was given before."""
        self._ids.append(token)
        return self._given(self._next(), last=False)

    def end(self) -> str:
        """What is left of it."""
        return "" if self.stopped else self._given(self._next(last=True), last=True)

    def _next(self, *, last: bool = False) -> str:
        # Some tokenizers join tokens in a way that depends on those before: a few are looked at again.
        before, now = self._text_of(self._ids[self._from : self._read]), self._text_of(self._ids[self._from :])
        waits = len(self._ids) - self._read < _LOOK  # no character has more tokens
        if waits and (len(now) <= len(before) or (now.endswith(_BROKEN) and not last)):
            return ""
        # Of spaces at the start some tokenizers leave out one; a text of nothing else is not looked at as a whole.
        if self._read - self._from >= _LOOK or self._text_of(self._ids[self._read :]).strip():
            self._from = self._read
        self._read = len(self._ids)
        return now[len(before) :]

    def _given(self, new: str, *, last: bool) -> str:
        text = self._held + new
        ends = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if ends:
            self.stopped, self._held = True, ""
            return text[: min(ends)]
        hold = 0 if last else max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - hold :]
        return text[: len(text) - hold]


def _overlap(text: str, stop: str) -> int:
    """The longest end of `text` that is a beginning of `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
