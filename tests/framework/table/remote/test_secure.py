"""A job's key: clients without it are not heard, those with it are; the file is its owner's alone."""

import json

import pytest

from framework.errors import CheckpointError
from framework.table.remote.secure import Guard, introduce, make_key, read_key

zmq = pytest.importorskip("zmq")


@pytest.fixture
def key(tmp_path):
    make_key(tmp_path / "key.json")
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
    make_key(tmp_path / "other.json")
    assert asked(key, key) == b"question"
    assert asked(key, read_key(tmp_path / "other.json")) is None
    assert asked(key, None) is None
    assert asked(None, None) == b"question"


def test_a_client_that_knows_the_server_s_public_key_alone_is_not_heard(tmp_path, key):
    make_key(tmp_path / "other.json")
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
    make_key(path)
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
