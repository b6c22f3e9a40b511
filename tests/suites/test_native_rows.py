"""Rows of click logs in C++: the signs, rows of tables and scores of Python, to the bit; its refusals too."""

import json
import random
from ctypes import byref, c_char_p, c_void_p

import numpy as np
import pytest

from framework.errors import CheckpointError, DataError
from suites.ctr.processor import ClickProcessor
from suites.ctr.schema import schema_of
from suites.ctr.serving import ServedRows, publish
from suites.ctr.serving.published import FOLDER, LIST
from suites.engine.predict.inference import export_run, open_model, open_run
from tests.native import C, FileRefused, NativeError, NativePredictor, PreparedLines, PreparedRows, checked
from tests.suites.ctr.helpers import columns, schema
from tests.suites.ctr.test_task import MODELS, folder, run  # noqa: F401  (a fixture)

ODD = [
    {"user": "u1", "item": "i3", "tags": "t1|t2", "liked": "i3|i5", "price": "3.5"},
    {"user": "nobody", "item": "", "tags": "", "liked": "", "price": ""},
    {"user": "u2", "item": "i4"},
    {"user": "ü — 京", "item": " i4 ", "tags": "t1||t2|t1", "liked": "|i3", "price": "-1e-3"},
    {},
]  # fmt: skip


def rows(count=200, seed=1):
    found = columns(count, seed)
    return [*ODD, *({name: found[name][i] for name in found if name not in ("click", "time")} for i in range(count))]


def assert_same(export):
    """Inputs and scores of many rows are Python's, in batches of several sizes."""
    native, opened = NativePredictor(export), open_model(export)
    processor = ClickProcessor(schema_of(native.metadata["processor"]["schema"]))
    feed, names = ServedRows(export, processor.schema), [name for name, *_ in native.infos("input")]
    for given in (rows(), rows()[:1], rows()[4:5], rows(70, 2)):
        expected = feed(processor.prepare([processor.from_json(row) for row in given])).arrays
        prepared = PreparedRows(native, given)
        inputs = [prepared.input(i) for i in range(len(names))]
        for name, found in zip(names, inputs, strict=True):
            assert found.dtype == expected[name].dtype and found.shape == expected[name].shape, name
            assert found.tobytes() == expected[name].tobytes(), name
        (scores,) = native.run(inputs)
        assert scores.tolist() == [[*answer.value.values()] for answer in opened(given)]
        assert len(given) == 1 or len(np.unique(scores)) > len(given) // 4


@pytest.fixture
def exported(folder):  # noqa: F811
    """Makes the export of a model that learnt a little."""

    def build(name="DeepFM"):
        run(folder, f"model={json.dumps({'type': name, **MODELS[name]})}", "runtime.epochs=1")
        export_run(folder / "run", folder / "exported")
        return folder / "exported"

    return build


@pytest.mark.parametrize("name", ["DeepFM", "DIN", "LR"])
def test_rows_are_scored_as_in_python(exported, name):
    assert_same(exported(name))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_rows_that_were_published_later_answer_in_all_their_types(exported, folder, dtype):  # noqa: F811
    export, table = exported(), open_run(folder / "run").model.table
    publish(table, schema(), export, dtype)
    keys = np.arange(40, dtype=np.int64) + (1 << 52)
    table.update(keys, np.ones((len(keys), table.dim), np.float32), lr=0.1)
    assert publish(table, schema(), export, dtype).endswith(".delta")
    assert_same(export)


def test_clones_share_what_was_opened_first(exported):
    export = exported()
    native = NativePredictor(export)
    first = PreparedRows(native, ODD).input(0)
    (export / FOLDER / LIST).write_text("{}")  # it is not read again
    assert PreparedRows(native.clone(), ODD, zeros=True).input(0).tobytes() == first.tobytes()
    with pytest.raises(FileRefused, match=r"rows\.json: names no files of rows; publish them again"):
        PreparedRows(NativePredictor(export), ODD)


def test_rows_that_cannot_be_used_are_one_clear_error(exported):
    export = exported()
    native = NativePredictor(export)
    processor = ClickProcessor(schema_of(native.metadata["processor"]["schema"]))
    for price in ("dear", "nan", "inf", "1e999", "0x3", "3,5", " 3", "٣", "1_0", "3.", ".5", "+7", "-0", "1e-400"):
        try:
            processor.prepare([{"price": price}])
        except DataError:
            with pytest.raises(NativeError, match=f"row 1: 'price' is '{price}', which is no number of the form"):
                PreparedRows(native, [ODD[0], {"price": price}])
        else:
            PreparedRows(native, [ODD[0], {"price": price}])
    with pytest.raises(NativeError, match="row 0: 'price' is 'dear'"):
        PreparedRows(native, [{"price": "dear"}])
    made, cells = c_void_p(), (c_char_p * 5)()
    for count, width, words in ((0, 5, "rows is 0"), (1, 4, "rows have 4 columns; the model reads 5")):
        with pytest.raises(NativeError, match=words):
            checked(C.paddock_prepare_rows(native.handle, cells, None, count, width, byref(made)))
    checked(C.paddock_prepare_rows(native.handle, cells, None, 1, 5, byref(made)))  # all are missing
    C.paddock_prepared_free(made)
    with pytest.raises(NativeError, match=r"too many at once: their tensors have more than 100000 elements"):
        PreparedRows(NativePredictor(export, elements=100_000), ODD * 9000)


def change(path, old, new):
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


def test_damaged_rows_are_refused_as_in_python(exported):
    export = exported()
    listed = export / FOLDER / LIST
    told = json.loads(listed.read_text())
    (base,) = (export / FOLDER / name for name in told["files"])
    whole, text = base.read_bytes(), listed.read_text()
    harms = {
        "no list": lambda: listed.unlink(),
        "no JSON": lambda: listed.write_text("{"),
        "another model": lambda: listed.write_text(json.dumps(told | {"model": "0" * 32})),
        "a path": lambda: listed.write_text(json.dumps(told | {"files": ["../rows/" + base.name]})),
        "no file": lambda: listed.write_text(json.dumps(told | {"files": []})),
        "a missing file": lambda: listed.write_text(json.dumps(told | {"files": ["0.base"]})),
        "twice": lambda: listed.write_text(json.dumps(told | {"files": told["files"] * 2})),
        "cut": lambda: base.write_bytes(whole[:-1]),
        "shorter than a prefix": lambda: base.write_bytes(whole[:40]),
        "another sign": lambda: base.write_bytes(b"X" + whole[1:]),
        "another format": lambda: base.write_bytes(whole[:8] + b"\2" + whole[9:]),
        "another header": lambda: change(base, b'"rows": ', b'"rows":1'),
        "a long header": lambda: base.write_bytes(whole[:12] + b"\0\0\1\1" + whole[16:]),
    }
    for name, harm in harms.items():
        harm()
        with pytest.raises(FileRefused):
            PreparedRows(NativePredictor(export), ODD)
        with pytest.raises(CheckpointError):
            ServedRows(export, schema())
        base.write_bytes(whole)
        listed.write_text(text)
        assert PreparedRows(NativePredictor(export), ODD), name
    listed.write_text(json.dumps(told | {"dense": "x.dense"}))
    with pytest.raises(NativeError, match="published with a network of their own, which this library does not follow"):
        PreparedRows(NativePredictor(export), ODD)


def test_random_changes_to_the_lists_and_headers_are_judged_as_in_python(exported):
    export, rng = exported(), random.Random(0)
    listed = export / FOLDER / LIST
    (base,) = (export / FOLDER / name for name in json.loads(listed.read_text())["files"])
    refused = 0
    for _ in range(300):
        path, most = rng.choice([(listed, 1 << 20), (base, 600)])
        whole = path.read_bytes()
        data = bytearray(whole)
        data[rng.randrange(min(most, len(data)))] = rng.choice(b'\0\1",:[]{}0129\xff')
        path.write_bytes(data)
        verdicts = []
        for attempt in (lambda: PreparedRows(NativePredictor(export), ODD), lambda: ServedRows(export, schema())):
            try:
                attempt()
                verdicts.append(True)
            except (CheckpointError, NativeError):
                verdicts.append(False)
        path.write_bytes(whole)
        assert verdicts[0] == verdicts[1], bytes(data[:700])
        refused += not verdicts[0]
    assert refused > 100


def test_models_whose_rows_are_read_otherwise_say_so(exported):
    export = exported()
    program = json.loads((export / "program.json").read_text())
    text = (export / "program.json").read_text()
    assert program
    for old, new, words in (
        ('"reader"', '"other"', "states no reader of rows"),
        ('"kind": "csv"', '"kind": "lots"', "the kind 'lots', which this library does not do"),
        ('"kind": "csv"', '"kind": "slot"', "the model reads lines of slot logs, not cells"),
        ('"bucket": ""', '"bucket": "by_two"', "the bucket 'by_two'"),
        ('"transform": "standard"', '"transform": 3', "a 'transform' that is"),
        ('"missing_numbers": "zero"', '"missing_numbers": "nan"', "the missing_numbers 'nan'"),
    ):
        assert old in text, old
        (export / "program.json").write_text(text.replace(old, new))
        with pytest.raises(NativeError, match=words):
            native = NativePredictor(export)
            cells, made = (c_char_p * 5)(), c_void_p()
            checked(C.paddock_prepare_rows(native.handle, cells, None, 1, 5, byref(made)))


def test_a_model_of_cells_refuses_lines(exported):
    with pytest.raises(NativeError, match="the model reads rows of cells, not lines of slot logs"):
        PreparedLines(NativePredictor(exported()), ["1 6:1"])
