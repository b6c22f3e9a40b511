"""Versions of a model: where they lie, which answers, and how a newer one takes its place without a lost request."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from framework.errors import CheckpointError, DeviceMemoryError, PaddockError
from suites.engine.contract.feeding import Newest
from suites.engine.predict.model import Model
from suites.engine.serving.generation.engine import Engine
from suites.engine.serving.memory import give_back
from suites.engine.serving.service import Service

MODEL_FILES = ("program.json", "seal.json", "config.yml", "model.onnx")
_LONGEST_NUMBER = 18  # digits of a version


class Found(NamedTuple):
    """A version that lies somewhere.

    Attributes:
        label: its name.
        path: of its folder or file, or a published name.
    """

    label: str
    path: Path


@dataclass
class Source:
    """Where versions of a model come from.

    Args:
        path: an export, a run, an ONNX file, or a published name; or a folder of versions: folders named by numbers,
            of which the highest is the newest.
        open: opens one of them.
        label: begins the versions' names, where several sources share a model's requests.
    """

    path: Path
    open: Callable[[Path], Model]
    label: str = ""
    _opened: int = field(default=0, init=False)

    @classmethod
    def of_model(cls, model: Model) -> Source:
        """Of a model that is open already, and has no folder."""
        return cls(Path(os.devnull), lambda path: model)

    @property
    def has_versions(self) -> bool:
        """Whether it is a folder of versions."""
        return bool(self._numbers())

    def newest(self) -> Found:
        """The newest version; of a path that is no folder of versions, the same again under a new name."""
        if numbers := self._numbers():
            number = max(numbers)
            return Found(self._named(str(number)), numbers[number])
        self._opened += 1
        if self.label and self._opened == 1:
            return Found(self.label, self.path)
        return Found(self._named(str(self._opened)), self.path)

    def _numbers(self) -> dict[int, Path]:
        return {} if is_model(self.path) else _versions_in(self.path)

    def _named(self, number: str) -> str:
        return f"{self.label}.{number}" if self.label else number


def is_model(path: Path) -> bool:
    """Whether a path is an export, a run or an ONNX file."""
    return path.is_file() or any((path / name).is_file() for name in MODEL_FILES)


def _versions_in(folder: Path) -> dict[int, Path]:
    if not folder.is_dir():
        return {}
    found = {}
    for entry in os.scandir(folder):
        if entry.name.isascii() and entry.name.isdigit() and len(entry.name) <= _LONGEST_NUMBER:
            path = Path(entry.path)
            if is_model(path):
                found[int(entry.name)] = path
    return found


def _marks(path: Path) -> list[tuple[str, int, int]]:
    """What changes while files are copied to a place, and when they are replaced."""
    files = [path] if path.is_file() else sorted(path.iterdir())
    told = [(file.name, file.stat()) for file in files]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in told]


class Version:
    """An opened model that answers, until a newer one took its place and its last request is answered.

    Attributes:
        model: the model's name.
        label: the version's.
        service: what answers.
        engine: what writes texts; None for a model that writes none.
    """

    def __init__(self, model: str, label: str, service: Service, engine: Engine | None = None) -> None:
        self.model, self.label, self.service, self.engine = model, label, service, engine
        self._changed = threading.Condition()
        self._held = 0
        self._retired = False

    @property
    def name(self) -> str:
        """Of both."""
        return f"{self.model}@{self.label}"

    def start(self) -> None:
        """Start what works for it."""
        self.service.start()
        if self.engine is not None:
            self.engine.start()

    def hold(self) -> bool:
        """Keep it for a request; False where it was retired before."""
        with self._changed:
            if not self._retired:
                self._held += 1
            return not self._retired

    def drop(self) -> None:
        """A request is answered."""
        with self._changed:
            self._held -= 1
            self._changed.notify_all()

    def retire(self) -> None:
        """Take no further requests, and wait for those that it was held for."""
        with self._changed:
            self._retired = True
            self._changed.wait_for(lambda: self._held == 0)

    def close(self, timeout: float) -> bool:
        """Finish what was taken, for at most `timeout` seconds; return whether all of it was."""
        finished = self.service.close(timeout)
        return finished if self.engine is None else self.engine.close(timeout) and finished

    def trouble(self) -> str | None:
        """Why it is not alive; None if it is."""
        return self.service.trouble() or (self.engine.trouble() if self.engine is not None else None)


class Slot:
    """A source, and the version of it that answers.

    Args:
        source: where versions come from.
        model: the model's name.
        opening: opens a version that was found, runs it once, and starts it if told to.
        closing: gets a version that nobody asks any more.
        told: gets what belongs in a log.
        every: seconds between two looks for a newer version.
    """

    def __init__(
        self,
        source: Source,
        model: str,
        opening: Callable[[Source, str, Found], Version],
        closing: Callable[[Version], None],
        told: Callable[[str], None],
        every: float = 1.0,
    ) -> None:
        self.source, self.model = source, model
        self._opening, self._closing, self._told = opening, closing, told
        self._seen: object = None
        self._refused: object = None
        self._before: Version | None = None
        self.refusals = 0
        self._newest = Newest(opening(source, model, source.newest()), self._newer, self._say, every)

    @property
    def now(self) -> Version:
        """The version that answers."""
        return self._newest.now

    @property
    def swaps(self) -> int:
        """How often a newer version took its place."""
        return self._newest.taken_up

    def hold(self) -> Version:
        """The version that answers, kept for a request."""
        while not (version := self.now).hold():  # a newer one has just taken its place
            pass
        return version

    def look(self) -> None:
        """Take up a newer version, if one lies there whole; one that is refused is looked at again when it changes."""
        if self.source.has_versions:
            self._newest.look()

    def load(self) -> None:
        """Open the newest version anew and take it up; its PaddockError leaves in place what answers."""
        self._newest.take_up(lambda now: self._opened(self.source.newest(), now))

    def _newer(self, now: Version) -> Version | None:
        found = self.source.newest()
        if found.label == now.label:
            return None
        try:
            marks = (found, _marks(found.path))
        except OSError:  # it is being replaced
            return None
        if marks == self._refused or marks != self._seen:  # files may still come: it has to lie still for one look
            self._seen = marks
            return None
        try:
            return self._opened(found, now)
        except PaddockError:
            self._refused = marks
            raise

    def _opened(self, found: Found, now: Version) -> Version:
        try:
            made = self._opening(self.source, self.model, found)
        except PaddockError:
            raise
        except (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, MemoryError) as error:
            kind = DeviceMemoryError if isinstance(error, MemoryError) else CheckpointError
            raise kind(f"{found.path}: cannot be opened ({type(error).__name__}: {error})") from error
        try:
            _expect_same_form(now.service, made.service, found.path)
        except BaseException:
            self._closing(made)
            raise
        made.start()
        self._before = now
        return made

    def _say(self, now: Version, error: PaddockError | None) -> None:
        if error is not None:
            self.refusals += 1
            self._told(f"{now.name} stays: {error}")
            return
        self._told(f"{now.name} answers")
        if self._before is not None:
            box, self._before = [self._before], None
            threading.Thread(target=self._retire, args=(box,), name="serving-retire", daemon=True).start()

    def _retire(self, box: list[Version]) -> None:
        version = box.pop()  # nothing else refers to it
        version.retire()
        self._closing(version)
        del version
        give_back()


def _expect_same_form(now: Service, newer: Service, path: Path) -> None:
    """Raise CheckpointError where a newer version takes or gives other things than the one that answers."""
    for what, before, after in (
        ("items", type(now.processor).__name__, type(newer.processor).__name__),
        ("inputs", _kinds(now.input_types()), _kinds(newer.input_types())),
        ("outputs", _kinds(now.output_types()), _kinds(newer.output_types())),
        ("poolings", list(now.poolings), list(newer.poolings)),
    ):
        if before != after:
            raise CheckpointError(
                f"{path}: its {what} are {after}, and those of the version that answers {before}; serve it under "
                "another name"
            )


def _kinds(types: dict[str, tuple[str, tuple[int, ...]]]) -> dict[str, str]:
    """Element type and number of axes by name, in words."""
    return {name: f"{dtype} of {len(shape)} axes" for name, (dtype, shape) in sorted(types.items())}
