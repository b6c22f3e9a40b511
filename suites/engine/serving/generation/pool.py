"""PagePool: which pages of the cache of keys and values are free, whose they are, and what they hold.

A page holds the keys and values of `page` tokens. A full one is known by a digest of its tokens and of all before them,
so that requests with a common prefix share it. The pages of a source are known by a digest of all of it: each of its
tokens sees the others. Nobody's pages keep what they hold until they are needed, and the one that was used longest ago
goes first.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from framework.errors import AttributeValueError

Digest = bytes
ROOT: Digest = b""  # of no tokens
_SOURCE = b"source"  # no multiple of 8 bytes, as tokens and digests are


def digest_of(before: Digest, tokens: Sequence[int]) -> Digest:
    """The digest of a page.  before: of the page before it, ROOT for the first; tokens: those of the page."""
    return hashlib.blake2b(before + np.asarray(tokens, "<i8").tobytes(), digest_size=16).digest()


def root_of(source: Sequence[int]) -> Digest:
    """What stands before the tokens of a text that is written to a source; ROOT where there is none."""
    return digest_of(_SOURCE, source) if source else ROOT


class PagePool:
    """Pages by number.

    Args:
        pages: how many there are.
        page: tokens of one.

    Attributes:
        page: tokens of one.
        hits: tokens that were found in the cache, ever.
    """

    def __init__(self, pages: int, page: int) -> None:
        if min(pages, page) < 1:
            raise AttributeValueError(f"PagePool: {pages} pages of {page} tokens; both must be at least 1")
        self.page, self.hits = page, 0
        self._free = list(range(pages - 1, -1, -1))
        self._users = [0] * pages
        self._digests: list[Digest | None] = [None] * pages
        self._known: dict[Digest, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()  # pages without users that are known, oldest first

    @property
    def size(self) -> int:
        """Pages that there are."""
        return len(self._users)

    @property
    def available(self) -> int:
        """Pages that nobody uses."""
        return len(self._free) + len(self._idle)

    def find(self, tokens: Sequence[int], root: Digest = ROOT) -> list[int]:
        """The pages of the longest prefix of `tokens` that is there, in order; the caller uses them from now on.

        The last token is never among them: whoever asks wants to know what follows it.  root: see `root_of`.
        """
        found = self._prefix(tokens, root)
        self.hits += len(found) * self.page
        return self._used(found)

    def count(self, tokens: Sequence[int], root: Digest = ROOT) -> tuple[int, int]:
        """Pages that `find` would give, and those of them that nobody uses now."""
        found = self._prefix(tokens, root)
        return len(found), sum(number in self._idle for number in found)

    def share(self, numbers: Sequence[int]) -> list[int]:
        """Pages that somebody uses, which the caller uses too from now on."""
        return self._used(list(numbers))

    def find_source(self, source: Sequence[int]) -> list[int]:
        """The pages of a source, which the caller uses from now on; none where one of them is not there."""
        found = self._source(source)
        self.hits += len(source) if found else 0
        return self._used(found)

    def count_source(self, source: Sequence[int]) -> tuple[int, int]:
        """Pages that `find_source` would give, and those of them that nobody uses now."""
        found = self._source(source)
        return len(found), sum(number in self._idle for number in found)

    def publish_source(self, numbers: Sequence[int], source: Sequence[int]) -> None:
        """Say that pages that the caller uses hold a source."""
        for number, digest in zip(numbers, self._digests_of_source(source), strict=True):
            self.publish(number, digest)

    def _prefix(self, tokens: Sequence[int], root: Digest) -> list[int]:
        found, digest = [], root
        for begin in range(0, len(tokens) - self.page, self.page):
            digest = digest_of(digest, tokens[begin : begin + self.page])
            number = self._known.get(digest)
            if number is None:
                break
            found.append(number)
        return found

    def _source(self, source: Sequence[int]) -> list[int]:
        found = [self._known.get(digest) for digest in self._digests_of_source(source)]
        numbers = [number for number in found if number is not None]
        return numbers if len(numbers) == len(found) else []

    def _digests_of_source(self, source: Sequence[int]) -> list[Digest]:
        whole = root_of(source) + _SOURCE
        return [digest_of(whole, [k]) for k in range(self.pages_of(len(source)))]

    def _used(self, numbers: list[int]) -> list[int]:
        for number in numbers:
            self._users[number] += 1
            self._idle.pop(number, None)
        return numbers

    def pages_of(self, tokens: int) -> int:
        """How many pages so many tokens take."""
        return -(-tokens // self.page)

    def take(self, count: int) -> list[int] | None:
        """So many pages to write to, used by the caller alone; None where there are not enough."""
        if count > self.available:
            return None
        taken = []
        for _ in range(count):
            if self._free:
                number = self._free.pop()
            else:
                number, _ = self._idle.popitem(last=False)
                self._forget(number)
            self._users[number] = 1
            taken.append(number)
        return taken

    def publish(self, number: int, digest: Digest) -> None:
        """Say that a page that the caller uses is full, and what it holds; of two that hold the same one is known."""
        if self._digests[number] is None and digest not in self._known:
            self._digests[number] = digest
            self._known[digest] = number

    def release(self, numbers: Sequence[int]) -> None:
        """Use pages no more.  The last of a sequence goes first when pages are needed: prefixes are worth more."""
        for number in reversed(numbers):
            if self._users[number] < 1:
                raise AttributeValueError(f"PagePool: page {number} is released but nobody uses it")
            self._users[number] -= 1
            if self._users[number]:
                continue
            if self._digests[number] is None:
                self._free.append(number)
            else:
                self._idle[number] = None

    def _forget(self, number: int) -> None:
        digest = self._digests[number]
        assert digest is not None
        del self._known[digest]
        self._digests[number] = None
