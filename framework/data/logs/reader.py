"""LogReader: batches of click logs, parsed by native threads in a deterministic order, with a position to go on from.

    reader = LogReader(["day_0.tsv", "day_1.tsv.gz"], schema, 4096, shuffle=True, seed=0)
    for batch in reader:                # one pass over all files
        batch["sparse"], batch["labels"]

Batches depend on the files, the schema, the seed and the sizes alone, never on the number of threads.
"""

from __future__ import annotations

import contextvars
import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from framework import _core
from framework.data.faults import FaultPolicy
from framework.data.logs.archives import in_zip, is_pattern, members, split_zip
from framework.data.logs.faults import LogFaults
from framework.data.logs.files import LogFile, Parsed, tell
from framework.data.logs.order import Block, LogOrder, UnreadableFileError
from framework.data.logs.schema import LogSchema
from framework.data.logs.window import RowWindow, gather
from framework.data.source import Endless
from framework.data.world import ALONE, World
from framework.errors import AttributeValueError, CheckpointError, DataError


class LogReader(Endless):
    """Makes batches of click logs. It has what a `StreamLoader` has, so the engine trains on it.

    Args:
        files: paths, or patterns such as "logs/*.tsv.gz" whose files are taken in the order of their names. A zip
            stands for all its files, "logs.zip/*.tsv" for some.
        schema: what is read of a row; or the mapping that a `LogSchema` takes.
        batch_size: rows in a batch.
        shuffle: draw the order from (seed, epoch): first that of the blocks of all files, then that of the rows of each
            window. A window is as many blocks, one after the other, as have `shuffle_rows` rows together.
        shuffle_rows: see `shuffle`; what is held in memory is two windows at most.
        seed: of the order.
        threads: that parse; by default as many as compute. The batches are the same for any number.
        drop_last: leave out the last batch of an epoch if it is short.
        block_bytes: of text that is parsed at once, and that keeps together in a drawn order.
        interleave: compressed files that are open at the same time where `shuffle` is set.
        faults: which share of the rows may be bad (`skipped`); the first bad row is an error by default.
        bad_files: how many files may be unreadable.
        shown: bad rows whose file and line are kept.
        world: which part of the blocks is read: another one by each of several processes, `batch_size` rows each time.

    Attributes:
        length: None: nobody counted the rows.
        skipped: what could not be used in this epoch, see `LogFaults`.
        epoch: that the next batch belongs to, from 0: how many epochs are over.
        wait_seconds: time that batches took.

    A batch is a mapping of NumPy arrays: `sparse` int64 [N, F], `dense` float32 [N, D], `labels` float32 [N, L],
    `weight` float32 [N], `group` and `time` int64 [N]; and for a multi-valued feature `<name>` int64 [T] and
    `<name>.offsets` int64 [N + 1].

    Raises DataError for files that cannot be read or hold bad rows, AttributeValueError for a wrong argument.
    """

    def __init__(
        self,
        files: str | Path | Iterable[str | Path],
        schema: LogSchema | dict[str, Any],
        batch_size: int,
        *,
        shuffle: bool = False,
        shuffle_rows: int = 1 << 16,
        seed: int = 0,
        threads: int | None = None,
        drop_last: bool = False,
        block_bytes: int = 1 << 20,
        interleave: int = 4,
        faults: FaultPolicy = FaultPolicy(),  # noqa: B008  (frozen)
        bad_files: int = 0,
        shown: int = 20,
        world: World = ALONE,
    ) -> None:
        threads = _core.num_threads() if threads is None else threads
        sizes = {"batch_size": batch_size, "shuffle_rows": shuffle_rows, "threads": threads}
        for name, value in {**sizes, "block_bytes": block_bytes, "interleave": interleave}.items():
            if value < 1:
                raise AttributeValueError(f"LogReader: {name} is {value}; it must be 1 or more")
        self.schema = schema if isinstance(schema, LogSchema) else LogSchema(schema)
        self.batch_size, self.world, self.faults = batch_size, world, faults
        self.dataset = self
        self.skipped = LogFaults(shown, bad_files)
        self.wait_seconds = 0.0
        self.epoch = 0
        self._shuffle, self._rows, self._seed = shuffle, shuffle_rows if shuffle else 1, seed
        self._drop_last, self._interleave, self._threads = drop_last, interleave, threads
        self._options = {"shuffle": shuffle, "shuffle_rows": shuffle_rows, "block_bytes": block_bytes}
        self._files = self._opened(expand(files), block_bytes)
        self._pools: tuple[ThreadPoolExecutor, ThreadPoolExecutor] | None = None
        self._position = _start()
        self._iteration = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Give what is left of the epoch: all of it, unless a position was loaded or an iterator left in the middle."""
        return self._run()

    @property
    def passes_over(self) -> int:
        """How many passes are over: `epoch`."""
        return self.epoch

    @property
    def units(self) -> int:
        """Parts of the files that are read by themselves: blocks, compressed files and row groups."""
        return sum(file.units for file in self._files)

    def stream(self) -> Iterator[dict[str, Any]]:
        """Continue from the current position, epoch after epoch, without end."""
        while True:
            yield from self._run()
            if not self.skipped.rows:
                raise DataError(f"log reader: {len(self._files)} files give no row; check the paths and the schema")

    def split(self, world: World) -> None:
        """From now on read the part of one of several processes; `batch_size` is that of each of them."""
        if world != self.world:
            self.world, self._position = world, _start()
            self._iteration += 1

    def start(self) -> None:
        """Start the threads."""
        if self._pools is None:
            self._pools = (
                ThreadPoolExecutor(self._threads, "paddock-log-parse"),
                ThreadPoolExecutor(self._interleave, "paddock-log-inflate"),
            )

    def close(self) -> None:
        """Stop the threads; iterating again starts new ones."""
        if self._pools is not None:
            for pool in self._pools:
                pool.shutdown(wait=True, cancel_futures=True)
            self._pools = None

    def state_dict(self) -> dict[str, Any]:
        """Return the position behind the last batch, what it depends on, and what was skipped; fit for JSON."""
        return {**self._identity(), "epoch": self.epoch, **self._position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state` was taken; raise CheckpointError if this reader makes other batches."""
        for key, mine in self._identity().items():
            if state.get(key) != mine:
                raise CheckpointError(
                    f"LogReader: the saved position has {key} {state.get(key)} but this reader has {mine}; an exact "
                    "continuation needs the same files, schema, sizes and seed"
                )
        self.epoch = state["epoch"]
        self._position = {key: state[key] for key in _start()}
        self._iteration += 1

    @property
    def files_digest(self) -> str:
        """What tells these files from others: their names and sizes."""
        files = json.dumps([[file.path.name, file.size] for file in self._files])
        return hashlib.sha256(files.encode()).hexdigest()[:16]

    def _identity(self) -> dict[str, Any]:
        return {
            "seed": self._seed,
            "batch_size": self.batch_size,
            **self._options,
            "interleave": self._interleave,
            "drop_last": self._drop_last,
            "rank": self.world.rank,
            "processes": self.world.size,
            "schema": self.schema.digest,
            "files": self.files_digest,
        }

    def _opened(self, paths: list[Path], block_bytes: int) -> list[LogFile]:
        files = []
        for path in paths:
            try:
                files.append(LogFile(path, self.schema, block_bytes))
            except DataError as error:
                self.skipped.add_file(str(path), str(error))
        self._unopened = dict(self.skipped.files)
        return files

    def _run(self) -> Iterator[dict[str, Any]]:
        """The batches from the position to the end of the epoch."""
        self._iteration += 1
        mine = self._iteration
        self.start()
        parts, started = self._parts(), time.perf_counter()
        found = next(parts, None)
        if found is None:
            self._end_epoch()
        while found is not None:
            batch = self.schema.batch(gather(found[0]))
            following = next(parts, None)  # looked up before the batch is given, so that the last one ends the epoch
            self._position = found[1]
            if following is None:
                self._end_epoch()
            self.wait_seconds += time.perf_counter() - started
            yield batch
            del batch
            if self._iteration != mine:
                raise RuntimeError("LogReader: this iterator has ended: the reader was moved or iterated anew")
            started, found = time.perf_counter(), following

    def _end_epoch(self) -> None:
        self.epoch, self._position = self.epoch + 1, _start()

    def _parts(self) -> Iterator[tuple[list[tuple[RowWindow, int, int]], dict[str, Any]]]:
        """Windows and the rows of them that make each batch of the epoch, and the position behind it."""
        windows, resumed_at, taken = self._windows(self._position), self._position["taken"], 0
        window: RowWindow | None = None
        while True:
            parts: list[tuple[RowWindow, int, int]] = []
            need = self.batch_size
            while need:
                if window is None or taken == window.rows:
                    window = next(windows, None)
                    if window is None:
                        break
                    taken = min(resumed_at, window.rows) if window.resumed else 0
                part = min(need, window.rows - taken)
                if part:
                    parts.append((window, taken, taken + part))
                taken, need = taken + part, need - part
            if window is None:
                if parts and not self._drop_last:
                    yield parts, _start()
                return
            yield parts, {**window.position, "taken": taken}

    def _windows(self, position: dict[str, Any]) -> Iterator[RowWindow]:
        """The windows of the epoch from a position on, each parsed before it is needed."""
        self.skipped.forget()
        self.skipped.files.update(self._unopened)
        if position["faults"] is not None:
            self.skipped.load_state_dict(position["faults"])
        pools, context = self._pools, contextvars.copy_context()
        assert pools is not None

        def submit(pool: ThreadPoolExecutor) -> Callable[..., Future[Any]]:
            return lambda work, *args: pool.submit(context.copy().run, work, *args)

        parse, inflate = submit(pools[0]), submit(pools[1])
        seed = self._seed if self._shuffle else None
        order = LogOrder(self._files, seed, self.epoch, self.world, self._interleave, inflate, position["cursor"])
        ahead = _Ahead(order, parse, self._threads)
        number, resumed = position["window"], position["cursor"] is not None
        while True:
            before = {"cursor": ahead.cursor(), "window": number, "faults": self.skipped.state_dict()}
            rows: list[_core.LogRows] = []
            while sum(part.count for part in rows) < self._rows:
                try:
                    found = ahead.take()
                except UnreadableFileError as error:
                    self.skipped.add_file(error.name, str(error))
                    continue
                if found is None:
                    break
                block, future = found
                parsed = self._result(block, future)
                if parsed is not None and parsed.rows.count:
                    rows.append(parsed.rows)
            ahead.blocks = max(ahead.blocks, len(rows))
            if not rows:
                return
            yield RowWindow.of(rows, before, resumed, (seed, self.epoch, number))
            number, resumed = number + 1, False

    def _result(self, block: Block, future: Future[Parsed]) -> Parsed | None:
        """A parsed block, its bad rows told; None where its file cannot be read any more."""
        try:
            parsed = future.result()
        except DataError as error:
            self.skipped.add_file(str(block.file.path), str(error))
            return None
        tell(self.skipped, self.faults, block.file, parsed)
        return parsed


class _Ahead:
    """Blocks that are being parsed before they are needed, in their order."""

    def __init__(self, order: LogOrder, submit: Callable[..., Future[Any]], threads: int) -> None:
        self._order, self._submit = order, submit
        self.blocks = 2 * threads
        self._waiting: deque[tuple[dict[str, Any], Block | UnreadableFileError, Future[Parsed] | None]] = deque()

    def cursor(self) -> dict[str, Any]:
        """Where the next block is."""
        return self._waiting[0][0] if self._waiting else self._order.cursor()

    def take(self) -> tuple[Block, Future[Parsed]] | None:
        """The next block; None behind the last one."""
        self._fill()
        if not self._waiting:
            return None
        _, block, future = self._waiting.popleft()
        if isinstance(block, UnreadableFileError):
            raise block
        assert future is not None
        return block, future

    def _fill(self) -> None:
        while len(self._waiting) < self.blocks and (not self._waiting or self._order.ready):
            cursor = self._order.cursor()
            try:
                block = self._order.take()
            except UnreadableFileError as error:
                self._waiting.append((cursor, error, None))
                continue
            if block is None:
                return
            work = (block.file.parse, block.unit) if block.text is None else (block.file.parse_text, block.text)
            self._waiting.append((cursor, block, self._submit(*work)))


def expand(files: str | Path | Iterable[str | Path]) -> list[Path]:
    """Paths of `files`, patterns replaced by what they match, zips by their members, sorted.

    Raises DataError where a pattern matches nothing.
    """
    paths: list[Path] = []
    for name in [files] if isinstance(files, str | Path) else files:
        archive, inside = split_zip(Path(name))
        found = [members(path, inside) if in_zip(path) else _matching(path / inside) for path in _matching(archive)]
        if not any(found):
            raise DataError(f"log reader: no file matches {name}")
        paths += [path for each in found for path in each]
    if not paths:
        raise DataError("log reader: there are no files to read")
    return paths


def _matching(path: Path) -> list[Path]:
    if not is_pattern(path):
        return [path]
    root = Path(path.anchor) if path.is_absolute() else Path()
    return sorted(p for p in root.glob(str(path.relative_to(root))) if p.is_file())


def _start() -> dict[str, Any]:
    return {"cursor": None, "window": 0, "taken": 0, "faults": None}
