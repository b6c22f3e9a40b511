"""StopTexts: texts that end what is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_BROKEN = "\ufffd"  # a character whose other bytes have not come


class StopTexts:
    """Texts that end a result, which they are no part of; those that stand before it, or begin there, end nothing.

    Args:
        texts: the texts; none where nothing ends one.
        continued: what words say that stand behind others, see `Tokenizer.continued`; None where there are no texts.
    """

    def __init__(self, texts: Sequence[str], continued: Callable[[Sequence[int], Sequence[int]], str] | None) -> None:
        self._texts, self._continued = tuple(texts), continued
        self._longest = max(map(len, texts), default=0)

    def ends(self, before: Sequence[int], ids: Sequence[int]) -> bool:
        """Whether one of them came with the last word of a result; before: words that it stands behind."""
        if not self._texts or self._continued is None:
            return False
        count = 4 * self._longest  # a word may be a part of a character, or without a text
        text = ""
        while True:
            at = max(len(ids) - count, 0)
            text = self._continued([*before, *ids[:at]], ids[at:])
            if not at or len(text) > self._longest:
                break
            count *= 2
        return not text.endswith(_BROKEN) and any(stop in text for stop in self._texts)

    def cut(self, text: str) -> str:
        """A text up to the first of them."""
        ends = [at for stop in self._texts if (at := text.find(stop)) >= 0]
        return text[: min(ends)] if ends else text
