"""Engine: runs the steps of a `TextGenerator` in a thread of its own, and tells who asked what was written.

It knows neither HTTP nor a network: prompts come as tokens, answers go as `Piece`s to whoever is named with a request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from framework.errors import DataError, PaddockError
from suites.engine.contract.capabilities.generating import TextGenerator
from suites.engine.serving.errors import Broken, Closed, DeadlineExceeded, QueueFull, RequestError, TooLarge
from suites.engine.serving.generation.pool import PagePool
from suites.engine.serving.generation.requests import (
    BeamsInWork,
    EngineLimits,
    InWork,
    Piece,
    TextInWork,
    Ticket,
    Wish,
)
from suites.engine.serving.generation.scheduler import Part, Scheduler
from suites.engine.serving.generation.scheduler import Sequence as Tokens
from suites.engine.serving.generation.texts import Growing

Chosen = TypeVar("Chosen")


class Engine:
    """Writes for many requests at once.

    Args:
        generator: the model.
        limits: what is allowed.
        say: gets what belongs in a log.

    Attributes:
        limits: what is allowed.
        steps, written, computed: steps, tokens that were written, and tokens that went through the network, ever.
        on_step: gets the seconds of each step.
    """

    def __init__(self, generator: TextGenerator, limits: EngineLimits, say: Callable[[str], None]) -> None:
        self.generator, self.limits, self._say = generator, limits, say
        self.pool = PagePool(generator.pages, generator.page)
        self.scheduler = Scheduler(self.pool, tokens=limits.step_tokens, sequences=limits.sequences)
        self.steps = self.written = self.computed = 0
        self.on_step: Callable[[float], object] = lambda seconds: None
        self._results: dict[Tokens, InWork] = {}
        self._new: list[InWork] = []
        self._gone: list[Ticket] = []
        self._changed = threading.Condition()
        self._closed = False
        self._died: Broken | None = None
        self._span = self.pool.pages_of(generator.context)  # pages of a table
        self._source_span = self.pool.pages_of(generator.longest_source)
        self._thread = threading.Thread(target=self._work, name="generation", daemon=True)

    def warm_up(self) -> None:
        """Run a step, so that the first request is not slow.  What it writes to the cache nobody reads."""
        one = Tokens("", [0], 2, [0] if self.generator.longest_source else [], pages=[0], source_pages=[0])
        if one.source:
            self.generator.read(one.source, one.source_pages)
        self.generator.step(self._arrays([Part(one, 0, 1)]))

    # -- from any thread
    def start(self) -> None:
        """Start to work."""
        self._thread.start()

    def close(self, timeout: float) -> bool:
        """Take nothing new, finish what was taken for so many seconds; return whether all of it was."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def trouble(self) -> str | None:
        """Why nothing is written any more; None if all is well."""
        return None if self._died is None else str(self._died)

    def submit(self, wish: Wish, deliver: Callable[[Piece], None]) -> Ticket:
        """Take a request; its pieces go to `deliver`.

        Raises RequestError for values out of bounds or a prompt that has no room, QueueFull where too many wait, Broken
        where nothing is written any more.
        """
        most = self._most(wish)
        ticket = Ticket(deliver, time.monotonic() + self.limits.seconds)
        if wish.sampling.beam > 1:
            ticket.results.append(self._beams(wish, most, ticket))
        else:
            for number in range(wish.results):
                chooser = _checked(lambda n: self.generator.chooser(wish.sampling, n, wish.prompt.tokens), number)
                tokens = Tokens(wish.client, list(wish.prompt.tokens), most, wish.prompt.source)
                growing = Growing(self.generator.text, wish.stops, wish.prompt.before)
                ticket.results.append(TextInWork(ticket, number, tokens, chooser, growing))
        with self._changed:
            if self._closed:
                raise Closed("the server is shutting down; ask another one")
            if self._died is not None:
                raise self._died
            if self.scheduler.waiting + len(self._new) + len(ticket.results) > self.limits.waiting:
                raise QueueFull(f"{self.limits.waiting} texts wait to be written; try again in 1 s", 1)
            self._new += ticket.results
            self._changed.notify()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Write no more of a request; its pages are free before the next step."""
        with self._changed:
            self._gone.append(ticket)
            self._changed.notify()

    def _most(self, wish: Wish) -> int:
        """Tokens of the prompt and of what is written, at most."""
        length, source, limits = len(wish.prompt.tokens), len(wish.prompt.source), self.limits
        width = wish.sampling.beam
        if wish.new_tokens is not None and not 1 <= wish.new_tokens <= limits.new_tokens:
            raise RequestError(f"max_tokens: is {wish.new_tokens}; it must lie between 1 and {limits.new_tokens}")
        if not 1 <= wish.results <= limits.results:
            raise RequestError(f"n: is {wish.results}; it must lie between 1 and {limits.results}")
        widest = min(limits.results, limits.sequences)
        if not 1 <= width <= widest:
            raise RequestError(f"beam: is {width}; it must lie between 1 and {widest}")
        if 1 < width < wish.results:
            raise RequestError(f"n: is {wish.results}; a beam of {width} gives {width} texts at most")
        if any(not stop for stop in wish.stops):
            raise RequestError("stop: has an empty text, which is in every text; take it out")
        if length >= self.generator.context:
            raise RequestError(
                f"the prompt has {length} tokens; the model has places for {self.generator.context}, one of them at "
                "least for the answer"
            )
        if source > self.generator.longest_source:
            raise RequestError(
                f"the prompt has {source} tokens; the model reads {self.generator.longest_source} at most"
            )
        asked = limits.new_tokens if wish.new_tokens is None else wish.new_tokens
        most = min(length + asked, self.generator.context)
        room = (self.pool.size - self.pool.pages_of(source)) // width * self.pool.page
        if wish.new_tokens is None:  # whoever names no number gets what there is room for
            most = min(most, room)
        if most > room or most <= length:
            raise TooLarge(
                f"the prompt has {length + source} tokens and the answer may have {max(most - length, 1)}"
                f"{f', {width} times' if width > 1 else ''}; the cache has room for {self.pool.size * self.pool.page} "
                "(--cache-mb)"
            )
        return most

    def _beams(self, wish: Wish, most: int, ticket: Ticket) -> BeamsInWork:
        prompt = wish.prompt.tokens
        room = most - len(prompt)
        chooser = _checked(self.generator.beams, wish.sampling, wish.results, wish.prompt, room, wish.stops)
        tokens = Tokens(wish.client, list(prompt), most, wish.prompt.source, width=wish.sampling.beam)
        return BeamsInWork(ticket, tokens, wish.results, chooser, wish.stops, wish.prompt.before, [tokens])

    # -- in the engine's thread
    def _work(self) -> None:
        try:
            self._write()
        except Exception as error:  # a bug; whoever waits is told, as nobody would ever be answered
            broken = self._broken("the generation thread", error)
            with self._changed:
                self._died = broken
                left = list(dict.fromkeys([*self._results.values(), *self._new]))
                self._results.clear()
                self._new.clear()
            for result in left:
                for piece in result.failed(broken):
                    result.ticket.deliver(piece)

    def _write(self) -> None:
        while True:
            with self._changed:
                while not (self._new or self._gone or self._results or self._closed):
                    self._changed.wait()
                if self._closed and not (self._new or self._results):
                    return
                self._take_in()
                parts = self.scheduler.plan()
            start = time.monotonic()
            parts = [part for part in parts if self._read(part)]
            if not parts:
                continue
            try:
                scores, totals = self.generator.step(self._arrays(parts))
            except Exception as error:
                self._fail(parts, "a step of generation", error)
                continue
            with self._changed:
                self.scheduler.done(parts)
            self.steps += 1
            self.computed += sum(part.end - part.begin for part in parts)
            asking = [part.sequence for part in parts if part.asks]
            for sequence, row, total in zip(asking, scores, totals, strict=True):
                self._results[sequence].hear(sequence, row, float(total))
            heard = list(dict.fromkeys(self._results[sequence] for sequence in asking))
            pieces = [self._chosen(result) for result in heard]
            self.on_step(time.monotonic() - start)  # before anyone can read the answer, and then the figures
            for result, own in zip(heard, pieces, strict=True):
                self._give(result, own)

    def _read(self, part: Part) -> bool:
        """See to it that the source of a sequence is in its pages; False where that failed, and it is told."""
        sequence = part.sequence
        if sequence not in self._results:  # a sibling's source failed, which is its own
            return False
        with self._changed:
            if self.scheduler.has_read(sequence):
                return True
        try:
            self.generator.read(sequence.source, sequence.source_pages)
        except Exception as error:
            self._fail([part], "reading a source", error)
            return False
        with self._changed:
            self.scheduler.read(sequence)
        self.computed += len(sequence.source)
        return True

    def _take_in(self) -> None:
        """Let in who is new, let go who is gone or late."""
        for result in self._new:
            self._results[result.tokens] = result
            self.scheduler.add(result.tokens)
        self._new.clear()
        gone, now = set(map(id, self._gone)), time.monotonic()
        self._gone.clear()
        for result in dict.fromkeys(self._results.values()):
            if id(result.ticket) in gone:
                self._leave(result)
            elif now > result.ticket.deadline:
                late = DeadlineExceeded(f"the text was not written within {self.limits.seconds:.0f} s")
                self._leave(result)
                for piece in result.failed(late):
                    result.ticket.deliver(piece)

    def _arrays(self, parts: Sequence[Part]) -> dict[str, np.ndarray]:
        lengths = np.array([part.end for part in parts], np.int64)
        counts = np.array([part.end - part.begin for part in parts], np.int64)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        tables = np.zeros((len(parts), self._span), np.int64)
        for row, part in zip(tables, parts, strict=True):
            row[: len(part.sequence.pages)] = part.sequence.pages
        ids = np.concatenate([np.array(p.sequence.tokens[p.begin : p.end], np.int64) for p in parts])
        rows = offsets[1:][[part.asks for part in parts]] - 1
        arrays = {"ids": ids, "offsets": offsets, "tables": tables, "lengths": lengths, "rows": rows}
        if not self._source_span:
            return arrays
        sources = np.zeros((len(parts), self._source_span), np.int64)
        for row, part in zip(sources, parts, strict=True):
            row[: len(part.sequence.source_pages)] = part.sequence.source_pages
        source_lengths = np.array([len(part.sequence.source) for part in parts], np.int64)
        return arrays | {"source_tables": sources, "source_lengths": source_lengths}

    def _chosen(self, result: InWork) -> list[Piece]:
        """Choose what follows of a text, if all is heard; what it adds to the text."""
        try:
            if isinstance(result, BeamsInWork):
                return self._advance(result) if len(result.heard) == len(result.live) else []
            piece = self._choose(result)
            return [] if piece is None else [piece]
        except DataError as error:
            return result.failed(Broken(str(error)))
        except Exception as error:
            return result.failed(self._broken("choosing a token", error))

    def _advance(self, beams: BeamsInWork) -> list[Piece]:
        """Let the best hypotheses go on; where none does, the texts."""
        before = beams.live
        scores, totals = zip(*(beams.heard[sequence] for sequence in before), strict=True)
        going = beams.chooser.advance(np.stack(scores), np.array(totals))
        self.written += len(going)
        if not going:
            return self._texts(beams)
        beams.heard, beams.live = {}, []
        kept, taken, copies = {row for row, _ in going}, set(), []
        texts = [list(sequence.tokens) for sequence in before]
        with self._changed:
            for row, sequence in enumerate(before):
                if row not in kept:
                    del self._results[sequence]
                    self.scheduler.remove(sequence)
            for row, token in going:
                sequence = before[row]
                if row in taken:
                    sequence, copied = self.scheduler.fork(sequence, [*texts[row], token])
                    copies += [] if copied is None else [copied]
                    self._results[sequence] = beams
                else:
                    sequence.tokens.append(token)
                    taken.add(row)
                beams.live.append(sequence)
        if copies:
            pages, to = zip(*copies, strict=True)
            try:
                self.generator.copy(pages, to)
            except Exception as error:
                return beams.failed(self._broken("copying pages", error))
        return []

    def _texts(self, beams: BeamsInWork) -> list[Piece]:
        """What was written, as one piece each: what comes first is known at the end."""
        found = beams.chooser.results()
        if len(found) < beams.results:
            few = f"n: is {beams.results}, but there are {len(found)} different texts of this length; ask for as many"
            return beams.failed(RequestError(few))
        pieces = []
        for number, (ids, ended) in enumerate(found):
            growing = Growing(self.generator.text, beams.stops, beams.before)
            text = "".join(growing.add(token) for token in ids) + growing.end()
            tokens = len(ids) + (ended and not growing.stopped)
            pieces.append(Piece(number, text, tokens, "stop" if ended else "length"))
        return pieces

    def _choose(self, result: TextInWork) -> Piece | None:
        """Choose a text's next token; what it adds to the text, None where that is still nothing."""
        tokens, growing = result.tokens, result.growing
        assert result.heard is not None
        token = result.chooser.choose(*result.heard)
        self.written += 1
        result.written += 1
        if token in self.generator.stops:
            return Piece(result.number, growing.end(), result.written, "stop")
        tokens.tokens.append(token)
        new = growing.add(token)
        if growing.stopped:
            return Piece(result.number, new, result.written, "stop")
        if len(tokens.tokens) >= tokens.most:
            new += growing.end()
            return Piece(result.number, new, result.written, "stop" if growing.stopped else "length")
        return Piece(result.number, new, result.written) if new else None

    def _broken(self, what: str, error: Exception) -> Broken:
        self._say(f"{what} failed ({type(error).__name__}: {error})")
        return Broken(f"{what} failed: {error}")

    def _fail(self, parts: Sequence[Part], what: str, error: Exception) -> None:
        broken = self._broken(what, error)
        for result in dict.fromkeys(self._results[part.sequence] for part in parts):
            self._give(result, result.failed(broken))

    def _give(self, result: InWork, pieces: Sequence[Piece]) -> None:
        if any(piece.finish is not None or piece.error is not None for piece in pieces):  # of beams: then all are
            with self._changed:
                self._leave(result)
        for piece in pieces:
            result.ticket.deliver(piece)

    def _leave(self, result: InWork) -> None:
        for sequence in result.live:
            if self._results.pop(sequence, None) is not None:
                self.scheduler.remove(sequence)


def _checked(make: Callable[..., Chosen], *args: object) -> Chosen:
    """What a generator makes of a request's values; RequestError where it refuses them."""
    try:
        return make(*args)
    except PaddockError as error:
        raise RequestError(str(error).partition(": ")[2] or str(error)) from None
