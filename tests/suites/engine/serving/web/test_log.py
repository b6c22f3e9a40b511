"""A log that nobody takes holds nobody up."""

import threading

from suites.engine.serving.web.log import Log


def test_lines_that_nobody_takes_are_dropped_and_counted_and_who_says_them_goes_on():
    taken, written = threading.Event(), []

    def write(text):
        assert taken.wait(20)
        written.append(text)

    log = Log(write)
    for number in range(3000):
        log(f"line {number}")
    taken.set()
    log.flush(20)
    assert written[0].startswith("line 0") and 1000 <= len(written) <= 1001
    assert any("lines were dropped" in line for line in written)


def test_a_log_that_cannot_be_written_is_done_without():
    def write(text):
        raise OSError("no space left")

    log = Log(write)
    log("a")
    log("b")
    log.flush(20)
    assert log._lines.unfinished_tasks == 0
