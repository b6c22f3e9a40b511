"""ROUGE: how much of its words, or of their order, a text shares with a reference (Lin 2004, ACL W04-1013).

Words are runs of letters and digits, in small letters, without stemming; each Chinese, Japanese or Korean character is
one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"
    r"|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)


def words_of(text: str) -> list[str]:
    """The words that are compared."""
    return _WORD.findall(text.lower())


def rouge_n(text: str, reference: str, n: int) -> float:
    """F-measure of runs of n words that both have (section 2), 0 to 1; 0 where one has none."""
    ours, theirs = (_runs(words_of(each), n) for each in (text, reference))
    return _f((ours & theirs).total(), ours.total(), theirs.total())


def rouge_l(text: str, reference: str) -> float:
    """F-measure of the longest common subsequence of words (section 3.1), 0 to 1; 0 where one has none."""
    ours, theirs = words_of(text), words_of(reference)
    return _f(longest_common(ours, theirs), len(ours), len(theirs))


def longest_common(a: Sequence[str], b: Sequence[str]) -> int:
    """Words of the longest common subsequence, by whole numbers as rows of bits (Hyyrö 2004): |b| |a| / 64 steps."""
    places: dict[str, int] = {}
    for i, word in enumerate(a):
        places[word] = places.get(word, 0) | 1 << i
    full = (1 << len(a)) - 1
    row = full
    for word in b:
        hits = row & places.get(word, 0)
        row = ((row + hits) | (row - hits)) & full
    return len(a) - row.bit_count()


def _runs(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _f(shared: int, ours: int, theirs: int) -> float:
    return 2 * shared / (ours + theirs) if ours and theirs else 0.0
