"""Control: small messages between trainers and the head of a run, JSON over ZeroMQ; a question may be asked again."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from framework.errors import StateError
from framework.table.remote.optional import zmq
from framework.table.remote.secure import Guard, Key, introduce

_log = logging.getLogger(__name__)
_MOST_BYTES = 1 << 20
Answering = Callable[[dict[str, Any]], dict[str, Any]]


class ControlServer:
    """Answers questions in a thread of its own.

    Args:
        answer: from a question to its answer; it may come twice.
        host: to listen at.
        key: that clients must have; None for none.

    Attributes:
        address: where it listens.
    """

    def __init__(self, answer: Answering, host: str = "127.0.0.1", key: Key | None = None) -> None:
        z = zmq()
        self._answer = answer
        self._context = z.Context()
        self._guard = Guard(self._context, key)
        self._router = self._context.socket(z.ROUTER)
        self._guard.protect(self._router)
        self._router.setsockopt(z.MAXMSGSIZE, _MOST_BYTES)
        self._router.bind(f"tcp://{host}:*")
        self.address = str(self._router.getsockopt_string(z.LAST_ENDPOINT))
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="paddock-control", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        self._ending = True
        self._thread.join()
        self._router.close(0)
        self._guard.close()
        self._context.destroy(linger=0)

    def _run(self) -> None:
        while not self._ending:
            if not self._router.poll(200):
                continue
            sender, *frames = self._router.recv_multipart()
            try:
                number, question = json.loads(frames[-1])
                reply: dict[str, Any] = self._answer(question)
            except Exception as error:  # what came is no question of ours
                _log.warning("control: %s: %s", type(error).__name__, error)
                continue
            self._router.send_multipart([sender, json.dumps([number, reply]).encode()])


class ControlClient:
    """Asks the head; one thread at a time.

    Args:
        address: of the head.
        patience: seconds that an answer is waited for, all attempts together.
        key: of the job; None where the head asks for none.
    """

    def __init__(self, address: str, patience: float = 60.0, key: Key | None = None) -> None:
        self._address, self._patience, self._key = address, patience, key
        self._context = zmq().Context()
        self._socket: Any = None
        self._number = 0
        self._lock = threading.Lock()

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer; raises StateError where the head stays silent."""
        with self._lock:
            self._number += 1
            end, wait = time.monotonic() + self._patience, 1.0
            while time.monotonic() < end:
                reply = self._once(question, wait)
                if reply is not None:
                    return reply
                wait = min(2 * wait, 10.0)
            raise StateError(f"cluster: the head of the run at {self._address} does not answer; is it still there?")

    def close(self) -> None:
        """Drop the connection."""
        if self._socket is not None:
            self._socket.close(0)
        self._context.destroy(linger=0)

    def _once(self, question: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        z = zmq()
        if self._socket is None:
            self._socket = self._context.socket(z.DEALER)
            introduce(self._socket, self._key)
            self._socket.connect(self._address)
        self._socket.send(json.dumps([self._number, question]).encode())
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not self._socket.poll(int(left * 1000) + 1):
                break
            number, reply = json.loads(self._socket.recv())
            if number == self._number:
                found: dict[str, Any] = reply
                return found
        self._socket.close(0)
        self._socket = None
        return None
