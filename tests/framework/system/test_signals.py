"""signals, files, users, sockets: what is there is used, and what is missing left out."""

import os
import signal
import socket
import sys

import pytest

from framework.system import files, signals
from framework.system.sockets import unsent_bytes
from framework.system.users import other_owner


def test_signals_that_end_a_program_are_those_of_the_system():
    assert set(signals.ENDING) >= {signal.SIGINT, signal.SIGTERM}
    assert (signals.HANGUP in signals.ENDING) == hasattr(signal, "SIGHUP")


def test_a_link_is_not_followed_and_a_pipe_is_not_waited_for(tmp_path):
    (tmp_path / "f").write_bytes(b"a\r\nb")
    with os.fdopen(os.open(tmp_path / "f", os.O_RDONLY | files.READING), "rb") as file:
        assert file.read() == b"a\r\nb"
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        os.close(os.open(tmp_path / "pipe", os.O_RDONLY | files.READING))


def test_a_file_of_ones_own_has_no_other_owner(tmp_path):
    assert other_owner(tmp_path) == "" == other_owner(tmp_path / "missing")


@pytest.mark.skipif(sys.platform != "linux", reason="another system does not say it")
def test_bytes_that_nobody_took_are_counted():
    with (
        socket.create_server(("127.0.0.1", 0)) as door,
        socket.create_connection(door.getsockname()) as one,
        door.accept()[0] as other,
    ):
        assert unsent_bytes(one.fileno()) == 0
        one.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                one.send(bytes(1 << 20))
        assert unsent_bytes(one.fileno()) > 0
        assert other.recv(1)


def test_a_closed_connection_has_none():
    assert unsent_bytes(-1) == 0
