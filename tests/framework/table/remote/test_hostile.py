"""Messages of strangers: refused with a clear error, bounded, and no later checkpoint suffers from them."""

import threading

import numpy as np
import pytest

from framework.errors import NumericsError, StateError
from framework.table.remote.server import Server
from framework.table.remote.wire import Header, Kind, receive_frames
from tests.framework.table.remote import fuzz
from tests.framework.table.remote.helpers import DIM, new_shard

zmq = pytest.importorskip("zmq", reason="the extra cluster is not installed")


@pytest.mark.parametrize("name", ["worker", "incarnation", "sequence", "count", "dense"])
def test_a_number_that_no_file_could_hold_is_refused(name):
    data = Header(Kind.HELLO, **{name: 1 << 63}).packed()
    with pytest.raises(StateError, match=f"{name} is 9223372036854775808; it is 9223372036854775807 at most"):
        Header.unpacked(data)
    assert getattr(Header.unpacked(Header(Kind.HELLO, **{name: (1 << 63) - 1}).packed()), name) == (1 << 63) - 1


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(tmp_path, value):
    with pytest.raises(StateError, match="the learning rate is"):
        Header.unpacked(Header(Kind.PUSH, lr=value).packed())
    shard = new_shard(tmp_path / "shard")
    numbers = np.zeros(shard.dense_count, np.float32)
    numbers[0] = value
    with pytest.raises(NumericsError, match="not finite; nothing is changed"):
        shard.start(numbers)
    assert shard.dense is None
    shard.close()


def test_a_message_of_very_many_frames_is_refused_and_the_next_is_answered(tmp_path):
    server = Server(new_shard(tmp_path / "shard"))
    thread = threading.Thread(target=server.run)
    thread.start()
    context = zmq.Context()
    with context.socket(zmq.DEALER) as asking:
        asking.connect(server.address)
        head = Header(Kind.STATS, 1, server.shard.model, dim=DIM).packed()
        asking.send_multipart([head] + [b""] * 100_000)
        assert asking.poll(20_000)
        assert Header.unpacked(asking.recv_multipart()[0]).kind == Kind.ERROR
        asking.send_multipart([head])
        assert asking.poll(20_000)
        assert Header.unpacked(asking.recv_multipart()[0]).kind == Kind.OK
    server.stop()
    thread.join()
    context.destroy(linger=0)


def test_of_a_message_of_many_frames_few_are_kept():
    context = zmq.Context()
    one, other = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
    one.bind("inproc://frames")
    other.connect("inproc://frames")
    other.send_multipart([b"a"] * 5)
    assert len(receive_frames(one, 0)) == 5
    other.send_multipart([b"a"] * 50_000)
    assert len(receive_frames(one, 0)) == 17
    one.close()
    other.close()
    context.term()


def test_two_thousand_damaged_messages_find_nothing(tmp_path):
    assert fuzz.findings(tmp_path / "shard", seed=0, count=2000) == []
