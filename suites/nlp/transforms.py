"""Text transforms: text -> text before it is tokenized, the same in training, evaluation and prediction."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import ClassVar

from framework.errors import DataError
from framework.extras import install_command
from suites.engine.registry import register, register_role

_TREEBANK_MARKS = {
    **{"`` ": '"', " ''": '"', "-lrb-": "(", "-rrb-": ")", "-LRB-": "(", "-RRB-": ")"},
    **{"-lsb-": "[", "-rsb-": "]", "-LSB-": "[", "-RSB-": "]"},
}
_CUT_ENDING = re.compile(r"(?<=\w) ((?:n't|'(?:s|re|ve|ll|d|m))\b|[.,:;!?])", re.IGNORECASE)
_CHINESE = range(0x4E00, 0xA000)  # the CJK Unified Ideographs


class TextTransform(ABC):
    """Changes a text.

    Attributes:
        keeps_places: each character stays at its place, so that places in the result are places in the text.
    """

    keeps_places: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, text: str) -> str:
        """The changed text."""


register_role("text_transform", TextTransform, doc="text -> text, before it is tokenized")


@register("text_transform")
class RemoveSpaces(TextTransform):
    """Takes all spaces out, as ERNIE-Tiny's classification of Chinese does."""

    def __call__(self, text: str) -> str:
        """The text without spaces."""
        return "".join(text.split())


@register("text_transform")
class JoinTreebankTokens(TextTransform):
    """English in the Penn Treebank's tokens as it is written: `do n't` becomes `don't`, ``` `` ``` a quotation mark.

    For pretrained encoders, which have read text: WordPiece makes `n`, `'`, `t` of the token, and `don`, `'`, `t` of
    the word.
    """

    def __call__(self, text: str) -> str:
        """The text without the Treebank's marks and cuts."""
        for mark, written in _TREEBANK_MARKS.items():
            text = text.replace(mark, written)
        return _CUT_ENDING.sub(r"\1", text)


@register("text_transform")
class TraditionalToSimplified(TextTransform):
    """Traditional Chinese characters as simplified ones, one for one.

    For ERNIE 1.0, whose vocabulary has no traditional characters: on DRCD it is 12 points of exact match.
    Needs the package opencc.
    """

    keeps_places: ClassVar[bool] = True

    def __init__(self) -> None:
        self._table = _simplified()

    def __call__(self, text: str) -> str:
        """The text in simplified characters, of the same length."""
        return text.translate(self._table)


@lru_cache(maxsize=1)
def _simplified() -> dict[int, str]:
    try:
        from opencc import OpenCC
    except ImportError:
        raise DataError(
            f"TraditionalToSimplified: needs the package opencc; run {install_command('chinese')}"
        ) from None
    convert = OpenCC("t2s").convert
    pairs = ((place, convert(chr(place))) for place in _CHINESE)
    return {place: simple for place, simple in pairs if len(simple) == 1 and simple != chr(place)}
