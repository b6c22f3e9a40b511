"""Who may talk to a shard or to the head of a job, and that nobody reads along: one key of the job.

All processes of a job read the same file. Between machines it is a key pair that servers and clients use alike, and
what is sent is encrypted (CurveZMQ, https://rfc.zeromq.org/spec/26/). On one machine the key is a password that clients
show in the handshake (https://rfc.zeromq.org/spec/24/), and nothing is encrypted, which costs no time. A server hears
no client without the key: libzmq holds the frames of a message until its end, however many a stranger sends. Whoever
can read the file is of the job.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.confined import open_inside
from framework.errors import CheckpointError, NotSupportedError
from framework.outside import read_json
from framework.table.remote.optional import zmq

_LETTERS = 40  # of a key in Z85
_HANDSHAKE_MS = 10_000  # for a client to show the key: until then it can make a server hold one command
_NAME = b"job"  # of the user who shows the key as a password


@dataclass(frozen=True)
class Key:
    """The key pair of a job, in Z85.

    Args:
        public, secret: its halves.
        encrypts: whether what is sent is encrypted with it; else the secret is a password.
    """

    public: bytes
    secret: bytes
    encrypts: bool = True


def make_key(path: Path, encrypts: bool = True) -> None:
    """Write a new key, which only its owner may read; a whole one of this kind that is there stays."""
    with contextlib.suppress(CheckpointError):
        if (found := read_key(path)) is not None and found.encrypts == encrypts:
            return
    if encrypts:
        _expect_curve()
    public, secret = zmq().curve_keypair() if encrypts else [secrets.token_hex(_LETTERS // 2).encode()] * 2
    with os.fdopen(open_inside(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as file:
        os.fchmod(file.fileno(), 0o600)  # before the secret is in it
        told = {"public": public.decode(), "secret": secret.decode(), "encrypts": encrypts}
        file.write(json.dumps(told) + "\n")


def read_key(path: str | Path | None) -> Key | None:
    """The key of a file; None for no file. Raises CheckpointError where it holds none."""
    if path is None:
        return None
    try:
        told = read_json(path)
        found = Key(told["public"].encode(), told["secret"].encode(), told.get("encrypts", True) is not False)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: holds no key of a job ({error}); start the run again to make one") from None
    if len(found.public) != _LETTERS or len(found.secret) != _LETTERS:
        raise CheckpointError(f"{path}: its keys have other lengths than {_LETTERS} letters; start the run again")
    if found.encrypts:
        _expect_curve()
    return found


def _expect_curve() -> None:
    if not zmq().has("curve"):
        raise NotSupportedError("cluster: this pyzmq was built without CURVE, which encrypts; install its wheel")


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
        if key.encrypts:
            self._doorman.configure_curve_callback("*", self)
        else:
            self._doorman.configure_plain("*", {_NAME.decode(): key.secret.decode()})

    def callback(self, domain: str, key: bytes) -> bool:
        """Whether a client's key, in Z85, is the job's; called by ZeroMQ."""
        return self._key is not None and hmac.compare_digest(key, self._key.public)

    def protect(self, socket: Any) -> None:
        """Ask for the key on a socket that is not bound yet."""
        if self._key is None:
            return
        socket.handshake_ivl = _HANDSHAKE_MS
        if self._key.encrypts:
            socket.curve_server = True
            socket.curve_publickey, socket.curve_secretkey = self._key.public, self._key.secret
        else:
            socket.plain_server = True

    def close(self) -> None:
        """End its thread; before the context ends."""
        if self._doorman is not None:
            self._doorman.stop()


def introduce(socket: Any, key: Key | None) -> None:
    """Give a client's socket the job's key, before it connects."""
    if key is None:
        return
    if key.encrypts:
        socket.curve_serverkey = socket.curve_publickey = key.public
        socket.curve_secretkey = key.secret
    else:
        socket.plain_username, socket.plain_password = _NAME, key.secret
