"""A damaged program.json is one clear error, whatever stands in it."""

import copy
import json

import numpy as np
import pytest

from framework import ops, program, tensor
from framework.errors import CheckpointError, PaddockError
from framework.graph.files import load_program, save_program
from framework.predictor import Predictor

X = np.ones((2, 3), np.float32)
JUNK = [
    None,
    [],
    {},
    5,
    -1,
    "x",
    True,
    1e308,
    2**70,
    [None],
    [5],
    ["x"],
    [{}],
    [[]],
    {"a": 1},
    [2**31, 2**31, 0],
    [0, 2**31, 2**31],
    [1] * 70,
]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    weight = tensor(np.ones((3, 3), np.float32))
    compiled = program(lambda x: ops.relu(ops.matmul(x, weight)) + 1.0).program_for(tensor(X))
    save_program(compiled.program, folder, extra={"suite": "toy"})
    return folder, json.loads((folder / "program.json").read_text())


def places(value, path=()):
    """The paths of everything in a JSON document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def replaced(document, path, junk):
    if not path:
        return junk
    changed = copy.deepcopy(document)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = junk
    return changed


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: str(junk)[:20])
def test_any_value_in_any_place_is_read_or_refused(exported, junk):
    folder, document = exported
    for path in places(document):
        (folder / "program.json").write_text(json.dumps(replaced(document, path, junk)))
        try:
            predictor = Predictor(folder)
            assert isinstance(predictor.extra, dict) and predictor.output_types
            predictor.run([X])
        except PaddockError:
            pass
    (folder / "program.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    "key, junk, words",
    [
        ("extra", None, "'extra' is a NoneType, not an object"),
        ("extra", [], "'extra' is a list, not an object"),
        ("results", [], "'results' is empty"),
        ("results", None, "'results' is no list"),
        ("inputs", [{"id": 0, "shape": [1] * 70, "dtype": "float32", "name": "x"}], "axes"),
        ("inputs", [{"id": 0, "shape": [2**31, 2**31, 0], "dtype": "float32", "name": "x"}], "impossible|elements"),
        ("inputs", [{"id": 0, "shape": ["2", 3], "dtype": "float32", "name": "x"}], "no list of whole numbers"),
    ],
)
def test_the_error_says_what_is_wrong(exported, key, junk, words):
    folder, document = exported
    (folder / "program.json").write_text(json.dumps({**document, key: junk}))
    with pytest.raises(CheckpointError, match=rf"program.json: .*({words})"):
        load_program(folder)
    (folder / "program.json").write_text(json.dumps(document))
