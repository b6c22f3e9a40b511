"""Chats as prompts: a model's own template of Jinja2, rendered where it can do nothing else.

A template comes from outside. It runs in Jinja2's immutable sandbox, in a process of its own under limits of seconds,
memory and characters; see `chats_child`.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from framework import programs
from framework.errors import DataError
from suites.nlp.writing.chats_child import HEAD

SECONDS = 5.0  # for a prompt, the first one's start of the process among them
_PIECE = 1 << 16


class ChatTemplate:
    """How messages become a prompt.

    Args:
        template: of Jinja2, as a checkpoint's tokenizer_config.json has it.
        around: the texts of special tokens by the names that it gives them, as `bos_token`.
        seconds: that a prompt may take.
    """

    def __init__(self, template: str, around: Mapping[str, str], *, seconds: float = SECONDS) -> None:
        self._template, self._around, self._seconds = template, dict(around), seconds
        self._lock = threading.Lock()
        self._process: programs.Process | None = None
        atexit.register(self.close)

    def prompt(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The prompt that an answer follows.  messages: each with `role` and `content`.

        Raises DataError where the template refuses them, imports, or takes more seconds, memory or characters than it
        may.
        """
        values = {**self._around, "messages": [dict(each) for each in messages], "add_generation_prompt": True}
        question = json.dumps({"template": self._template, "values": values}).encode()
        with self._lock:
            try:
                answer = json.loads(self._asked(question, time.monotonic() + self._seconds))
            except TimeoutError:
                self._end()
                raise DataError(f"messages: the chat template took more than {self._seconds:g} seconds") from None
            except (OSError, EOFError):
                self._end()
                raise DataError("messages: the chat template takes more memory than it may") from None
        if "error" in answer:
            raise DataError(f"messages: the chat template says: {answer['error']}")
        return str(answer["text"])

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _asked(self, question: bytes, deadline: float) -> bytes:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = programs.start(
                programs.PYTHON,
                programs.module("suites.nlp.writing.chats_child"),
                stdin=programs.PIPE,
                stdout=programs.PIPE,
                stderr=programs.DEVNULL,
                env=programs.module_paths(),
                start_new_session=True,
            )
        into, out = self._process.stdin, self._process.stdout
        assert into is not None and out is not None
        _move(into.fileno(), deadline, write=len(question).to_bytes(HEAD, "big") + question)
        return _move(out.fileno(), deadline, read=int.from_bytes(_move(out.fileno(), deadline, read=HEAD), "big"))

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _move(fd: int, deadline: float, *, read: int = 0, write: bytes = b"") -> bytes:
    """Write all, or read so many bytes; TimeoutError at the deadline, EOFError where the other end is gone."""
    os.set_blocking(fd, False)
    found, at = b"", 0
    with selectors.DefaultSelector() as ready:
        ready.register(fd, selectors.EVENT_WRITE if write else selectors.EVENT_READ)
        while at < len(write) or len(found) < read:
            if not ready.select(max(0.0, deadline - time.monotonic())):
                raise TimeoutError
            if write:
                at += os.write(fd, write[at : at + _PIECE])
            elif piece := os.read(fd, read - len(found)):
                found += piece
            else:
                raise EOFError
    return found
