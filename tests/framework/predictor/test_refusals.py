"""What Python's reader of Programs refuses, the C++ reader refuses too: the same damaged and hostile files."""

import copy
import json
import math
import os
import random
import re

import numpy as np
import pytest

from framework.errors import PaddockError
from framework.predictor import Predictor
from tests.framework.graph.test_damaged_program import JUNK, places, replaced
from tests.framework.graph.test_damaged_program import exported as exported
from tests.framework.graph.test_hostile_files import CASES, changed, mutated, text_of
from tests.framework.graph.test_hostile_files import model as model
from tests.native import FileRefused, NativePredictor

MOST_ELEMENTS = 1 << 20  # of inputs that are run


@pytest.fixture
def both(model, tmp_path):
    """Writes the model with other text or weights; what Python and C++ say of it, None where they read it."""

    def read(text=None, weights=None):
        (tmp_path / "program.json").write_text(text if text is not None else text_of(model))
        (tmp_path / "weights.safetensors").write_bytes(
            weights if weights is not None else (model / "weights.safetensors").read_bytes()
        )
        return tmp_path, said(Predictor, tmp_path), said(NativePredictor, tmp_path)

    return read


def said(reader, folder):
    try:
        reader(folder)
    except PaddockError as error:
        return error
    return None


def results(make, folder, arrays):
    """What a run gives; the kind of its error where it fails."""
    try:
        return make(folder).run(arrays)
    except PaddockError as error:
        return type(error)


def run_both(folder):
    """Runs a program that both have read on zeros, unless its inputs are large; whether it ran. Bits are equal."""
    inputs = NativePredictor(folder).infos("input")
    if sum(math.prod(shape) for _, _, shape, _ in inputs) > MOST_ELEMENTS:
        return False
    arrays = [np.zeros(shape, dtype) for _, dtype, shape, _ in inputs]
    expected = results(Predictor, folder, arrays)
    found = results(lambda f: NativePredictor(f, memory_bytes=1 << 30), folder, arrays)
    if isinstance(expected, type):
        assert isinstance(found, type)
        return False
    if isinstance(found, type):
        return False
    assert [a.tobytes() for a in found] == [a.tobytes() for a in expected]
    return True


# The C++ reader says these in other words.
OTHER_WORDS = {
    "no object": "holds a list where a program is expected",
    "no text": "not valid JSON|not UTF-8",
    "an attribute of another type": "groups takes a whole number, not a text",
    "half a character": "half of a surrogate pair",
    "a huge padding": "pad",
}


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_program_is_refused_with_its_reason(model, both, name):
    change, reason = CASES[name]
    text = change if isinstance(change, str) else changed(model, change)
    folder, python, native = both(text)
    assert python is not None and isinstance(native, FileRefused)
    assert f"{folder}/program.json" in str(native)
    assert re.search(OTHER_WORDS.get(name, reason), str(native)), native


def test_a_whole_program_is_read_and_gives_the_same_bits(both):
    folder, python, native = both()
    assert python is None and native is None
    assert run_both(folder)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_files_that_are_cut_off_are_refused(model, both, share):
    text, weights = text_of(model), (model / "weights.safetensors").read_bytes()
    assert "program.json: not valid JSON" in str(both(text[: int(len(text) * share)])[2])
    found = str(both(weights=weights[: int(len(weights) * share)])[2])
    assert "weights.safetensors: damaged or not a safetensors file" in found


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: str(junk)[:20])
def test_any_value_in_any_place_is_refused_where_python_refuses_it(exported, tmp_path, junk):
    folder, document = exported
    (tmp_path / "weights.safetensors").write_bytes((folder / "weights.safetensors").read_bytes())
    for path in places(document):
        (tmp_path / "program.json").write_text(json.dumps(replaced(document, path, junk)))
        python, native = said(Predictor, tmp_path), said(NativePredictor, tmp_path)
        assert native is not None or python is None, path
        if native is None:
            run_both(tmp_path)


def test_mutated_programs_are_refused_or_give_the_same_bits(model, both):
    data, read, ran = json.loads(text_of(model)), 0, 0
    for seed in range(400):
        folder, python, native = both(json.dumps(mutated(copy.deepcopy(data), random.Random(seed))))
        assert native is not None or python is None, f"seed {seed}: {python}"
        assert native is None or isinstance(native, FileRefused), f"seed {seed}: {native}"
        read += native is None
        ran += native is None and run_both(folder)
    assert read > 10 and ran > 5


def test_mutated_weights_are_refused_or_give_the_same_bits(model, both):
    weights, read, ran = (model / "weights.safetensors").read_bytes(), 0, 0
    for seed in range(300):
        rng, bytes_now = random.Random(seed), bytearray(weights)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(weights) if rng.random() < 0.5 else min(len(weights), 400))
            bytes_now[place] = rng.randrange(256)
        folder, python, native = both(weights=bytes(bytes_now))
        assert native is not None or python is None, f"seed {seed}: {python}"
        read += native is None
        ran += native is None and run_both(folder)
    assert read > 20 and ran > 10


BAD_JSON = {
    "a comma at the end": '{"a": [1,]}',
    "a name twice": '{"a": 1, "a": 2}',
    "a number with a leading zero": "[01]",
    "a number that begins with a point": "[.5]",
    "a number without digits behind its point": "[1.]",
    "a number that no double holds": "[1e999]",
    "a text without an end": '["a',
    "an unknown escape": r'["\x41"]',
    "an escape that is cut off": r'["\u00"]',
    "half of a pair of escapes": r'["\ud800x"]',
    "a line end in a text": '["a\nb"]',
    "a comment": "[1] // one",
    "two values": "[1] [2]",
    "single quotes": "['a']",
    "a word": "[nan]",
    "nothing": "",
    "a mark of the byte order": "\ufeff[]",
    "a list that is closed as an object": "[1}",
}


@pytest.mark.parametrize("name", BAD_JSON)
def test_what_is_no_json_is_refused(both, name):
    assert "program.json: not valid JSON" in str(both(BAD_JSON[name])[2])


def test_bytes_that_are_no_utf8_are_refused(both, tmp_path):
    folder, *_ = both()
    (folder / "program.json").write_bytes(b'{"a": "\xff"}')
    assert "not UTF-8" in str(said(NativePredictor, folder))


def test_a_newer_format_says_so(model, both):
    native = both(changed(model, lambda data: data.update(format=2)))[2]
    assert "format 2 is not 1; it is newer than this library" in str(native)


def test_what_is_no_file_is_refused_at_once(both, tmp_path):
    folder, *_ = both()
    assert "cannot be opened" in str(said(NativePredictor, tmp_path / "nowhere"))
    (folder / "program.json").unlink()
    os.mkfifo(folder / "program.json")  # which nobody writes
    assert "a pipe or a device, not a file" in str(said(NativePredictor, folder))


@pytest.mark.parametrize(
    "option, value, words",
    [
        ("text_bytes", 100, "it has too many bytes"),
        ("weight_bytes", 100, "it has too many bytes"),
        ("nodes", 3, "it has too many operations"),
    ],
)
def test_limits_are_options(both, option, value, words):
    folder, *_ = both()
    with pytest.raises(FileRefused, match=rf'{words}, \d+; {value} are allowed.*options_set\(options, "{option}", N\)'):
        NativePredictor(folder, **{option: value})
