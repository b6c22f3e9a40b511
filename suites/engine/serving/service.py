"""The served model: JSON values to items, items to batches, batches through the network; knows no HTTP.

A request's items share batches with those of other requests. Raw arrays cannot be split, so they run alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from asyncio import FIRST_COMPLETED
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from framework.data.exchange import Parcel
from framework.errors import AttributeValueError, CheckpointError, PaddockError
from suites.engine.contract.batch import Batch, Found
from suites.engine.contract.capabilities import FollowsOutputs
from suites.engine.contract.feeding import Outputs
from suites.engine.contract.processor import served
from suites.engine.predict.inference import Model
from suites.engine.predict.items import Predict, joined
from suites.engine.serving.batcher import Batcher, Limits, Ticket
from suites.engine.serving.errors import (
    Broken,
    Cancelled,
    DeadlineExceeded,
    NotThere,
    QueueFull,
    RequestError,
    TooLarge,
)
from suites.engine.serving.metrics import Metrics
from suites.engine.serving.readers import Here, Readers, Reads, most_readers
from suites.engine.serving.reading import Bounds, Drawing, ReadItems
from suites.engine.serving.workers import BatchDone, Run, Workers

RAW = ""  # no pooling has this name
_READER_BYTES = 256 << 20  # that a reader may take beyond three times what it decodes
_QUICK_BYTES = 1 << 20  # of a request's text that may be read in this process, if it is quick to read
_INLINE_BYTES, _INLINE_ITEMS = 4096, 16  # of it: more is read in another thread, so that nobody else waits
_WARM_SECONDS = 60.0  # for the readers to start


@dataclass(frozen=True)
class Settings:
    """What a server allows.

    Args:
        name: of the model, in paths and answers.
        workers: batches that run at the same time.
        limits: of batches and of the queue.
        timeout: seconds that a request may take in all, also the most that it may ask for itself.
        stuck_after: seconds after which a batch counts as stuck and the server as not alive.
        max_body: bytes of a request.
        max_bodies: bytes of all requests that are being answered.
        max_items: of a request.
        max_chars: of the texts of an item.
        max_values: of a request's JSON, those in lists and objects each.
        max_decoded: bytes that the items of a request take once they are decoded, such as images.
        max_decoded_all: the same of all requests that are being answered.
        readers: processes that read items; 0 reads in the server's own process, which then has no bound of seconds.
        read_seconds: for the items of a request, or for a batch; a reader that takes longer is ended.
    """

    name: str = "model"
    workers: int = 1
    limits: Limits = field(default_factory=Limits)
    timeout: float = 30.0
    stuck_after: float = 60.0
    max_body: int = 16 << 20
    max_bodies: int = 256 << 20
    max_items: int = 1024
    max_chars: int = 100_000
    max_values: int = 1 << 20
    max_decoded: int = 256 << 20
    max_decoded_all: int = 1 << 30
    readers: int = 2
    read_seconds: float = 5.0

    def __post_init__(self) -> None:
        if self.readers < 0:
            raise AttributeValueError(f"serving: readers is {self.readers}; it must be 0 or more")
        for name in (f.name for f in fields(self) if f.type in ("int", "float") and f.name != "readers"):
            if not getattr(self, name) > 0:
                raise AttributeValueError(f"serving: {name} is {getattr(self, name)}; it must be more than 0")
        if self.max_items > self.limits.max_queue:
            raise AttributeValueError(
                f"serving: a request may have {self.max_items} items, but only {self.limits.max_queue} may wait; "
                "raise max_queue or lower max_items"
            )


@dataclass(frozen=True)
class Job:
    """An item and what is wanted of it: each want is a pooling's name, for a vector; None, for the prediction as it is
    served; or RAW, for the prediction as `draw` takes it.
    """

    item: Any
    wants: tuple[str | None, ...]


@dataclass(frozen=True)
class RawJob:
    """Arrays by name, as the network takes them."""

    arrays: dict[str, np.ndarray]


@dataclass(frozen=True)
class Answer:
    """For each want the results in the order of the items; of each item whether its end was left out, and the version
    of the model that answered, where it has several.
    """

    results: list[list[Any]]
    truncated: list[bool]
    cost: int
    versions: list[str | None]


class _Found(NamedTuple):
    """What a batch gave an item: its wants' results, and the version that gave them."""

    results: list[Any]
    version: str | None


class Service:
    """A model that answers requests; `start` before the first, `close` after the last."""

    def __init__(
        self,
        model: Model,
        settings: Settings,
        *,
        on_death: Callable[[BaseException, bool], None] = lambda error, given_up: None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.model = model
        self.processor = served(model.processor)
        self.settings = settings
        self.batcher = Batcher(settings.limits)
        self.metrics = Metrics(settings.name, lambda: self.batcher.waiting, lambda: self.workers.busy(), model.feed)
        self._on_death, self._say = on_death, say
        self._types = dict(model.types)
        self._widths: dict[str | None, int] = {}
        predicts = [model.predict, *(model.replica() for _ in range(settings.workers - 1))]
        self._runs = [self._runner(predict) for predict in predicts]
        self.workers = Workers(
            self.batcher,
            self._runs,
            prepare=self._prepared,
            spare=most_readers(settings.readers),
            stuck_after=settings.stuck_after,
            on_batch=self._batch_done,
            on_death=self._died,
        )
        bounds = Bounds(settings.read_seconds, settings.max_decoded, 3 * settings.max_decoded + _READER_BYTES)
        self._here = Here(self.processor, bounds)
        self.readers = self._reads(bounds)
        self._reading = ThreadPoolExecutor(max(most_readers(settings.readers), 1) + 1, "paddock-reading")
        self._quickly = ThreadPoolExecutor(2, "paddock-quick-reading")
        self._decoded = 0  # bytes of their items
        self._warm = False

    # -- life
    def warm_up(self) -> None:
        """Run each worker's network once on the processor's example, if there is one: the first request is not slow."""
        example = self.processor.example()
        if example is not None:
            quick = self.processor.is_quick(example, text_length(example))
            if not quick:
                self.readers.start()
            item = (self._here if quick else self.readers).items([example], _WARM_SECONDS).items[0]
            for run in self._runs:
                run(self._prepared([Job(item, (None, *self.poolings[:1]))], lambda: None))
        self._warm = True

    def start(self) -> None:
        """Start the workers."""
        self.workers.start()

    def close(self, timeout: float) -> bool:
        """Finish what was taken, for at most `timeout` seconds; return whether all of it was."""
        self.batcher.close()
        finished = self.workers.join(timeout)
        self.readers.close()
        for threads in (self._reading, self._quickly):
            threads.shutdown(wait=False, cancel_futures=True)
        return finished

    def trouble(self) -> str | None:
        """Why the server is not alive; None if it is."""
        return self.workers.trouble() or self.readers.trouble()

    def not_ready(self) -> str | None:
        """Why the server takes no requests now; None if it does."""
        if not self._warm:
            return "the first run is not done"
        return "it is shutting down" if self.batcher.closed else self.trouble()

    # -- what the model is
    @property
    def poolings(self) -> tuple[str, ...]:
        """Ways to make vectors, the default first."""
        return self.processor.poolings

    def pooling(self, asked: str | None) -> str:
        """The pooling that is meant; RequestError where there is none of this name."""
        if not self.poolings:
            raise NotThere(f"{self.settings.name}: this model gives no vectors; ask for scores")
        if asked is not None and asked not in self.poolings:
            raise RequestError(f"pooling: there is no '{asked}'; there are {', '.join(self.poolings)}")
        return asked or self.poolings[0]

    def width(self, pooling: str | None) -> int:
        """Numbers of a vector of this pooling; 0 before the first was made."""
        return self._widths.get(pooling, 0)

    def input_types(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Element type and shape of the network's inputs by name, as far as known."""
        return {name: self._types[name] for name in self.model.inputs if name in self._types}

    def output_types(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """The same of its outputs."""
        return {name: found for name, found in self._types.items() if name not in self.model.inputs}

    # -- requests
    async def ask(
        self,
        values: Sequence[Any],
        wants: tuple[str | None, ...],
        *,
        timeout: float | None = None,
        gone: asyncio.Future[Any] | None = None,
    ) -> Answer:
        """Answer a request of JSON values.

        Args:
            values: the items.
            wants: what is wanted of each, see `Job`.
            timeout: seconds for the answer, at most the server's own limit.
            gone: is done when the client has left.

        Raises RequestError, also for a value that is no item.
        """
        if len(values) > self.settings.max_items:
            raise TooLarge(
                f"the request has {len(values)} items; {self.settings.max_items} are allowed (--max-items), split it"
            )
        lengths = [self._check_length(index, value) for index, value in enumerate(values)]
        seconds = self._timeout(timeout)
        end = time.monotonic() + seconds
        read = await self._read(values, lengths, seconds, gone)
        with self._held(read.decoded):
            ticket = self.batcher.submit(
                [Job(item, wants) for item in read.items], read.costs, timeout=end - time.monotonic()
            )
            found = await self._wait(ticket, gone)
        results = [[of_item.results[k] for of_item in found] for k in range(len(wants))]
        return Answer(results, read.truncated, sum(read.costs), [of_item.version for of_item in found])

    async def _read(
        self, values: Sequence[Any], lengths: Sequence[int], seconds: float, gone: asyncio.Future[Any] | None
    ) -> ReadItems:
        """The items of a request: made here where that is bounded, else elsewhere; nobody else waits for it."""
        total = sum(lengths)
        if total <= _QUICK_BYTES:
            # A file may cost milliseconds even to look at: never where connections are served.
            if not self.processor.files_in_json and total <= _INLINE_BYTES and len(values) <= _INLINE_ITEMS:
                found = self._quick_items(values, lengths)
            else:
                found = await self._elsewhere(self._quickly, seconds, gone, self._quick_items, values, lengths)
            if found is not None:
                return found
        read: ReadItems = await self._elsewhere(self._reading, seconds, gone, self.readers.items, values, seconds)
        return read

    def _quick_items(self, values: Sequence[Any], lengths: Sequence[int]) -> ReadItems | None:
        """The items of a request if reading each is bounded."""
        if not all(map(self.processor.is_quick, values, lengths)):
            return None
        return self._here.items(values, self.settings.timeout)

    async def _elsewhere(
        self,
        threads: ThreadPoolExecutor,
        seconds: float,
        gone: asyncio.Future[Any] | None,
        work: Callable[..., Any],
        *arguments: Any,
    ) -> Any:
        """What `work` returns, in another thread."""
        reading = asyncio.wrap_future(threads.submit(work, *arguments))
        await asyncio.wait({reading, gone} if gone else {reading}, timeout=seconds, return_when=FIRST_COMPLETED)
        if reading.done():
            return reading.result()
        reading.cancel()
        if gone and gone.done():
            raise Cancelled("the client left before its items were read")
        raise DeadlineExceeded(f"the items were not read within {seconds:.1f} s")

    @contextlib.contextmanager
    def _held(self, size: int) -> Iterator[None]:
        """Inside, a request's decoded items count among those of all; runs in the HTTP thread only."""
        if self._decoded + size > self.settings.max_decoded_all:
            raise QueueFull(f"items of {self.settings.max_decoded_all} bytes are being answered; try again in 1 s", 1)
        self._decoded += size
        try:
            yield
        finally:
            self._decoded -= size

    async def draw(
        self, values: Sequence[Any], results: Sequence[Any], *, gone: asyncio.Future[Any] | None = None
    ) -> list[Drawing]:
        """Draw items with their RAW results; raises as `ask` does."""
        seconds = self.settings.timeout
        found: list[Drawing] = await self._elsewhere(
            self._reading, seconds, gone, self.readers.drawings, values, results, seconds
        )
        return found

    async def ask_raw(
        self, arrays: Mapping[str, np.ndarray], *, timeout: float | None = None, gone: asyncio.Future[Any] | None = None
    ) -> dict[str, np.ndarray]:
        """Run the network on arrays as they are; raises RequestError where they do not fit it."""
        types = self.input_types()
        if set(arrays) != set(self.model.inputs) or set(types) != set(arrays):
            raise RequestError(f"inputs: got {sorted(arrays)}; the network takes {list(self.model.inputs)}")
        for name, array in arrays.items():
            dtype, shape = types[name]
            if str(array.dtype) != dtype or array.ndim != len(shape):
                raise RequestError(
                    f"input {name}: is {array.dtype}{list(array.shape)}; "
                    f"the network takes {dtype} with {len(shape)} axes"
                )
        rows = max((len(array) for array in arrays.values() if array.ndim), default=1)
        if rows > self.settings.limits.max_cost:
            raise TooLarge(
                f"the arrays have {rows} rows; {self.settings.limits.max_cost} are allowed (--max-tokens), split them"
            )
        ticket = self.batcher.submit([RawJob(dict(arrays))], [rows], timeout=self._timeout(timeout), alone=True)
        found: dict[str, np.ndarray] = (await self._wait(ticket, gone))[0]
        return found

    def _timeout(self, asked: float | None) -> float:
        if asked is not None and not asked > 0:
            raise RequestError(f"the timeout is {asked} s; it must be more than 0")
        return min(asked or self.settings.timeout, self.settings.timeout)

    def _check_length(self, index: int, value: Any) -> int:
        length = text_length(value)
        if length > self.settings.max_chars and not self.processor.files_in_json:
            raise TooLarge(
                f"item {index}: has {length} characters; {self.settings.max_chars} are allowed (--max-chars)"
            )
        return length

    async def _wait(self, ticket: Ticket, gone: asyncio.Future[Any] | None) -> list[Any]:
        found = asyncio.wrap_future(ticket.future)
        left = None if ticket.deadline is None else ticket.deadline - time.monotonic()
        try:
            await asyncio.wait({found, gone} if gone else {found}, timeout=left, return_when=FIRST_COMPLETED)
            if not found.done():
                late = DeadlineExceeded(f"there was no answer within {time.monotonic() - ticket.arrived:.1f} s")
                self.batcher.cancel(ticket, None if gone and gone.done() else late)
            return await found
        except PaddockError as error:
            raise _as_refusal(error) from error
        finally:
            found.cancel()
            self.batcher.cancel(ticket)
            if ticket.started is not None:
                self.metrics.queue_seconds.observe(ticket.started - ticket.arrived)

    def _reads(self, bounds: Bounds) -> Reads:
        """What reads items: processes, where the processor can travel to them and its batches come without outputs."""
        s = self.settings
        if s.readers and not isinstance(self.processor, FollowsOutputs):
            try:
                return Readers(self.processor, s.readers, bounds, self._reader_ended)
            except AttributeValueError as error:
                self._say(f"{error}: items are read in the server's own process, without a bound of seconds")
        return self._here

    def _reader_ended(self, why: str) -> None:
        self.metrics.reader_ends.inc()
        self._say(f"a reader is replaced: {why}")

    # -- in the workers' threads
    def _prepared(self, jobs: list[Any], slow: Callable[[], None]) -> tuple[list[Any], Generator[Batch]]:
        """Jobs, and the batches of their items, of which the first is made; arrays as they are have none."""
        if isinstance(jobs[0], RawJob):
            return jobs, _begun(_no_batches())
        items = [job.item for job in jobs]
        reads = self.readers if any(isinstance(item, Parcel) for item in items) else self._here
        return jobs, _begun(reads.batches(items, self.settings.timeout, slow))

    def _runner(self, predict: Predict) -> Run:
        processor, names = self.processor, self.model.inputs

        def run(prepared: tuple[list[Any], Generator[Batch]]) -> list[Any]:
            jobs, batches = prepared
            if isinstance(jobs[0], RawJob):
                return [predict(job.arrays) for job in jobs]
            version, wants = None, {want for job in jobs for want in job.wants}
            found: dict[str | None, Any] = {}

            def outputs_of() -> Iterator[Found]:
                nonlocal version
                for batch in batches:
                    arrays = {name: batch[name] for name in names}
                    outputs = predict(arrays)
                    self._learn_types(arrays, outputs)
                    version = outputs.version if isinstance(outputs, Outputs) else None
                    for want in wants - {None, RAW}:
                        found[want] = processor.embeddings(outputs, batch, want or "")
                        self._widths[want] = found[want].shape[-1]
                    yield outputs, batch

            with contextlib.closing(batches):
                if wants & {None, RAW}:
                    found[RAW] = joined(processor, outputs_of())
                    if None in wants:
                        found[None] = [processor.served(result) for result in found[RAW]]
                else:
                    deque(outputs_of(), maxlen=0)
            return [_Found([found[want][i] for want in job.wants], version) for i, job in enumerate(jobs)]

        return run

    def _learn_types(self, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> None:
        """A run's network says what it takes only when it has run."""
        if len(self._types) < len(inputs) + len(outputs):
            self._types |= {name: (str(array.dtype), array.shape) for name, array in {**inputs, **outputs}.items()}

    def _batch_done(self, done: BatchDone) -> None:
        self.metrics.batch(done)

    def _died(self, error: BaseException, given_up: bool) -> None:
        self.metrics.deaths.inc()
        self._on_death(error, given_up)


def _begun(batches: Generator[Batch]) -> Generator[Batch]:
    """The same batches, of which the first is made now."""
    first = next(batches, None)

    def go_on() -> Generator[Batch]:
        with contextlib.closing(batches):
            if first is not None:
                yield first
            yield from batches

    return go_on()


def _no_batches() -> Generator[Batch]:
    yield from ()


def text_length(value: Any) -> int:
    """Characters of all texts in a JSON value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + text_length(below) for key, below in value.items())
    if isinstance(value, list):
        return sum(text_length(below) for below in value)
    return 0


def _as_refusal(error: PaddockError) -> RequestError:
    """An error of the processor or the network: the item's fault, as others of its kind go through; or a file's."""
    if isinstance(error, RequestError):
        return error
    return Broken(str(error)) if isinstance(error, CheckpointError) else RequestError(str(error))
