"""Reading is bounded from outside: an item that hangs, fills memory or kills its reader costs nobody else a thing."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from framework.errors import AttributeValueError
from suites.engine.serving.client import Client, ServerError
from suites.engine.serving.readers import Readers, most_readers
from suites.engine.serving.reading import Bounds
from suites.engine.serving.service import Settings
from tests.suites.engine.serving import hostile, toy
from tests.suites.engine.serving.test_hostile import connected
from tests.suites.engine.serving.web.test_server import ask, problem
from tests.waiting import until

ROOT = Path(__file__).parents[4]
MAIN = """
import sys, tests.suites.engine.serving.toy
from tools import serve
sys.exit(serve.main(sys.argv[1:]))
"""
SPIN = hostile.post("/v1/scores", b'{"input": "SPIN"}')


def only(batches):
    (batch,) = batches
    return batch


@pytest.fixture(scope="module")
def bounded(model):
    with toy.running(model, Settings(name="words", read_seconds=1.5)) as found:
        yield found


def test_an_item_that_holds_pythons_lock_for_ever_gets_504_and_health_answers_meanwhile(bounded):
    with ThreadPoolExecutor(1) as pool:
        start = time.monotonic()
        hung = pool.submit(problem, bounded, "/v1/scores", {"input": "SPIN"})
        while not hung.done():
            begun = time.monotonic()
            assert ask(bounded, "/health")[0] == 200 and ask(bounded, "/metrics")[0] == 200
            assert time.monotonic() - begun < 5
        assert time.monotonic() - start < 30
    status, message = hung.result()
    assert status == 504 and "took longer than 1.5 s and was ended (--read-seconds)" in message
    assert ask(bounded, "/v1/scores", {"input": "the next"})[0] == 200
    assert "paddock_reader_ends_total" in ask(bounded, "/metrics")[2].decode()
    assert any("a reader is replaced: reading" in line for line in bounded.said)


def test_items_beside_one_that_hangs_are_answered(bounded):
    with ThreadPoolExecutor(8) as pool:
        hung = pool.submit(problem, bounded, "/v1/scores", {"input": "SPIN"})
        others = [pool.submit(ask, bounded, "/v1/scores", {"input": f"word {i}"}) for i in range(7)]
        assert {other.result()[0] for other in others} == {200} and hung.result()[0] == 504


def test_an_item_that_fills_the_memory_gets_413_and_its_reader_lives_on(bounded):
    before = len(bounded.said)
    status, message = problem(bounded, "/v1/scores", {"input": "FILL"})
    assert status == 413 and "more memory than the 1024 MB allowed" in message
    assert bounded.said[before:] == [] and ask(bounded, "/v1/scores", {"input": "a"})[0] == 200


def test_an_item_that_kills_its_reader_gets_500_and_the_next_is_answered(bounded):
    status, message = problem(bounded, "/v1/scores", {"input": "DIE"})
    assert status == 500 and "ended its process (signal 11)" in message
    assert ask(bounded, "/v1/scores", {"input": "a"})[0] == 200 and ask(bounded, "/health")[0] == 200


def test_readers_that_all_hang_are_503_or_504_and_come_back(bounded):
    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda _: problem(bounded, "/v1/scores", {"input": "SPIN"})[0], range(12)))
    assert set(found) <= {503, 504}
    with Client(bounded.url) as client:
        assert len(client.score(["a"])) == 1


def test_good_requests_are_answered_while_more_items_hang_than_there_are_readers(model):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(toy.running(model, Settings(name="words", read_seconds=30), drain=0.2))
        for number in range(4):  # one by one, so that they share no batch
            stack.enter_context(connected(server, 1, SPIN)[0])
            until(lambda n=number: server.service.workers.busy() == n + 1)
        assert [ask(server, "/v1/scores", {"input": f"word {i}"})[0] for i in range(10)] == [200] * 10
        assert server.said == [] and 4 < len(server.service.readers._all) <= most_readers(2)


def test_an_exchange_that_breaks_off_leaves_no_reader_out_of_step():
    said = []
    readers = Readers(toy.WordsProcessor(), 1, Bounds(20, 1 << 20, 1 << 30), said.append)
    try:
        for wrong in (lambda *given: only(readers.batches(*given)), readers.items):
            with pytest.raises(Exception, match="pickle"):
                wrong([lambda: None], 20)
            parcels = readers.items(["a b"], 20).items
            assert len(only(readers.batches(parcels, 20))["ids"]) == 2
        assert len(said) == 2 and readers._places == len(readers._all) == 1
    finally:
        readers.close()


def test_spare_readers_end_once_none_was_wanted_for_long(monkeypatch, held):
    monkeypatch.setattr("suites.engine.serving.readers._KEPT_SECONDS", 0.0)
    readers = Readers(toy.WordsProcessor(), 1, Bounds(20, 1 << 20, 1 << 30), print)
    try:
        with ThreadPoolExecutor(2) as pool:
            parcels = readers.items([held.text, "a"], 20).items
            slow = pool.submit(lambda: only(readers.batches(parcels[:1], 20)))
            until(lambda: not readers._idle)
            assert len(only(readers.batches(parcels[1:], 20))["ids"]) == 1
            held.release()
            assert len(slow.result()["ids"]) == 2
        assert readers._places == len(readers._all) == 1
        assert len(only(readers.batches(parcels[1:], 20))["ids"]) == 1
    finally:
        readers.close()


def reader_processes(server_pid):
    """Processes of the group that are still there, but for zombies."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[2]) == server_pid and words[0] != "Z":
            found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize(("number", "to_all"), [(signal.SIGTERM, True), (signal.SIGINT, False)])
def test_a_signal_ends_a_server_whose_reader_hangs_and_nothing_is_left(tmp_path, number, to_all):
    words = [str(toy.export(tmp_path / "words")), "--port", "0", "--read-seconds", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with process:
        url = process.stdout.readline().split()[3]
        with Client(url, retries=0) as client:

            def spin():
                with pytest.raises(ServerError, match="took longer"):
                    client.score(["SPIN"])

            hung = threading.Thread(target=spin)
            hung.start()
            time.sleep(0.5)
            (os.killpg if to_all else os.kill)(process.pid, number)
            assert process.wait(30) == (130 if number == signal.SIGINT else 0)
            hung.join(30)
    end = time.monotonic() + 10
    while (left := reader_processes(process.pid)) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == []


def test_a_server_that_is_killed_leaves_no_reader_that_spins(tmp_path):
    words = [str(toy.export(tmp_path / "words")), "--port", "0", "--read-seconds", "3"]
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with process:
        url = process.stdout.readline().split()[3]

        def spin():
            with Client(url, retries=0, timeout=20) as client, pytest.raises(ServerError):
                client.score(["SPIN"])

        thread = threading.Thread(target=spin)
        thread.start()
        time.sleep(0.7)
        process.kill()
        thread.join(30)
    end = time.monotonic() + 10
    while (left := reader_processes(process.pid)) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == []


def test_a_processor_that_cannot_travel_reads_in_the_servers_process_and_the_log_says_so(model):
    class Local(toy.WordsProcessor):
        pass

    local = type(model)(Local(), model.inputs, model.predict, model.replica, model.types)
    with toy.running(local) as server:
        assert ask(server, "/v1/scores", {"input": "a"})[0] == 200
        assert "Local cannot travel" in server.said[0] and "without a bound of seconds" in server.said[0]


def test_no_readers_are_a_choice(model):
    with toy.running(model, Settings(name="words", readers=0)) as server:
        assert json.loads(ask(server, "/v1/scores", {"input": "a"})[2])["data"][0]["index"] == 0
        assert server.said == []
    with pytest.raises(AttributeValueError, match="readers is -1"):
        Settings(readers=-1)


def test_what_is_quick_to_read_is_read_in_the_servers_process_and_shares_batches_with_what_is_not(model):
    quick = type(model)(toy.ShortWordsProcessor(), model.inputs, model.predict, model.replica, model.types)
    with toy.running(quick) as server:
        assert ask(server, "/v1/scores", {"input": ["a", "b"]})[0] == 200 and server.said == []
        assert ask(server, "/v1/scores", {"input": ["a"] * 100})[0] == 200
        assert problem(server, "/v1/scores", {"input": ["a", 7]})[0] == 400
        readers = server.service.readers
        assert readers._all == set()
        read = [*readers.items(["word " * 10], 20).items, ["a"]]
        assert len(only(readers.batches(read, 20))["ids"]) == 11


def test_readers_are_started_when_they_are_wanted():
    readers = Readers(toy.WordsProcessor(), 2, Bounds(20, 1 << 20, 1 << 30), print)
    assert readers._all == set() and readers.trouble() is None
    readers.close()


class FilesProcessor(toy.WordsProcessor):
    """Looks at files where it is not to hold up connections; keeps which threads did."""

    files_in_json = True

    def __init__(self):
        self.threads = set()

    def is_quick(self, value, length):
        self.threads.add(threading.current_thread().name)
        return True


def test_files_are_never_looked_at_where_connections_are_served(model):
    files = FilesProcessor()
    served = type(model)(files, model.inputs, model.predict, model.replica, model.types)
    with toy.running(served) as server:
        files.threads.clear()
        assert ask(server, "/v1/scores", {"input": "a"})[0] == 200
        assert ask(server, "/v1/scores", {"input": ["a"] * 50})[0] == 200
        assert server.service.readers._all == set()
    assert files.threads and all(name.startswith("paddock-quick-reading") for name in files.threads)
