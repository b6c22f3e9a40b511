"""An exported model answers as the run does; rows published later are served without a pause, damaged ones never."""

import collections
import json
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from framework.errors import CheckpointError
from suites.ctr.serving import ServedRows, publish
from suites.ctr.serving.published import LIST
from suites.engine.predict.inference import evaluate_export, export_run, open_model, open_run
from suites.engine.predict.quantizing import Quantization
from suites.engine.slim.sensitivity import measured
from suites.engine.train.training import train
from tests.suites.ctr.helpers import schema
from tests.suites.ctr.test_task import MODELS, folder, run  # noqa: F401  (a fixture)

ROWS = [
    {"user": "u1", "item": "i3", "tags": "t1|t2", "liked": "i3|i5", "price": "3.5"},
    {"user": "nobody", "item": "", "tags": "", "liked": "", "price": ""},
    {"user": "u2", "item": "i4"},
]


def answers(model):
    return [[*prediction.value.values()] for prediction in model(ROWS)]


@pytest.mark.parametrize("name", ["DeepFM", "DIN", "LR"])
def test_an_export_answers_as_the_run_does(folder, name):  # noqa: F811
    model = {"type": name, **MODELS[name]}
    run(folder, f"model={json.dumps(model)}", "runtime.epochs=1")
    where = folder / "run"
    report = export_run(where, folder / "exported")
    assert report.largest_difference < 1e-6 and not report.fixed_shapes
    found, expected = answers(open_model(folder / "exported")), answers(open_model(where))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    figures = json.loads((where / "metrics.json").read_text())
    assert evaluate_export(where, folder / "exported")["auc"] == pytest.approx(figures["auc"], abs=1e-6)


def test_calibration_looks_at_the_rows_that_the_network_reads_and_not_at_their_signs(folder):  # noqa: F811
    run(folder, "runtime.epochs=1")
    how = Quantization("static", "mse", batches=2, smallest=0)
    report = export_run(folder / "run", folder / "exported", quantization=how)
    assert len(report.quantized.matched) > 1 and report.largest_difference < 0.02
    assert any(row.name.startswith("body.") for row in measured(folder / "run", how))


@pytest.fixture
def served(folder):  # noqa: F811
    """A run's table, its export, and what serves its rows, with a look at each call."""
    run(folder, "runtime.epochs=1")
    where = folder / "run"
    export_run(where, folder / "exported")
    table = open_run(where).model.table
    publish(table, schema(), folder / "exported")
    return table, folder / "exported", ServedRows(folder / "exported", schema(), every=0.0)


def signs_of(table, count=6):
    keys = np.arange(count, dtype=np.int64) + (1 << 52)
    table.update(keys, np.ones((count, table.dim), np.float32), lr=0.1)
    return keys[:, None]


def test_rows_that_change_are_served_at_the_next_look(served):
    table, export, rows = served
    keys = signs_of(table)
    assert not rows({"sparse": keys}).arrays["sparse"].any()  # not published yet
    for _ in range(3):
        name = publish(table, schema(), export)
        assert name.endswith(".delta")
        np.testing.assert_array_equal(rows({"sparse": keys}).arrays["sparse"][:, 0], table.lookup(keys[:, 0]).numpy())
        signs_of(table)
    table.forget(keys[:2, 0])
    publish(table, schema(), export)
    assert not rows({"sparse": keys[:2]}).arrays["sparse"].any()


def test_after_many_deltas_a_whole_snapshot_is_published_and_old_files_go(served):
    table, export, rows = served
    for _ in range(40):
        keys = signs_of(table)
        publish(table, schema(), export)
        rows({"sparse": keys})
    files = json.loads((export / "rows" / LIST).read_text())["files"]
    assert len(files) < 18 and files[0].endswith(".base")
    assert len(list((export / "rows").iterdir())) < 40
    np.testing.assert_array_equal(rows({"sparse": keys}).arrays["sparse"][:, 0], table.lookup(keys[:, 0]).numpy())


def test_all_signs_of_a_batch_see_one_version_while_rows_change(served):
    """Rows of one step hold equal numbers: a mixture of versions would show two."""
    table, export, _ = served
    rows = ServedRows(export, schema(), every=0.0)
    keys, asked, wrong, done = signs_of(table), [], [], threading.Event()

    def ask():
        while not done.is_set():
            found = rows({"sparse": keys[:3], "tags": keys[3:, 0]}).arrays
            moved = np.concatenate([found["sparse"][:, 0, 0], found["tags"][:, 0]]) - start
            asked.append(moved[0])
            if not np.allclose(moved, moved[0], atol=1e-6):
                wrong.append(moved)

    publish(table, schema(), export)
    start = table.lookup(keys[:, 0]).numpy()[:, 0]
    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        table.update(keys, np.ones((len(keys), 1, table.dim), np.float32), lr=0.1)
        publish(table, schema(), export)
    done.set()
    for thread in threads:
        thread.join()
    assert asked and not wrong


def test_damaged_rows_are_told_and_the_older_ones_stay(served, caplog):
    table, export, rows = served
    keys = signs_of(table)
    publish(table, schema(), export)
    expected = rows({"sparse": keys}).arrays["sparse"]
    signs_of(table)
    name = publish(table, schema(), export)
    whole = (export / "rows" / name).read_bytes()
    (export / "rows" / name).write_bytes(whole[:-10])
    np.testing.assert_array_equal(rows({"sparse": keys}).arrays["sparse"], expected)
    assert "stays" in caplog.text and "cut" in caplog.text
    (export / "rows" / name).write_bytes(whole)  # copied again
    np.testing.assert_array_equal(rows({"sparse": keys}).arrays["sparse"][:, 0], table.lookup(keys[:, 0]).numpy())


def test_rows_that_are_cut_in_their_place_cost_errors_and_no_server_until_they_are_put_there_again(served):
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from suites.engine.serving.client import Client
    from suites.engine.serving.service import Settings
    from tests.suites.engine.serving import toy
    from tests.suites.engine.serving.web.test_server import ask

    _, export, _ = served
    model = open_model(export)
    model.feed.newest.every = model.feed.newest.due = 0.0
    path = export / "rows" / json.loads((export / "rows" / LIST).read_text())["files"][0]
    with toy.running(model, Settings(name="clicks")) as server, Client(server.url, retries=0) as client:
        expected, whole = client.score(ROWS), path.read_bytes()
        os.truncate(path, 4096)
        for _ in range(3):
            status, _, problem = ask(server, "/v1/scores", {"input": ROWS})
            assert status == 500 and b"was cut" in problem and str(export).encode() not in problem, problem
        assert ask(server, "/health")[0] == 200
        path.with_suffix(".part").write_bytes(whole)
        path.with_suffix(".part").replace(path)
        assert client.score(ROWS) == expected


def test_rows_for_another_network_are_refused_and_those_served_stay(served, caplog):
    table, export, rows = served
    keys = signs_of(table)
    publish(table, schema(), export, network="DeepFM")
    expected = rows({"sparse": keys}).arrays["sparse"]
    with pytest.raises(CheckpointError, match="its rows are for DeepFM, not for FM; publish into an export of its own"):
        publish(table, schema(), export, network="FM")
    told = json.loads((export / "rows" / LIST).read_text())
    assert told["network"] == "DeepFM"
    (export / "rows" / LIST).write_text(json.dumps(told | {"network": "FM", "files": ["x.base"]}))
    np.testing.assert_array_equal(rows({"sparse": keys}).arrays["sparse"], expected)
    assert "stays" in caplog.text and "for FM, not for DeepFM" in caplog.text


def test_rows_of_another_model_are_refused_and_those_served_stay(served, caplog):
    table, export, rows = served
    keys = signs_of(table)
    publish(table, schema(), export)
    expected = rows({"sparse": keys}).arrays["sparse"]
    other = schema(labels={"bought": {}})
    with pytest.raises(CheckpointError, match="rows of a model with other features or labels"):
        publish(table, other, export)
    told = json.loads((export / "rows" / LIST).read_text())
    (export / "rows" / LIST).write_text(json.dumps(told | {"model": "another", "files": ["x.base"]}))
    np.testing.assert_array_equal(rows({"sparse": keys}).arrays["sparse"], expected)
    assert "stays" in caplog.text and "other features or labels" in caplog.text


@pytest.mark.parametrize("text", ["", "[]", '{"files": []}', '{"files": ["../../etc/passwd"]}', '{"files": [3]}'])
def test_a_list_that_names_no_rows_is_refused(served, text):
    _, export, _ = served
    (export / "rows" / LIST).write_text(text)
    with pytest.raises(CheckpointError, match="names no files of rows"):
        open_model(export)
    (export / "rows" / LIST).unlink()
    with pytest.raises(CheckpointError, match=r"rows\.json: cannot be read"):
        open_model(export)


def test_a_run_publishes_what_it_learns_while_it_trains(folder):  # noqa: F811
    run(folder, "runtime.epochs=1")
    export_run(folder / "run", folder / "exported")
    before = answers(open_model(folder / "exported"))
    to = f"publish={json.dumps({'to': str(folder / 'exported'), 'every': 0.01})}"
    train(folder / "config.yml", [to], runs=folder, name="second")
    files = json.loads((folder / "exported" / "rows" / LIST).read_text())["files"]
    assert files[0].endswith(".base") and any(name.endswith(".delta") for name in files)
    assert answers(open_model(folder / "exported")) != before
    with pytest.raises(CheckpointError, match="holds no exported model"):
        train(folder / "config.yml", [to.replace("exported", "nowhere")], runs=folder, name="third")


def test_a_publication_holds_the_network_that_its_rows_were_trained_with(folder):  # noqa: F811
    run(folder, "runtime.epochs=1")
    export_run(folder / "run", folder / "exported")
    served = open_model(folder / "exported")
    before = answers(served)
    to = {"to": str(folder / "exported"), "every": 0.01}
    train(folder / "config.yml", [f"publish={json.dumps(to)}"], runs=folder, name="second")
    last = open_model(folder / "second", folder / "second" / "weights" / "last.safetensors")
    expected = answers(last)
    assert not np.allclose(before, expected, atol=1e-4)
    np.testing.assert_allclose(answers(open_model(folder / "exported")), expected, atol=1e-6)
    served.feed.newest.due = 0.0  # a second later
    np.testing.assert_allclose(answers(served), expected, atol=1e-6)
    assert len(list((folder / "exported" / "rows").glob("*.dense"))) <= 2
    rows_only = f"publish={json.dumps(to | {'dense': False})}"
    train(folder / "config.yml", [rows_only, "runtime.seed=5"], runs=folder, name="rows")
    found = answers(open_model(folder / "exported"))
    assert not np.allclose(found, expected, atol=1e-6)  # other rows under the network of before
    export_run(folder / "run", folder / "exported")
    np.testing.assert_allclose(answers(open_model(folder / "exported")), before, atol=1e-6)


def test_publishing_changes_no_bit_of_a_run(folder):  # noqa: F811
    run(folder, "runtime.epochs=1")
    export_run(folder / "run", folder / "exported")
    to = f"publish={json.dumps({'to': str(folder / 'exported'), 'every': 0.001})}"
    train(folder / "config.yml", ["runtime.epochs=1", to], runs=folder, name="published")
    models = [open_run(folder / which).model for which in ("run", "published")]
    for (name, own), (_, other) in zip(*(model.named_parameters() for model in models), strict=True):
        np.testing.assert_array_equal(own.numpy(), other.numpy(), err_msg=name)
    keys = np.arange(100, dtype=np.int64) + (1 << 52)
    np.testing.assert_array_equal(*(model.table.lookup(keys).numpy() for model in models))


def test_a_delta_that_failed_behind_others_is_taken_up_once_it_is_whole(served, caplog):
    table, export, _ = served
    rows = ServedRows(export, schema(), every=0.0)
    keys = signs_of(table)
    publish(table, schema(), export)
    before = rows({"sparse": keys})
    for _ in range(2):
        signs_of(table)
        name = publish(table, schema(), export)
    whole = (export / "rows" / name).read_bytes()
    (export / "rows" / name).write_bytes(whole[:-10])
    found = rows({"sparse": keys})  # the first of the two was taken, the second is cut: neither is seen
    assert found.version == before.version
    np.testing.assert_array_equal(found.arrays["sparse"], before.arrays["sparse"])
    (export / "rows" / name).write_bytes(whole)
    found = rows({"sparse": keys})
    assert found.version == name.split(".")[0]
    np.testing.assert_array_equal(found.arrays["sparse"][:, 0], table.lookup(keys[:, 0]).numpy())
    assert rows.counters()["versions"].value == 2


def test_answers_and_metrics_tell_the_version_and_signs_without_a_row(folder):  # noqa: F811
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from suites.engine.serving.service import Settings
    from tests.suites.engine.serving import toy
    from tests.suites.engine.serving.web.test_server import ask

    run(folder, "runtime.epochs=1")
    export_run(folder / "run", folder / "exported")
    model = open_model(folder / "exported")
    with toy.running(model, Settings(name="clicks")) as server:
        found = json.loads(ask(server, "/v1/scores", {"input": ROWS})[2])["data"]
        version = json.loads((folder / "exported" / "rows" / LIST).read_text())["files"][-1].split(".")[0]
        assert [row["version"] for row in found] == [version] * len(ROWS)
        texts = [json.dumps(row) for row in ROWS]
        infer = {"inputs": [{"name": "items", "shape": [len(texts)], "datatype": "BYTES", "data": texts}]}
        answer = json.loads(ask(server, "/v2/models/clicks/infer", infer)[2])
        assert answer["parameters"] == {"version": version}
        assert [json.loads(text) for text in answer["outputs"][0]["data"]] == [row["result"] for row in found]
        infer["inputs"][0]["data"][1] = "u1,i3"
        status, _, problem = ask(server, "/v2/models/clicks/infer", infer)
        assert status == 400 and b"item 1: the text 'u1,i3' is no JSON" in problem
        figures = ask(server, "/metrics")[2].decode()
    assert f'paddock_model_version_info{{version="{version}"}} 1.0' in figures
    numbers = {line.split()[0]: float(line.split()[1]) for line in figures.splitlines() if line[:1] != "#"}
    assert 0 < numbers["paddock_row_misses_total"] < numbers["paddock_row_lookups_total"]
    assert numbers["paddock_versions_total"] == 0


def test_a_server_answers_rows_in_json_as_the_run_does(folder):  # noqa: F811
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from suites.engine.serving.client import Client
    from suites.engine.serving.service import Settings
    from tests.suites.engine.serving import toy

    run(folder, "runtime.epochs=1")
    where = folder / "run"
    export_run(where, folder / "exported")
    expected = [prediction.value for prediction in open_model(where)(ROWS)]
    with toy.running(open_model(folder / "exported"), Settings(name="clicks")) as server, Client(server.url) as client:
        for found, own in zip(client.score(ROWS), expected, strict=True):
            assert found == pytest.approx(own, abs=1e-6)


def arrays(**changes):
    """A request to the scorer by arrays, in which something is wrong."""
    given = {"name": "sparse", "datatype": "INT64", "shape": [1, 2], "data": [[1, 2]]} | changes
    return json.dumps({"inputs": [given]}).encode()


def test_requests_that_mean_harm_are_refused_and_rows_still_answered(folder):  # noqa: F811
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from suites.engine.serving.client import Client
    from suites.engine.serving.service import Settings
    from tests.suites.engine.serving import hostile, toy
    from tests.suites.engine.serving.test_hostile import address

    run(folder, "runtime.epochs=1")
    export_run(folder / "run", folder / "exported")

    infer = "/v2/models/clicks/infer"

    def rows(*values):
        return sent("/v1/scores", json.dumps({"input": list(values)}).encode())

    def sent(path, body):  # after the answer the connection ends, so that nothing waits for more
        return hostile.post(path, body, "Connection: close")

    harm = {
        "a hundred thousand signs in a bag": rows(ROWS[0] | {"tags": "|".join(map(str, range(15_000)))}),
        "a feature that is a list of lists": rows(ROWS[0] | {"tags": [["t1"]] * 100}),
        "a row of nothing": rows(None),
        "a row in a row": rows([ROWS[0]]),
        "features that nobody declared": rows({f"f{i}": "x" for i in range(50_000)}),
        "numbers that are none": rows(ROWS[0] | {"price": "nan"}, ROWS[0] | {"price": "1e999"}),
        "nothing": rows(),
        "more rows than are allowed": rows(*[{}] * 2000),
        "keys that are no integers": sent(infer, arrays(data=[["a", 1.5]])),
        "an extent that lies": sent(infer, arrays(shape=[1, 2**40])),
        "a negative extent": sent(infer, arrays(shape=[-1, 2])),
        "another type": sent(infer, arrays(datatype="FP32")),
        "keys beyond 64 bits": sent(infer, arrays(data=[[2**64, -(2**70)]])),
    }
    with toy.running(open_model(folder / "exported"), Settings(name="clicks")) as server, Client(server.url) as client:
        expected = client.score(ROWS)
        for name, request in harm.items():
            found = hostile.statuses(address(server), request, patience=5)
            assert found and set(found) <= {200, 400, 413, 422, 503}, (name, found)
            assert client.score(ROWS) == expected, name
        assert server.said == []


def test_a_model_that_is_renewed_under_load_with_harm_mixed_in_answers_every_good_request(served):
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from suites.engine.serving.client import Client
    from suites.engine.serving.service import Settings
    from tests.suites.engine.serving import hostile, toy
    from tests.suites.engine.serving.test_hostile import address

    table, export, _ = served
    keys, names = signs_of(table), []
    answers_of, harmed, done = collections.defaultdict(set), collections.Counter(), threading.Event()
    model = open_model(export)
    model.feed.newest.every = model.feed.newest.due = 0.0

    def ask(client):
        while not done.is_set():
            told = client.request("POST", "/v1/scores", {"input": ROWS})["data"]
            (version,) = {row["version"] for row in told}  # one version answers a request
            answers_of[version].add(json.dumps([row["result"] for row in told]))

    def harm(number):
        rng = random.Random(number)
        while not done.is_set():
            data = rng.choice([*hostile.bombs().values(), hostile.garbage(rng)])
            harmed.update(hostile.statuses(address(server), data, patience=0.05))

    def damage(name):
        """A delta that is cut and a list that is none, for as long as some requests take; then as they were."""
        for path in (export / "rows" / name, export / "rows" / LIST):
            whole = path.read_bytes()
            for content in (whole[: len(whole) // 2], whole):
                part = path.with_suffix(".part")  # replaced, as who publishes does: a file that is served is mapped
                part.write_bytes(content)
                part.replace(path)
                time.sleep(0.05)

    with toy.running(model, Settings(name="words")) as server, Client(server.url, retries=0) as client:
        with ThreadPoolExecutor(4) as pool:
            running = [pool.submit(ask, client), pool.submit(ask, client), pool.submit(harm, 0), pool.submit(harm, 1)]
            try:
                for _ in range(7):
                    table.update(keys[:, 0], np.ones((len(keys), table.dim), np.float32), lr=0.1)
                    names.append(publish(table, schema(), export))
                    damage(names[-1])
                    time.sleep(0.05)
            finally:
                done.set()
            assert [one.result() for one in running] == [None] * 4
        assert client.request("POST", "/v1/scores", {"input": ROWS})["data"][0]["version"] == names[-1].split(".")[0]
        assert not any("Traceback" in line for line in server.said)
    assert len(answers_of) > 3 and {len(found) for found in answers_of.values()} == {1}
    assert harmed and harmed[500] == 0
