"""`paddock train --hosts N`: its options, and the parent of the process that trains on this host.

A host that is lost ends the processes of the others from outside of Python, so that only a parent can tell. The child
is `suites.engine.hosts.process`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from types import FrameType

from framework import hosts, limits, programs
from framework.data.world import World
from framework.errors import AttributeValueError, ConfigError, HostError
from framework.system.signals import ENDING
from suites.engine.hosts.liveness import Listener

LOST = 1  # exit status where a host was lost
_LOOK, _LAST_WORDS = 1.0, 10.0  # seconds between two looks whether the process hangs, and for its last output


@dataclass(frozen=True)
class HostOptions:
    """Which of how many hosts this is; all None where nothing was said.

    Args:
        hosts: how many there are, or "auto".
        host: the number of this one, from 0.
        coordinator: ADDRESS:PORT of host 0.
    """

    hosts: str | None = None
    host: int | None = None
    coordinator: str | None = None

    @property
    def place(self) -> World | None:
        """The place that was given; None for "auto".

        Raises ConfigError for options that do not go together.
        """
        if self.hosts == "auto":
            if self.host is not None or self.coordinator is not None:
                raise ConfigError("--hosts auto finds out by itself which host this is: no --host, no --coordinator")
            return None
        if self.hosts is None or not self.hosts.isdecimal() or int(self.hosts) < 1:
            raise ConfigError(f"--hosts is {self.hosts}; it takes a number of hosts, or auto")
        if self.host is None or self.coordinator is None:
            raise ConfigError(
                f"--hosts {self.hosts} needs --host, the number of this one from 0, and --coordinator ADDRESS:PORT, "
                "where host 0 can be reached"
            )
        try:
            return World(self.host, int(self.hosts))
        except AttributeValueError:
            raise ConfigError(
                f"--host is {self.host}; of {self.hosts} hosts it is from 0 to {int(self.hosts) - 1}"
            ) from None


def add_host_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--hosts``, ``--host`` and ``--coordinator``."""
    parser.add_argument(
        "--hosts",
        metavar="N",
        help="N hosts train together, each started with this command; 'auto' asks Slurm, Open MPI or Kubernetes",
    )
    parser.add_argument("--host", type=int, metavar="I", help="the number of this host, from 0; host 0 keeps the run")
    parser.add_argument("--coordinator", metavar="ADDRESS:PORT", help="of host 0, where all hosts meet")


def options_of(words: Sequence[str]) -> tuple[HostOptions, list[str]]:
    """The options of hosts in a command line, and the rest of it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_host_options(parser)
    found, rest = parser.parse_known_args(list(words))
    return HostOptions(found.hosts, found.host, found.coordinator), rest


def supervise(words: Sequence[str]) -> int:
    """Run `paddock train` with this command line in a process of its own; say how it ended, return its exit status.

    Raises ConfigError for options that do not go together.
    """
    place = options_of(words)[0].place
    me = f"host {place.rank} of {place.size}" if place else "this host"
    normal, now = asdict(limits.Limits()), asdict(limits.current())
    raised = [f"--limit={name}={now[name]}" for name in now if now[name] != normal[name]]
    gone, held = os.pipe()  # the other end closes where this process ends, however it does
    heard, told = os.pipe()
    # In a group of its own: a terminal's Ctrl-C reaches this process alone.
    child = programs.start(
        programs.PYTHON,
        programs.module("suites.engine.hosts.process"),
        typed=[str(gone), str(told), *raised, *words],
        env=programs.module_paths(),
        pass_fds=[gone, told],
        process_group=0,
    )
    os.close(gone)
    os.close(told)
    listener = Listener(heard)
    with _handing_on(child):
        status = _waited_for(child, listener)
    os.close(held)
    if status is None:
        print(
            f"error: {me}: it made no step for {listener.seconds:g} s (runtime.hosts_timeout): it hangs, or waits for "
            f"a host that does; above is where it stood; {HostError.GO_ON}",
            file=sys.stderr,
        )
        return LOST
    if status < 0 and signal.Signals(-status) not in (signal.SIGABRT, *ENDING):
        name = signal.Signals(-status).name
        print(f"error: {me}: its process was killed by {name} (out of memory?); {HostError.GO_ON}", file=sys.stderr)
        return LOST
    if status in (-signal.SIGABRT, 128 + signal.SIGABRT, LOST):
        print(
            f"error: {me}: another host is lost: it ended, or was silent for {hosts.HEARTBEAT} s; its own output says "
            f"more; {HostError.GO_ON}",
            file=sys.stderr,
        )
        return LOST
    return status if status >= 0 else 128 - status


def _waited_for(child: programs.Process, listener: Listener) -> int | None:
    """The exit status; None where the process was silent for longer than it said, and was ended."""
    while True:
        with contextlib.suppress(programs.TimeoutExpired):
            return child.wait(timeout=_LOOK)
        if listener.overdue:
            break
    child.send_signal(signal.SIGABRT)  # upon which it says where its threads are
    with contextlib.suppress(programs.TimeoutExpired):
        child.wait(timeout=_LAST_WORDS)
    child.kill()
    child.wait()
    return None


@contextlib.contextmanager
def _handing_on(child: programs.Process) -> Iterator[None]:
    """Inside, a signal that would end this process goes to the child, which saves and ends."""

    def hand_on(number: int, frame: FrameType | None) -> None:
        child.send_signal(number)

    before = {number: signal.signal(number, hand_on) for number in ENDING if _is_heeded(number)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_heeded(number: int) -> bool:
    return signal.getsignal(number) is not signal.SIG_IGN  # as under nohup
