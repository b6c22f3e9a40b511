"""Signals that end a program, of those that the system has."""

from __future__ import annotations

import signal

HANGUP: int | None = getattr(signal, "SIGHUP", None)  # the terminal was closed; Windows has none
KILL: int = getattr(signal, "SIGKILL", signal.SIGTERM)  # what a process cannot refuse
ENDING: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM, *(() if HANGUP is None else (HANGUP,)))
