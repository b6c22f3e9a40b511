"""A job's key: clients without it are not heard, those with it are; the file is its owner's alone."""

import json
import socket

import pytest

from framework.errors import CheckpointError
from framework.table.remote.secure import Guard, introduce, make_key, read_key

zmq = pytest.importorskip("zmq")


@pytest.fixture(params=[True, False], ids=["encrypted", "plain"])
def key(request, tmp_path):
    make_key(tmp_path / "key.json", request.param)
    return read_key(tmp_path / "key.json")


def asked(key, mine):
    """What a server with `key` answers to a client with `mine`; None for silence."""
    context = zmq.Context()
    guard = Guard(context, key)
    router, dealer = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    try:
        guard.protect(router)
        router.bind("tcp://127.0.0.1:*")
        introduce(dealer, mine)
        dealer.connect(router.getsockopt_string(zmq.LAST_ENDPOINT))
        dealer.send(b"question")
        return router.recv_multipart()[-1] if router.poll(1500 if mine == key else 600) else None
    finally:
        router.close(0)
        dealer.close(0)
        guard.close()
        context.destroy(linger=0)


def test_the_job_s_key_opens_and_no_other_does(tmp_path, key):
    make_key(tmp_path / "other.json", key.encrypts)
    assert asked(key, key) == b"question"
    assert asked(key, read_key(tmp_path / "other.json")) is None
    assert asked(key, None) is None
    assert asked(None, None) == b"question"


def test_a_client_that_knows_the_server_s_public_key_alone_is_not_heard(tmp_path):
    for name in ("key.json", "other.json"):
        make_key(tmp_path / name)
    key = read_key(tmp_path / "key.json")
    other = read_key(tmp_path / "other.json")
    context = zmq.Context()
    guard = Guard(context, key)
    router, dealer = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    try:
        guard.protect(router)
        router.bind("tcp://127.0.0.1:*")
        dealer.curve_serverkey, dealer.curve_publickey, dealer.curve_secretkey = key.public, other.public, other.secret
        dealer.connect(router.getsockopt_string(zmq.LAST_ENDPOINT))
        dealer.send(b"question")
        assert not router.poll(600)
    finally:
        router.close(0)
        dealer.close(0)
        guard.close()
        context.destroy(linger=0)


def test_the_file_is_its_owner_s_and_a_key_that_is_there_stays(tmp_path, key):
    path = tmp_path / "key.json"
    assert path.stat().st_mode & 0o077 == 0
    make_key(path, key.encrypts)
    assert read_key(path) == key and key.secret.decode() not in repr(path)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", json.dumps({"public": "x", "secret": "y"}), json.dumps({"public": 1})]
)
def test_what_is_no_key_is_named(tmp_path, text):
    (tmp_path / "key.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"key\.json: "):
        read_key(tmp_path / "key.json")
    make_key(tmp_path / "key.json")
    assert read_key(tmp_path / "key.json")


def test_a_key_of_the_other_kind_is_made_anew_and_one_of_before_encrypts(tmp_path, key):
    path = tmp_path / "key.json"
    make_key(path, not key.encrypts)
    other = read_key(path)
    assert other.encrypts is not key.encrypts and other.secret != key.secret
    path.write_text(json.dumps({"public": "a" * 40, "secret": "b" * 40}))
    assert read_key(path).encrypts


def test_a_stranger_s_frames_without_an_end_are_never_held(key):
    """libzmq holds a message's frames until its last has come: who has no key gets no frame so far."""
    context = zmq.Context()
    guard = Guard(context, key)
    router = context.socket(zmq.ROUTER)
    try:
        guard.protect(router)
        router.bind("tcp://127.0.0.1:*")
        port = int(router.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])
        ready = b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER\x08Identity\0\0\0\0"
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\0" + b"NULL".ljust(20, b"\0") + bytes(32)
        with socket.create_connection(("127.0.0.1", port), timeout=20) as stranger:
            stranger.sendall(greeting + b"\x04" + bytes([len(ready)]) + ready)
            with pytest.raises(ConnectionError):
                for _ in range(1000):
                    stranger.sendall(b"\x01\0" * 100_000)
    finally:
        router.close(0)
        guard.close()
        context.destroy(linger=0)
