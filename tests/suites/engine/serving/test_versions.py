"""Newer versions take a model's place while it is served: none is lost, none is mixed, and a bad one never answers."""

import collections
import json
import os
import re
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from framework import _core
from framework.errors import CheckpointError, DataError
from suites.engine.serving.memory import OutOfBudget
from suites.engine.serving.models import Models, Taken
from suites.engine.serving.service import Settings
from suites.engine.serving.versions import Source
from tests.suites.engine.serving import toy
from tests.suites.engine.serving.web.test_server import ask, problem
from tests.waiting import until

TOKEN = {"Authorization": "Bearer secret"}
LOAD = "/v2/repository/models/words/load"


def put(folder, number, scale):
    """A whole version, moved into place."""
    made = toy.export(folder.with_name(f"{folder.name}_{number}"), scale)
    folder.mkdir(exist_ok=True)
    os.rename(made, folder / str(number))


@pytest.fixture
def folder(tmp_path):
    put(tmp_path / "words", 1, 1.0)
    return tmp_path / "words"


def score(server, **more):
    status, headers, data = ask(server, "/v1/scores", {"input": ["a b"], **more})
    assert status == 200, data
    return headers["Paddock-Version"], json.loads(data)["data"][0]["result"]["score"] / toy.vector("a b").max()


def test_the_newest_version_answers_and_a_newer_one_is_taken_up_and_given_up_again(folder):
    with toy.running([toy.offer("words", folder)], every=0.02) as server:
        assert score(server) == ("words@1", pytest.approx(1))
        put(folder, 10, 3.0)
        until(lambda: score(server) == ("words@10", pytest.approx(3)))
        put(folder, 2, 2.0)  # is older: by number, not by letter
        time.sleep(0.3)
        assert score(server) == ("words@10", pytest.approx(3))
        shutil.rmtree(folder / "10")
        until(lambda: score(server) == ("words@2", pytest.approx(2)))
        figures = ask(server, "/metrics")[2].decode()
    assert 'paddock_swaps_total{model="words",model_version="2"} 2.0' in figures
    assert [line for line in server.said if "answers" in line] == ["words@10 answers", "words@2 answers"]


def wide(folder):
    """An export of the same model whose word ids have another type."""
    found = toy.export(folder)
    text = (found / "program.json").read_text()
    (found / "program.json").write_text(text.replace('"int64"', '"int32"', 1))
    return found


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda path: (path / "weights.safetensors").write_bytes(b"cut"), "weights.safetensors"),
        (lambda path: (path / "program.json").write_text("{"), "program.json"),
        (lambda path: shutil.rmtree(path) or wide(path), "ids is int64[2]; the model takes int32[2]"),
    ],
)
def test_a_version_that_is_damaged_or_takes_other_inputs_leaves_the_other_in_place(folder, harm, message):
    with toy.running([toy.offer("words", folder)], every=0.02, token="secret") as server:
        put(folder.with_name("aside"), 2, 2.0)
        harm(folder.with_name("aside") / "2")
        os.rename(folder.with_name("aside") / "2", folder / "2")
        until(lambda: any("words@1 stays" in line and message in line for line in server.said))
        status, error = problem(server, LOAD, {}, headers=TOKEN)
        assert status == 400 and message in error and str(folder) not in error
        time.sleep(0.2)
        assert len([line for line in server.said if "stays" in line]) == 2  # by the look, and by the request
        assert ask(server, "/v1/scores", {"input": "a"}, headers=TOKEN)[1]["Paddock-Version"] == "words@1"
        shutil.rmtree(folder / "2")
        put(folder, 2, 2.0)  # mended
        until(lambda: any(line == "words@2 answers" for line in server.said))


def test_a_version_that_is_still_being_copied_is_left_alone(folder):
    whole = toy.export(folder.with_name("whole"))
    with toy.running([toy.offer("words", folder)], every=0.05) as server:
        (folder / "2").mkdir()
        shutil.copy(whole / "program.json", folder / "2")
        data = (whole / "weights.safetensors").read_bytes()
        with (folder / "2" / "weights.safetensors").open("wb", buffering=0) as file:
            for start in range(0, len(data), len(data) // 20):
                file.write(data[start : start + len(data) // 20])
                time.sleep(0.01)
        until(lambda: score(server)[0] == "words@2")
    assert not [line for line in server.said if "stays" in line]


def test_a_plain_folder_is_opened_anew_when_asked_with_the_token(tmp_path):
    folder = toy.export(tmp_path / "mine")
    with toy.running([toy.offer("words", folder)], token="secret") as server:
        assert problem(server, LOAD, {})[0] == 401
        os.rename(folder, tmp_path / "old")
        os.rename(toy.export(tmp_path / "new", 2.0), folder)
        assert ask(server, LOAD, {}, headers=TOKEN)[0] == 200
        _, headers, data = ask(server, "/v1/scores", {"input": ["a b"]}, headers=TOKEN)
        assert headers["Paddock-Version"] == "words@2"
        assert json.loads(data)["data"][0]["result"]["score"] == pytest.approx(2 * toy.vector("a b").max())
        assert problem(server, LOAD.replace("words", "other"), {}, headers=TOKEN)[0] == 404
        wrong = {"parameters": {"file:1/model.onnx": "..."}}
        assert "takes none" in problem(server, LOAD, wrong, headers=TOKEN)[1]
        assert problem(server, LOAD.replace("load", "unload"), {}, headers=TOKEN)[0] == 400
    with toy.running([toy.offer("words", folder)]) as server:
        status, error = problem(server, LOAD, {})
        assert status == 403 and "--token-file" in error


def test_a_version_for_which_there_is_no_memory_is_refused_and_the_other_stays(folder):
    found = Models([toy.offer("words", folder)], Settings(readers=0), memory=int(1.5 * toy.TABLE.nbytes))
    put(folder, 2, 2.0)
    with pytest.raises(OutOfBudget, match=r"words@2: needs .*\(words@1 .*raise --memory-mb"):
        found.load("words")
    assert found.take(Taken(), None).label == "1"


def test_requests_in_flight_during_20_swaps_are_all_answered_each_by_one_version(folder):
    """Version k multiplies by k: vectors of one answer tell which one made them, and the header has to say the same."""
    wrong, seen, done = [], collections.Counter(), threading.Event()
    texts = [f"word{i} and another {i % 7}" for i in range(12)]
    expected = np.stack([toy.vector(text) for text in texts])

    def work(server, number):
        while not done.is_set():
            status, headers, data = ask(server, "/v1/embeddings", {"input": texts[: 1 + number * 3]})
            if status != 200:
                wrong.append((status, data))
                continue
            found = np.array([row["embedding"] for row in json.loads(data)["data"]])
            version = int(headers["Paddock-Version"].partition("@")[2])
            seen[version] += 1
            if not np.allclose(found, version * expected[: len(found)], rtol=1e-5):
                wrong.append((version, found / expected[: len(found)]))

    with toy.running([toy.offer("words", folder)], Settings(readers=1), every=0.02) as server:
        workers = [threading.Thread(target=work, args=(server, number)) for number in range(4)]
        for thread in workers:
            thread.start()
        live, threads = [], []
        for number in range(2, 22):
            put(folder, number, float(number))
            until(lambda n=number: server.models.versions[0].label == str(n))
            until(lambda n=number: seen[n] > 0)
            until(lambda: len(server.models.budget._held) == 1)  # the old one is closed
            live.append(_core.memory_stats()["live"])
            threads.append(threading.active_count())
        done.set()
        for thread in workers:
            thread.join(20)
        until(lambda: len(server.models.budget._held) == 1)
        status = ask(server, "/health")[0]
    assert not wrong and status == 200
    assert set(range(2, 22)) <= set(seen)
    # A set of weights that stayed at each swap would be ten more after ten; answers in flight hold less than five.
    assert max(live[10:]) <= max(live[:10]) + 5 * toy.TABLE.nbytes
    assert max(threads[10:]) <= max(threads[:10]) + 4
    assert server.status == 0


def test_an_answer_that_takes_long_is_given_by_the_version_that_began_it(folder, held):
    with toy.running([toy.offer("words", folder)], every=0.02) as server:
        answers = []
        slow = threading.Thread(target=lambda: answers.append(ask(server, "/v1/scores", {"input": f"{held.text} a"})))
        slow.start()
        until(lambda: server.service.workers.busy() == 1)
        old = server.service
        put(folder, 2, 2.0)
        until(lambda: server.models.versions[0].label == "2")
        assert slow.is_alive() and not old.batcher.closed
        held.release()
        slow.join(20)
        until(lambda: old.batcher.closed)
    assert answers[0][0] == 200 and answers[0][1]["Paddock-Version"] == "words@1"


def test_a_source_names_its_versions(folder, tmp_path):
    assert Source(folder, open).newest().label == "1" and Source(folder, open, "old").newest().label == "old.1"
    plain = Source(toy.export(tmp_path / "plain"), open)
    assert [plain.newest().label for _ in range(2)] == ["1", "2"]
    named = Source(tmp_path / "plain", open, "old")
    assert [named.newest().label for _ in range(2)] == ["old", "old.2"]
    assert Source(Path("hf:somebody/some"), open).newest().path == Path("hf:somebody/some")
    (tmp_path / "empty").mkdir()
    assert not Source(tmp_path / "empty", open).has_versions


def test_a_version_that_gives_other_things_is_refused(folder):
    from suites.engine.predict.inference import open_model

    found = Models([toy.offer("words", folder)], Settings(readers=0))
    for other, message in (
        ({"processor": toy.ShortWordsProcessor()}, "its items are ShortWordsProcessor, and those of the version that"),
        ({"types": {"ids": ("int64", (2,)), "tokens": ("float32", (2, 8, 1))}}, "outputs are {'tokens': 'float32 of 3"),
    ):
        found.all[0].slots[0][0].source.open = lambda path, other=other: replace(open_model(path), **other)
        with pytest.raises(CheckpointError, match=re.escape(message)):
            found.load("words")
    assert found.take(Taken(), None).label == "1"


def test_what_an_opener_raises_is_one_error_that_names_the_version(folder):
    errors = iter([None, KeyError("weights"), DataError("no vocabulary")])

    def opener(path):
        error = next(errors)
        if error is not None:
            raise error
        from suites.engine.predict.inference import open_model

        return open_model(path)

    offer = toy.offer("words", folder)
    offer.shares[0].source.open = opener
    found = Models([offer], Settings(readers=0))
    with pytest.raises(CheckpointError, match=r"1: cannot be opened \(KeyError: 'weights'\)"):
        found.load("words")
    with pytest.raises(DataError, match="no vocabulary"):
        found.load("words")
    assert found.take(Taken(), None).label == "1"


def test_tritons_client_loads_a_newer_version_and_reads_the_index(folder):
    triton = pytest.importorskip("tritonclient.http", reason="the package tritonclient is not installed")
    with toy.running([toy.offer("words", folder)], every=60.0, token="secret") as server:
        client = triton.InferenceServerClient(server.url.removeprefix("http://"))
        put(folder, 2, 2.0)
        client.load_model("words", headers=TOKEN)
        assert client.get_model_repository_index(headers=TOKEN) == [
            {"name": "words", "version": "2", "state": "READY", "reason": ""}
        ]
        with pytest.raises(Exception, match="takes none"):
            client.load_model("words", headers=TOKEN, config="{}")
        client.close()
