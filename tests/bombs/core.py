"""What makes bombs and what reads them: files and requests that are small and cost much.

`python -m tests.bombs FOLDER` writes the files; `python -m tests.bombs --read KIND` reads all of a kind under limits of
memory and time, and says what each did.
"""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

SECONDS, BYTES = 10, 768 << 20  # of CPU time and memory, for one bomb
_WAITING = 12  # times as much wall time, so that a busy machine fails nothing and a reader that waits is still stopped
Make = Callable[[], dict[str, bytes | int]]  # files by name, or how many zeros they are; a reader gets the first
BOMBS: dict[str, dict[str, Make]] = {}
READERS: dict[str, Callable[[Path], object]] = {}


def bomb(kind: str, name: str) -> Callable[[Make], Make]:
    """Keeps what makes a bomb."""

    def keep(make: Make) -> Make:
        BOMBS[kind][name] = make
        return make

    return keep


def reader(kind: str) -> Callable[[Callable[[Path], object]], Callable[[Path], object]]:
    """Keeps what reads a kind of bombs as its users would."""

    def keep(function: Callable[[Path], object]) -> Callable[[Path], object]:
        READERS[kind] = function
        BOMBS[kind] = {}
        return function

    return keep


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Inside, a signal kills the process after so many seconds of CPU time of all its threads, whatever it does."""
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(_WAITING * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)


def write(make: Make, folder: Path) -> Path:
    """Write a bomb's files; returns the first."""
    folder.mkdir(parents=True, exist_ok=True)
    files = make()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(data, int):
            with (folder / name).open("wb") as file:
                file.truncate(data)  # which takes no room on the disk
        else:
            (folder / name).write_bytes(data)
    return folder / next(iter(files))


def read_all(kind: str) -> None:
    """One line of JSON for each bomb: its name, what was raised, the message."""
    from framework.errors import PaddockError

    with tempfile.TemporaryDirectory() as folder:
        paths = {name: write(make, Path(folder) / str(i)) for i, (name, make) in enumerate(BOMBS[kind].items())}
        resource.setrlimit(resource.RLIMIT_DATA, (BYTES + data_now(), BYTES + data_now()))
        for name, path in paths.items():
            start, found = time.monotonic(), "read"
            print(json.dumps(["begin", name, ""]), flush=True)
            try:
                with within(SECONDS):
                    READERS[kind](path)
            except PaddockError as error:
                found = f"refused: {error}"
            except BaseException as error:
                found = f"{type(error).__name__}: {error}"
            print(json.dumps(["end", name, found[:400], round(time.monotonic() - start, 2)]), flush=True)


def data_now() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData"))
