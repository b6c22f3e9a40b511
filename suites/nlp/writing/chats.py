"""Chats as prompts: a model's own template of Jinja2, rendered where it can do nothing else.

A template comes from outside. It runs in Jinja2's immutable sandbox, in a process of its own under limits of seconds,
memory and characters; see `chats_child`.
"""

from __future__ import annotations

import atexit
import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from framework import programs
from framework.children import Child
from framework.errors import DataError
from suites.nlp.writing.chats_child import HEAD

SECONDS = 5.0  # for a prompt, the first one's start of the process among them


class ChatTemplate:
    """How messages become a prompt.

    Args:
        template: of Jinja2, as a checkpoint's tokenizer_config.json has it.
        around: the texts of special tokens by the names that it gives them, as `bos_token`.
        seconds: that a prompt may take.
    """

    def __init__(self, template: str, around: Mapping[str, str], *, seconds: float = SECONDS) -> None:
        self._template, self._around, self._seconds = template, dict(around), seconds
        self._lock, self._child = threading.Lock(), Child(_start)
        atexit.register(self.close)

    def prompt(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The prompt that an answer follows.  messages: each with `role` and `content`.

        Raises DataError where the template refuses them, imports, or takes more seconds, memory or characters than it
        may.
        """
        none = {"tools": None, "documents": None}  # transformers defines them, so templates compare them with none
        more = {"messages": [dict(each) for each in messages], "add_generation_prompt": True}
        values = {**self._around, **none, **more}
        question = json.dumps({"template": self._template, "values": values}).encode()
        with self._lock:
            try:
                answer = json.loads(self._asked(question, time.monotonic() + self._seconds))
            except TimeoutError:
                self._child.end()
                raise DataError(f"messages: the chat template took more than {self._seconds:g} seconds") from None
            except (OSError, EOFError):
                self._child.end()
                raise DataError("messages: the chat template takes more memory than it may") from None
        if "error" in answer:
            raise DataError(f"messages: the chat template says: {answer['error']}")
        return str(answer["text"])

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._child.end()

    def _asked(self, question: bytes, deadline: float) -> bytearray:
        self._child.write(len(question).to_bytes(HEAD, "big") + question, deadline)
        return self._child.read(int.from_bytes(self._child.read(HEAD, deadline), "big"), deadline)


def _start() -> programs.Process:
    return programs.start_child(programs.PYTHON, programs.module("suites.nlp.writing.chats_child"))
