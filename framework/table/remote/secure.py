"""Who may talk to a shard or to the head of a job, and that nobody reads along: CurveZMQ with one key of the job.

All processes of a job read the same file: a key pair that servers and clients use alike. A server takes no client with
another key, and what is sent is encrypted (https://rfc.zeromq.org/spec/26/). Whoever can read the file is of the job.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.confined import open_inside
from framework.errors import CheckpointError, NotSupportedError
from framework.outside import read_json
from framework.table.remote.optional import zmq

_LETTERS = 40  # of a key in Z85


@dataclass(frozen=True)
class Key:
    """The key pair of a job, in Z85."""

    public: bytes
    secret: bytes


def make_key(path: Path) -> None:
    """Write a new key, which only its owner may read; a whole one that is there stays."""
    with contextlib.suppress(CheckpointError):
        read_key(path)
        return
    public, secret = zmq().curve_keypair()
    with os.fdopen(open_inside(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as file:
        os.fchmod(file.fileno(), 0o600)  # before the secret is in it
        file.write(json.dumps({"public": public.decode(), "secret": secret.decode()}) + "\n")


def read_key(path: str | Path | None) -> Key | None:
    """The key of a file; None for no file. Raises CheckpointError where it holds none."""
    if path is None:
        return None
    if not zmq().has("curve"):
        raise NotSupportedError("cluster: this pyzmq was built without CURVE, which encrypts; install its wheel")
    try:
        told = read_json(path)
        found = Key(told["public"].encode(), told["secret"].encode())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: holds no key of a job ({error}); start the run again to make one") from None
    if len(found.public) != _LETTERS or len(found.secret) != _LETTERS:
        raise CheckpointError(f"{path}: its keys have other lengths than {_LETTERS} letters; start the run again")
    return found


class Guard:
    """Lets clients with the job's key talk to a server's sockets, and no others.

    Args:
        context: ZeroMQ's, of the server.
        key: of the job; None lets everybody in.
    """

    def __init__(self, context: Any, key: Key | None) -> None:
        self._key = key
        self._doorman: Any = None
        if key is None:
            return
        from zmq.auth.thread import ThreadAuthenticator

        self._doorman = ThreadAuthenticator(context)
        self._doorman.start()
        self._doorman.configure_curve_callback("*", self)

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether a client's key, in Z85, is the job's; called by ZeroMQ."""
        return self._key is not None and hmac.compare_digest(key, self._key.public)

    def protect(self, socket: Any) -> None:
        """Ask for the key on a socket that is not bound yet."""
        if self._key is not None:
            socket.curve_server = True
            socket.curve_publickey, socket.curve_secretkey = self._key.public, self._key.secret

    def close(self) -> None:
        """End its thread; before the context ends."""
        if self._doorman is not None:
            self._doorman.stop()


def introduce(socket: Any, key: Key | None) -> None:
    """Give a client's socket the job's key, before it connects."""
    if key is not None:
        socket.curve_serverkey = socket.curve_publickey = key.public
        socket.curve_secretkey = key.secret
