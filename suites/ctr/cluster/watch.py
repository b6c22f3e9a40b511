"""Watch: processes that are to run, started again when they die, up to a limit; looked at in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from framework.errors import PaddockError, WorkerError
from suites.ctr.cluster.places import Kind, Places, Running

_EVERY = 0.1  # seconds between two looks
_SPAN = 600.0  # seconds in which restarts are counted
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 20.0
_SHORT = 10.0  # seconds; one that lived no longer is started again after a longer pause each time


@dataclass
class _Slot:
    kind: Kind
    name: str
    spec: Callable[[str], str]
    generation: int = 0
    running: Running | None = None
    died: list[float] = field(default_factory=list)
    pause_until: float = 0.0
    started: float = 0.0
    short_lives: int = 0
    wanted: bool = True

    @property
    def full_name(self) -> str:
        """Of the process, which its successor does not have."""
        return f"{self.name}.{self.generation}"


class Watch:
    """Keeps processes running.

    Args:
        places: where they are started.
        say: tells a line.
        lost: called with a process's full name when it is gone.
        most_restarts: of one within ten minutes.
    """

    def __init__(
        self, places: Places, say: Callable[[str], None], lost: Callable[[str], None], most_restarts: int
    ) -> None:
        self._places, self._say, self._lost, self._most = places, say, lost, most_restarts
        self._slots: dict[str, _Slot] = {}
        self._lock = threading.RLock()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, failed: Callable[[PaddockError], None]) -> None:
        """Look again and again; `failed` is called with the error that ends it."""

        def run() -> None:
            while not self._ending.wait(_EVERY):
                try:
                    self.look()
                except PaddockError as error:
                    failed(error)
                    return

        self._thread = threading.Thread(target=run, name="paddock-watch", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()

    def add(self, kind: Kind, name: str, spec: Callable[[str], str]) -> None:
        """Start a process, whose specification is made of its full name, and keep it running."""
        with self._lock:
            slot = self._slots[name] = _Slot(kind, name, spec)
            self._start(slot)

    def look(self) -> None:
        """Start again what has died; raises WorkerError where that happens too often."""
        with self._lock:
            for slot in self._slots.values():
                self._look_at(slot)

    def _look_at(self, slot: _Slot) -> None:
        now = time.monotonic()
        if slot.running is None:
            if slot.wanted and now >= slot.pause_until:
                self._start(slot)
            return
        status = slot.running.status()
        if status is None:
            return
        about, slot.running = slot.running.about(), None
        self._lost(slot.full_name)
        if status == 0:
            slot.wanted = False
            return
        slot.died = [*(t for t in slot.died if now - t < _SPAN), now]
        if len(slot.died) > self._most:
            raise WorkerError(
                f"cluster: {slot.name} died {len(slot.died)} times within {_SPAN / 60:.0f} minutes; the last "
                "time it "
                f"was {about}"
            )
        slot.short_lives = slot.short_lives + 1 if now - slot.started < _SHORT else 0
        pause = min(_FIRST_PAUSE * 2.0**slot.short_lives, _LONGEST_PAUSE)
        slot.pause_until, slot.generation = now + pause, slot.generation + 1
        self._say(f"{slot.full_name} takes the place of its predecessor, which died (status {status})")

    def retire(self, name: str) -> None:
        """Start a process no more, and end it at once."""
        with self._lock:
            slot = self._slots.pop(name)
            if slot.running is not None:
                slot.running.kill()
                self._lost(slot.full_name)

    def kill(self, full_name: str) -> None:
        """End a process; its successor is started."""
        with self._lock:
            for slot in self._slots.values():
                if slot.full_name == full_name and slot.running is not None:
                    slot.running.kill()

    def names(self, kind: Kind) -> list[str]:
        """The names of one kind."""
        return [slot.name for slot in self._slots.values() if slot.kind == kind]

    def running(self, kind: Kind) -> int:
        """How many of one kind are there now."""
        return sum(slot.running is not None for slot in self._slots.values() if slot.kind == kind)

    def _start(self, slot: _Slot) -> None:
        slot.started = time.monotonic()
        slot.running = self._places.start(slot.kind, slot.full_name, slot.spec(slot.full_name))
