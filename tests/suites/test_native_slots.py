"""Lines of slot logs in C++: the signs, rows of tables and scores of Python, to the bit; its refusals too."""

import json
import random
from ctypes import byref, c_char_p, c_void_p

import numpy as np
import pytest

from framework.errors import DataError
from suites.ctr.processor import ClickProcessor
from suites.ctr.schema import schema_of
from suites.ctr.serving import ServedRows
from suites.engine.predict.inference import export_run, open_model
from suites.engine.train.training import train
from tests.native import C, NativeError, NativePredictor, PreparedLines, PreparedRows, checked

SLOTS = {
    "6": {"type": "Sparse"},
    "7": {"type": "MultiValued"},
    "second": {"type": "Sparse", "column": "9", "place": 1},
    "both": {"type": "Crossed", "of": ["6", "second"]},
    "8": {"type": "Dense", "transform": "log"},
    "seen": {"type": "Sequence", "vocabulary": "6", "column": "10", "max_length": 3},
}


@pytest.fixture(scope="module", params=["slot:sign", "sign:slot"])
def slots(request, tmp_path_factory):
    """(export of a model that learnt a little from a slot log, what writes a line's pairs)."""
    folder, rng = tmp_path_factory.mktemp("slots"), np.random.default_rng(0)

    def line(click, *pairs):
        turned = (f"{a}:{b}" if request.param == "slot:sign" else f"{b}:{a}" for a, b in pairs)
        return " ".join(["1", str(click), *turned])

    lines = []
    for _ in range(400):
        user, item = rng.integers(1, 9, 2)
        click = int(rng.random() < (0.9 if user == item else 0.2))
        many = [(7, item), (7, item + 100), (9, user), (9, item), (8, f"{user / 4}"), *([(10, item)] * (user % 5))]
        lines.append(line(click, (6, user), *many))
    (folder / "log.txt").write_text("\n".join(lines))
    data = {"type": "ClickLog", "root": str(folder), "files": ["log.txt"]}
    form = {"kind": "slot", "head": ["show", "click"], "order": request.param, "missing": ["999"]}
    config = {
        "suite": "ctr",
        "model": {"type": "DIN", "dim": 4, "attention": [4], "hidden": [8]},
        "data": {
            "schema": {"format": form, "features": SLOTS, "labels": {"click": {}}},
            "train": {"dataset": data, "batch_size": 40},
            "eval": {"dataset": data},
        },
        "optimizer": {"type": "Adam"},
        "schedule": {"type": "Constant", "base_lr": 0.03},
        "runtime": {"steps": 20, "workers": 0},
    }
    (folder / "config.yml").write_text(json.dumps(config))
    train(folder / "config.yml", [], runs=folder, name="run")
    export_run(folder / "run", folder / "exported")
    return folder / "exported", line


def python_rows(processor, path, text):
    """What Python reads of each line of a file: a row, or why there is none."""
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    found = {}
    for where, read in processor.inputs(str(path)):
        try:
            found[int(where.rpartition(":")[2])] = read()
        except DataError as error:
            found[int(where.rpartition(":")[2])] = str(error).partition(": ")[2]
    return found


def test_lines_of_slot_logs_are_read_and_scored_as_in_python(slots, tmp_path):
    export, line = slots
    native, opened, rng = NativePredictor(export), open_model(export), np.random.default_rng(1)
    processor = ClickProcessor(schema_of(native.metadata["processor"]["schema"]))
    lines = [
        *(line(0, *((rng.choice([6, 7, 8, 9, 10, 11]), rng.integers(1, 12)) for _ in range(rng.integers(9))))
          for _ in range(200)),
        line(1), line(1, (6, "ü京"), (7, "\udcff")) + "\t \r", line("x", (12, "any")), line(1, (6, 999), (7, 999)),
        line(1, (6, "a:b")), line(1, (9, 4)), line(1, ("6", "\udcff"), (13, "\udcff")),
    ]  # fmt: skip
    expected = python_rows(processor, tmp_path / "lines.txt", "\n".join(lines))
    good = [number for number, row in expected.items() if not isinstance(row, str)]
    assert len(expected) == len(lines) and 100 < len(good) < len(lines)
    for number, row in expected.items():
        if isinstance(row, str):
            with pytest.raises(NativeError) as refused:
                PreparedLines(native, [lines[good[0] - 1], lines[number - 1]])
            assert str(refused.value).startswith("line 1: ")
    given = [lines[number - 1] for number in good]
    feed = ServedRows(export, processor.schema)
    arrays = feed(processor.prepare([expected[number] for number in good])).arrays
    prepared = PreparedLines(native, given)
    inputs = []
    for i, (name, *_) in enumerate(native.infos("input")):
        inputs.append(prepared.input(i))
        assert inputs[-1].dtype == arrays[name].dtype and inputs[-1].tobytes() == arrays[name].tobytes(), name
    (scores,) = native.run(inputs)
    assert scores.tolist() == [[*answer.value.values()] for answer in opened([expected[number] for number in good])]
    assert len(np.unique(scores)) > 20
    whole = PreparedLines(native.clone(), given[:3], zeros=True)
    assert whole.input(0).tobytes() == inputs[0][:3].tobytes()


def test_lines_that_are_none_are_refused_in_pythons_words(slots, tmp_path):
    export, line = slots
    native = NativePredictor(export)
    processor = ClickProcessor(schema_of(native.metadata["processor"]["schema"]))
    for text in (
        "1",
        "6:1 1 0",
        "1 7:3",
        "  ",
        "1 0 6",
        "1 0 :6",
        "1 0 6: 7:1",
        "1 0 " + "é" * 60,
    ):
        (why,) = python_rows(processor, tmp_path / "line.txt", text).values()
        with pytest.raises(NativeError) as refused:
            PreparedLines(native, [text])
        assert str(refused.value) == f"line 0: {why}"
    for text, words in (
        ("", "line 0 is empty"),
        ("\r", "line 0 is empty"),
        ("1 0\n1 0", "line 0 holds the end of a line"),
    ):
        with pytest.raises(NativeError, match=words):
            PreparedLines(native, [text])
    with pytest.raises(NativeError, match="'9' has 3 values, and the schema takes 2"):
        PreparedLines(native, [line(1, (9, 4), (9, 5), (9, 6))])
    with pytest.raises(NativeError, match="the model reads lines of slot logs, not cells"):
        PreparedRows(native, [{}])
    assert C.paddock_column_count(native.handle) == 0
    made, none = c_void_p(), (c_char_p * 1)()
    for lines, count, words in (
        (none, 0, "count is 0"),
        (none, 1, "line 0 is a null pointer"),
        (None, 1, "lines is a null"),
    ):
        with pytest.raises(NativeError, match=words):
            checked(C.paddock_prepare_lines(native.handle, lines, None, count, byref(made)))


def test_random_lines_are_judged_as_in_python(slots, tmp_path):
    """Pieces of lines joined at random; each is one line of a file for Python."""
    export, _ = slots
    native, rng = NativePredictor(export), random.Random(0)
    processor = ClickProcessor(schema_of(native.metadata["processor"]["schema"]))
    pieces = [
        "6:1",
        "1:6",
        "7:2",
        "2:7",
        " ",
        "\t",
        ":",
        "1 0 ",
        "6",
        "é",
        "\udcff",
        "8:1e3",
        "1e3:8",
        "\r",
        "\0",
        "9:x",
        "x:9",
        "\v",
        "\x85",
    ]
    lines = [rng.choice(["1 0 ", "1 0 ", ""]) + " ".join(rng.choices(pieces, k=rng.randrange(6))) for _ in range(600)]
    expected = python_rows(processor, tmp_path / "lines.txt", "\n".join(lines))
    refused = 0
    for number, text in enumerate(lines, start=1):
        try:
            PreparedLines(native, [text])
            verdict = True
        except NativeError:
            verdict = False
        assert verdict == (number in expected and not isinstance(expected[number], str)), text
        refused += not verdict
    assert 100 < refused < 550
