"""StopTexts: texts that end what is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class StopTexts:
    """Texts that end a result, which they are no part of.

    Args:
        texts: the texts; none where nothing ends one.
        text_of: words to text; None where there are no texts.
    """

    def __init__(self, texts: Sequence[str], text_of: Callable[[Sequence[int]], str] | None) -> None:
        self._texts, self._text_of = tuple(texts), text_of
        self._words = 4 * max(map(len, texts), default=0)  # a word may be a part of a character

    def ends(self, ids: Sequence[int]) -> bool:
        """Whether the last words hold one of them."""
        if not self._texts or self._text_of is None:
            return False
        text = self._text_of(ids[-self._words :])
        return any(stop in text for stop in self._texts)

    def cut(self, text: str) -> str:
        """A text up to the first of them."""
        ends = [at for stop in self._texts if (at := text.find(stop)) >= 0]
        return text[: min(ends)] if ends else text
