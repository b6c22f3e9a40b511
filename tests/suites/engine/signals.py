"""Signals as a test needs them, whatever the tests were started with; nohup ignores SIGHUP."""

import contextlib
import signal


@contextlib.contextmanager
def handled(number, handler):
    """Inside, a signal has this handler."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)
