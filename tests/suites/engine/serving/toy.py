"""A ragged bag of words as a model to serve: words to token vectors, and what a server of it looks like in a test."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from framework import Tensor, onnx, ops, program
from framework.errors import DataError
from framework.graph.files import save_program
from framework.graph.ir import Program
from framework.graph.passes import INFERENCE_PASSES
from framework.tensors import from_numpy
from suites.engine.contract.batch import Batch
from suites.engine.contract.processor import ServedProcessor
from suites.engine.predict.inference import Model, open_model
from suites.engine.registry import register
from suites.engine.serving.models import Offer, Share, Writes
from suites.engine.serving.pooling import pool
from suites.engine.serving.service import Settings
from suites.engine.serving.versions import Source
from suites.engine.serving.web.server import Place, Server

WORDS, WIDTH, LONGEST = 64, 8, 512
TABLE = np.random.default_rng(0).normal(size=(WORDS, WIDTH)).astype(np.float32)


EXTRA = {"suite": "toy_words", "outputs": ["tokens"], "processor": {}}


class WordsProcessor(ServedProcessor):
    """An item is the list of its word ids. Some words make trouble: POISON, EXIT, SLEEP, HOLD."""

    poolings = ("mean", "cls", "max")

    def metadata(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_metadata(cls, metadata: dict[str, Any]) -> WordsProcessor:
        return cls()

    def read(self, path: Path) -> Any:
        return self.from_json(path.read_text())

    def from_json(self, value: Any) -> Any:
        texts = value if isinstance(value, list) else [value]
        if not all(isinstance(text, str) for text in texts):
            raise DataError(f"takes a text or a pair of texts, got {value!r}")
        words = " | ".join(texts).split()
        if not words:
            raise DataError("the text is empty")
        return words

    def example(self) -> Any:
        return "an example"

    def cost(self, item: Any) -> int:
        return min(len(item), LONGEST)

    def truncated(self, item: Any) -> bool:
        return len(item) > LONGEST

    def prepare(self, items: Sequence[Any]) -> Batch:
        for words in items:
            if "POISON" in words:
                raise DataError("a poisoned text")
            if "PATH" in words:
                raise DataError(f"{__file__}:7: '/home/exporter/net.py' (/a/b.c, d/e) http://host/page 1/2")
            if "BUG" in words:
                raise KeyError("a bug")
            if "SPIN" in words:
                re.match(r"(?:\s+|#[^\n]*\n)+x", " " * 60)  # holds Python's lock for longer than anybody lives
            if "FILL" in words:
                np.ones(1 << 34, np.uint8)
            if "DIE" in words:
                os.kill(os.getpid(), signal.SIGSEGV)
            if "SLEEP" in words:
                time.sleep(float(words[words.index("SLEEP") + 1]))
            if "HOLD" in words:
                wait_for_end(Path(words[words.index("HOLD") + 1]))
        ids = [np.array([zlib.crc32(word.encode()) % WORDS for word in words[:LONGEST]]) for words in items]
        ends = any("EXIT" in words for words in items)
        return {"ids": np.concatenate(ids), "offsets": np.cumsum([0, *map(len, ids)]), "ends": ends}

    def results(self, outputs: Mapping[str, np.ndarray], batch: Batch) -> list[Any]:
        if batch["ends"]:
            raise SystemExit("a worker's end")
        means = pool(outputs["tokens"], batch["offsets"], "mean")
        return [{"label": int(row.argmax()), "score": float(row.max())} for row in means]

    def embeddings(self, outputs: Mapping[str, np.ndarray], batch: Batch, pooling: str) -> np.ndarray:
        return pool(outputs["tokens"], batch["offsets"], pooling)

    def draw(self, item: Any, result: Any) -> str:
        return f"{' '.join(item)}: {result['label']}"


class ShortWordsProcessor(WordsProcessor):
    """Says that short texts are quick to read."""

    def is_quick(self, value: Any, length: int) -> bool:
        return length <= 48


@register("task", "toy_words")
class WordsTask:
    """What `open_model` reads of a task."""

    eval_inputs = ("ids",)
    processor_class = WordsProcessor


def export(folder: Path, scale: float = 1.0) -> Path:
    """Write the model as `paddock export` does; with `scale` its vectors are so many times as long."""
    save_program(network(scale, INFERENCE_PASSES), folder, extra=EXTRA)
    return folder


def export_onnx(file: Path, extra: dict[str, Any] | None = None, scale: float = 1.0) -> Path:
    """Write the model as `paddock export --format onnx` does, or with other properties than its own."""
    file.parent.mkdir(parents=True, exist_ok=True)
    metadata = EXTRA if extra is None else extra
    onnx.export(network(scale, onnx.EXPORT_PASSES), file, output_names=["tokens"], metadata=metadata)
    return file


def network(scale: float, passes: Sequence[str]) -> Program:
    """Word ids to token vectors."""
    table = from_numpy(TABLE * np.float32(scale))
    table.persistable, table.name = True, "table"
    ids = from_numpy(np.zeros(2, np.int64))
    ids.name = "ids"
    compiled = program(lambda inputs: {"tokens": lookup(table, inputs["ids"])}, pass_names=passes)
    found: Program = compiled.program_for({"ids": ids}).program
    return found


def offer(name: str, *models: Model | Path, shares: Sequence[float] = (1.0,)) -> Offer:
    """Models or folders under a name, with labels a, b, ... where they are several."""
    labels = "abcdef" if len(models) > 1 else [""]
    found = []
    for model, share, label in zip(models, shares, labels, strict=False):
        source = Source(model, open_model, label) if isinstance(model, Path) else Source.of_model(model)
        source.label = label
        found.append(Share(source, share))
    return Offer(name, tuple(found))


def lookup(table: Tensor, ids: Tensor) -> Tensor:
    return ops.embedding(table, ids)


def model(folder: Path, scale: float = 1.0) -> Model:
    return open_model(export(folder, scale))


def vector(text: str, pooling: str = "mean") -> np.ndarray:
    """What the server should say of a text."""
    batch = WordsProcessor().prepare([WordsProcessor().from_json(text)])
    return pool(TABLE[batch["ids"]], batch["offsets"], pooling)[0]


class Hold:
    """A word pair `HOLD FILE` for a request that takes until `release`, however slow the machine is.

    SLEEP is for what must take at least so long; what must outlast another step of a test is held.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "held"
        self._file.touch()
        self.text = f"HOLD {self._file}"

    def begun(self) -> bool:
        """Whether a reader has come to it."""
        return self._file.with_suffix(".begun").exists()

    def release(self) -> None:
        self._file.unlink(missing_ok=True)


def wait_for_end(held: Path) -> None:
    """Wait until the file of a `Hold` is gone; 60 s at most, so that a test that failed ends."""
    held.with_suffix(".begun").touch()
    end = time.monotonic() + 60
    while held.exists() and time.monotonic() < end:
        time.sleep(0.005)


@contextlib.contextmanager
def running(
    models: Model | Sequence[Offer],
    settings: Settings = Settings(name="words"),  # noqa: B008
    *,
    writes: Writes | None = None,
    memory: int | None = None,
    every: float = 1.0,
    **place: Any,
) -> Iterator[Server]:
    """A server in a thread; `server.said` holds its log, `server.status` its exit status afterwards.

    Reading has a minute unless the settings say otherwise: what a test holds outlasts a busy machine.
    """
    said: list[str] = []
    if settings.read_seconds == Settings.read_seconds:
        settings = replace(settings, read_seconds=60.0)
    where = Place(**{"port": 0, **place})
    server = Server(models, settings, where, say=said.append, writes=writes, memory=memory, every=every)
    server.said = said  # type: ignore[attr-defined]

    def run() -> None:
        server.status = server.run()  # type: ignore[attr-defined]

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(20)
        assert not thread.is_alive()
