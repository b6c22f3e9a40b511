"""A process that is asked: it answers, is given up at the deadline, and starts anew after its death."""

import time

import pytest

from framework import programs
from framework.children import Child

ECHO = "import sys\nwhile data := sys.stdin.buffer.read(4): sys.stdout.buffer.write(data); sys.stdout.buffer.flush()"


def child(code):
    return Child(lambda: programs.start(programs.PYTHON, ("-c", code), stdin=programs.PIPE, stdout=programs.PIPE))


def soon():
    return time.monotonic() + 60


def test_it_answers_again_and_again_and_starts_anew_after_its_end():
    asked = child(ECHO)
    for word in (b"abcd", b"efgh"):
        asked.write(word, soon())
        assert asked.read(4, soon()) == word
    asked.end()
    asked.end()
    asked.write(b"ijkl", soon())
    assert asked.read(4, soon()) == b"ijkl"
    asked.end()


def test_much_is_handed_over_in_pieces():
    asked = child("import sys; data = sys.stdin.buffer.read(3_000_000); sys.stdout.buffer.write(data[-2:])")
    asked.write(b"x" * 2_999_999 + b"y", soon())
    assert asked.read(2, soon()) == b"xy"
    asked.end()


def test_the_deadline_and_a_death_are_told_apart():
    asked = child("import sys, time; sys.stdin.buffer.read(1); time.sleep(60)")
    asked.write(b"a", soon())
    with pytest.raises(TimeoutError):
        asked.read(1, time.monotonic() + 0.2)
    asked.end()
    asked = child("import sys; sys.stdin.buffer.read(1)")
    asked.write(b"a", soon())
    with pytest.raises(EOFError):
        asked.read(1, soon())
    asked.end()
