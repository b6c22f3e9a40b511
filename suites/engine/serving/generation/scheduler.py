"""Scheduler: which tokens of which sequences the next step computes.

Sequences join and leave between steps (continuous batching, Yu et al. 2022, Orca). A step has the next token of every
sequence that writes, and parts of prompts as far as its tokens reach. Where pages run out, the sequence that came last
gives its own back and waits; what it wrote becomes a part of its prompt. What a sequence is written to, its source, is
read as a whole before its first step, and has pages of its own. Hypotheses of one text are siblings: they come in and
give their pages back together, and share the pages of their common beginning. Whose turn it is to come in is decided
by the tokens that clients had so far (virtual token counters, Sheng et al. 2024, arXiv:2401.00588).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from framework.errors import AttributeValueError
from suites.engine.serving.generation.pool import Digest, PagePool, digest_of, root_of


@dataclass(eq=False)
class Sequence:
    """Tokens that are being written.

    Attributes:
        client: who asked.
        tokens: the prompt, and what was written so far.
        most: tokens that there may be in the end, the prompt among them.
        source: tokens that it is written to; none of a model without a source.
        computed: tokens whose keys and values are in the cache.
        reused: tokens of prompt and source that were in the cache when it came in first.
        pages: where they are.
        digests: of its full pages.
        source_pages: where those of the source are, or will be.
        source_is_read: whether they are there.
        width: siblings that there may be.
        siblings: all hypotheses of this text that go on, itself among them.
    """

    client: str
    tokens: list[int]
    most: int
    source: list[int] = field(default_factory=list)
    computed: int = 0
    reused: int | None = None
    pages: list[int] = field(default_factory=list)
    digests: list[Digest] = field(default_factory=list)
    source_pages: list[int] = field(default_factory=list)
    source_is_read: bool = False
    width: int = 1
    siblings: list[Sequence] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.siblings.append(self)

    @property
    def root(self) -> Digest:
        """What stands before its tokens: what is kept of them depends on the source."""
        return root_of(self.source)


@dataclass(frozen=True)
class Part:
    """Tokens begin ... end - 1 of a sequence, to be computed; `asks`: what follows the last is wanted."""

    sequence: Sequence
    begin: int
    end: int

    @property
    def asks(self) -> bool:
        """Whether they reach the sequence's end, so that the next token is chosen."""
        return self.end == len(self.sequence.tokens)


class Scheduler:
    """Sequences that wait and sequences that write.

    Args:
        pool: the pages.
        tokens: of a step at most, more only where more sequences write.
        sequences: that write at the same time at most, as many as `width` says of each text.
    """

    def __init__(self, pool: PagePool, *, tokens: int = 256, sequences: int = 32) -> None:
        if min(tokens, sequences) < 1:
            raise AttributeValueError(f"Scheduler: {tokens} tokens and {sequences} sequences; both must be at least 1")
        self.pool, self._tokens, self._sequences = pool, tokens, sequences
        self._running: list[Sequence] = []  # in the order in which they came in
        self._waiting: dict[str, deque[list[Sequence]]] = {}  # siblings
        self._served: dict[str, int] = {}  # tokens of clients that have something here

    @property
    def running(self) -> int:
        """Sequences that write."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Texts that wait."""
        return sum(map(len, self._waiting.values()))

    def fits(self, most: int, source: int = 0, width: int = 1) -> bool:
        """Whether `width` sequences of so many tokens, and their source, have room in the pool when they are alone."""
        return width * self.pool.pages_of(most) + self.pool.pages_of(source) <= self.pool.size

    def add(self, sequence: Sequence) -> None:
        """Let a sequence wait; AttributeValueError for one that never has room."""
        if (
            not sequence.tokens
            or sequence.most <= len(sequence.tokens)
            or not self.fits(sequence.most, len(sequence.source), sequence.width)
        ):
            raise AttributeValueError(
                f"Scheduler: a sequence of {len(sequence.tokens)} tokens that grows to {sequence.most}, and a source "
                f"of {len(sequence.source)}, do not fit into {self.pool.size} pages of {self.pool.page}"
                + (f" as {sequence.width} siblings" if sequence.width > 1 else "")
            )
        if sequence.width > self._sequences:
            raise AttributeValueError(
                f"Scheduler: a text of {sequence.width} siblings; {self._sequences} sequences write at the same time"
            )
        if sequence.client not in self._served:  # who was away is not owed for it
            self._served[sequence.client] = min(self._served.values(), default=0)
        self._waiting.setdefault(sequence.client, deque()).append(sequence.siblings)

    def fork(self, sequence: Sequence, tokens: list[int]) -> tuple[Sequence, tuple[int, int] | None]:
        """A sibling of a sequence that writes, with other tokens behind those that are computed.

        It shares the pages that are full. Of the one that is not it needs a copy, as both will write to it: the second
        value says which page is to be copied to which before the next step. Where there is no page for a copy, these
        tokens are computed again.
        """
        pool, full = self.pool, sequence.computed // self.pool.page
        sibling = Sequence(
            sequence.client, tokens, sequence.most, sequence.source, full * pool.page, sequence.reused,
            pool.share(sequence.pages[:full]), sequence.digests[:full],
            pool.share(sequence.source_pages), sequence.source_is_read, sequence.width, sequence.siblings,
        )  # fmt: skip
        self._running.insert(self._running.index(sequence) + 1, sibling)
        if sequence.computed % pool.page == 0 or (taken := pool.take(1)) is None:
            return sibling, None
        sibling.pages += taken
        sibling.computed = sequence.computed
        return sibling, (sequence.pages[full], taken[0])

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence that is done or not wanted any more; its pages are free."""
        siblings = sequence.siblings
        if sequence in self._running:
            self._running.remove(sequence)
        elif siblings == [sequence] and siblings in (own := self._waiting.get(sequence.client, deque())):
            own.remove(siblings)
        if sequence in siblings:
            siblings.remove(sequence)
        self._give_back(sequence)
        self._tidy(sequence.client)

    def plan(self) -> list[Part]:
        """What the next step computes; nothing where nothing is to do.  `done` says that it was.

        Sources of these sequences that are not read are to be read before; `read` says that it was done.
        """
        parts: dict[Sequence, Part] = {}
        room = self._tokens
        writing = [s for s in self._running if len(s.tokens) - s.computed == 1]
        for sequence in writing:  # a step's tokens never hold back those that write
            if sequence in self._running and self._reach(sequence, len(sequence.tokens)):
                parts[sequence] = Part(sequence, sequence.computed, len(sequence.tokens))
                room -= 1
        for sequence in [s for s in self._running if s not in parts]:
            room -= self._prompt(sequence, room, parts)
        while room > 0 and (joined := self._next()):
            for sequence in joined:
                room -= self._prompt(sequence, room, parts)
            room -= 0 if joined[0].source_is_read else len(joined[0].source)
        # Who gave its pages back in between is no part of the step, or begins anew.
        return [part for s, part in parts.items() if s in self._running and part.begin == s.computed]

    def has_read(self, sequence: Sequence) -> bool:
        """Whether the source of a sequence is in its pages, or in those of another that read the same since it came."""
        if not sequence.source_is_read and (found := self.pool.find_source(sequence.source)):
            self.pool.release(sequence.source_pages)
            sequence.source_pages, sequence.source_is_read = found, True
        return sequence.source_is_read

    def read(self, sequence: Sequence) -> None:
        """Take in that the source of a sequence is in its pages, which are known to others from now on."""
        sequence.source_is_read = True
        self._served[sequence.client] += len(sequence.source)
        self.pool.publish_source(sequence.source_pages, sequence.source)

    def done(self, parts: Iterable[Part]) -> None:
        """Take in that parts were computed: their pages are known to others from now on."""
        for part in parts:
            sequence = part.sequence
            sequence.computed = part.end
            self._served[sequence.client] += part.end - part.begin
            page = self.pool.page
            for full in range(len(sequence.digests), sequence.computed // page):
                before = sequence.digests[-1] if sequence.digests else sequence.root
                digest = digest_of(before, sequence.tokens[full * page : (full + 1) * page])
                sequence.digests.append(digest)
                self.pool.publish(sequence.pages[full], digest)

    def _prompt(self, sequence: Sequence, room: int, parts: dict[Sequence, Part]) -> int:
        """Put as much of a prompt into the step as there is room for; return its tokens."""
        end = min(len(sequence.tokens), sequence.computed + room)
        if end <= sequence.computed or sequence not in self._running or not self._reach(sequence, end):
            return 0
        parts[sequence] = Part(sequence, sequence.computed, end)
        return end - sequence.computed

    def _next(self) -> list[Sequence]:
        """The siblings that come in: of the client that had least; none where there are no pages or places for them."""
        clients = [client for client, own in self._waiting.items() if own]
        if not clients:
            return []
        client = min(clients, key=lambda name: self._served[name])
        siblings = self._waiting[client][0]
        pool, source, width = self.pool, siblings[0].source, siblings[0].width
        writing = sum(s.width for s in self._running if s is s.siblings[0])
        found = [pool.count_source(source), *(pool.count(s.tokens, s.root) for s in siblings)]
        known, idle = map(sum, zip(*found, strict=True))
        growing = sum(len(s.pages) < pool.pages_of(min(len(s.tokens) + 1, s.most)) for s in self._running)
        whole = sum(pool.pages_of(len(s.tokens) + 1) for s in siblings) + pool.pages_of(len(source))
        if writing + width > self._sequences or whole - known + idle + growing > pool.available:
            return []
        self._waiting[client].popleft()
        for sequence in siblings:
            self._enter(sequence)
        return list(siblings)

    def _enter(self, sequence: Sequence) -> None:
        pool, source, root = self.pool, sequence.source, sequence.root
        sequence.pages = pool.find(sequence.tokens, root)
        sequence.computed = len(sequence.pages) * pool.page
        sequence.source_pages = pool.find_source(source)
        sequence.source_is_read = len(sequence.source_pages) == pool.pages_of(len(source))
        if sequence.reused is None:
            sequence.reused = sequence.computed + (len(source) if sequence.source_is_read else 0)
        if not sequence.source_is_read and sequence is not sequence.siblings[0]:
            sequence.source_pages = pool.share(sequence.siblings[0].source_pages)
        elif not sequence.source_is_read:
            taken = pool.take(pool.pages_of(len(source)))
            assert taken is not None  # there were as many
            sequence.source_pages = taken
        sequence.digests = []
        for full in range(len(sequence.pages)):
            own = sequence.tokens[full * pool.page : (full + 1) * pool.page]
            sequence.digests.append(digest_of(sequence.digests[-1] if full else root, own))
        self._running.append(sequence)

    def _reach(self, sequence: Sequence, end: int) -> bool:
        """Give a sequence pages for its first `end` tokens, from those that came last if need be."""
        while True:
            wanted = self.pool.pages_of(end) - len(sequence.pages)
            taken = self.pool.take(max(wanted, 0))
            if taken is not None:
                sequence.pages += taken
                return True
            last = self._running[-1].siblings
            for each in last:
                self._running.remove(each)
                self._give_back(each)
            self._waiting.setdefault(last[0].client, deque()).appendleft(last)
            if sequence in last:
                return False

    def _give_back(self, sequence: Sequence) -> None:
        self.pool.release(sequence.pages)
        self.pool.release(sequence.source_pages)
        sequence.pages, sequence.digests, sequence.computed = [], [], 0
        sequence.source_pages, sequence.source_is_read = [], False

    def _tidy(self, client: str) -> None:
        if not self._waiting.get(client):
            self._waiting.pop(client, None)
            if all(s.client != client for s in self._running):
                self._served.pop(client, None)
