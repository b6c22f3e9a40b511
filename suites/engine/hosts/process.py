"""The process that trains on one of several hosts: `python -m suites.engine.hosts.process PIPE PIPE ...`.

Started by `suites.engine.hosts.supervising` with the parent's command line and the numbers of two pipes: the first ends
with the parent, the second tells it that training goes on.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Sequence

from framework import hosts
from suites.engine import cli
from suites.engine.cli import train
from suites.engine.command_line import INTERRUPTED, run
from suites.engine.config.building import read_config
from suites.engine.hosts.liveness import tell_on
from suites.engine.hosts.supervising import HostOptions, options_of


def _end_with_parent(gone: int) -> None:
    """Have this process told to end, once, where its parent has ended: then the pipe does."""

    def watch() -> None:
        os.read(gone, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="parent").start()


def main(words: Sequence[str]) -> int:
    """Train as one of the hosts, in the child; `words` begin with the numbers of the parent's pipes."""
    gone, told, *rest = words
    _end_with_parent(int(gone))
    tell_on(int(told))
    faulthandler.enable()  # by SIGABRT, in a process that hangs
    options, rest = options_of(rest)
    return join_first(options, rest) or cli.main(["train", *rest])


def join_first(options: HostOptions, words: list[str]) -> int:
    """Meet the other hosts; return the exit status where that failed, else 0."""
    given = train.parsed([word for word in words if not word.startswith("--limit")])

    def start() -> int:
        config = read_config(given.config, given.overrides)
        hosts.join(options.place, options.coordinator, devices=config.part("runtime").devices)
        return 0

    return run(start, given.imports)


def _leave(status: int) -> None:
    """End this process. After a failure at once: others wait in a step, and JAX would wait for them first."""
    sys.stdout.flush()
    sys.stderr.flush()
    if status in (0, INTERRUPTED):
        sys.exit(status)
    os._exit(status)


if __name__ == "__main__":
    try:
        ended = main(sys.argv[1:])
    except SystemExit as e:
        ended = e.code if isinstance(e.code, int) else 2
    except BaseException:
        sys.excepthook(*sys.exc_info())
        ended = 2
    _leave(ended)
