"""The C interface as its callers see it: tensors, clones, threads, limits, reports, structs of other versions."""

import ctypes
import subprocess
import sys
import threading
from ctypes import byref, c_void_p
from pathlib import Path

import numpy as np
import pytest

import framework
from framework import ops, while_loop
from framework.graph.files import save_program
from framework.predictor import Predictor
from tests.native import TYPES, C, Info, NativeError, NativePredictor, RawTensor, checked, raw_tensor

ROOT = Path(__file__).parents[3]
X = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)


def saved(folder, function, *inputs, extra=None):
    """The folder of an exported function."""
    program = framework.program(function, pass_names=framework.graph.passes.INFERENCE_PASSES).program_for(*inputs)
    save_program(program.program, folder, extra=extra)
    return folder


def weight(*shape):
    return framework.tensor(np.random.default_rng(1).standard_normal(shape).astype(np.float32))


@pytest.fixture
def product(tmp_path):
    """relu(x w) + 1, and x as it came; extents may vary."""
    w = weight(3, 3)
    extra = {"outputs": ["y", "same"], "classes": ["katze", "hündin"]}
    return saved(tmp_path, lambda x: (ops.relu(ops.matmul(x, w)) + 1.0, x), X, extra=extra)


@pytest.fixture
def steps(tmp_path):
    """x times 1.0001 to the power of n, in a loop of n steps."""

    def power(x, n):
        return while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 1.0001), (framework.tensor(0), x))[1]

    return saved(tmp_path, power, X, np.array(5))


def refused(status, words):
    return pytest.raises(NativeError, match=words, check=lambda error: error.status == status)


def test_inputs_and_outputs_are_described_and_metadata_is_kept(product):
    model = NativePredictor(product)
    assert model.infos("input") == [("input0", "float32", (2, 3), False)]
    assert model.infos("output") == [("y", "float32", (2, 3), False), ("same", "float32", (2, 3), False)]
    assert model.metadata["classes"] == ["katze", "hündin"]


@pytest.mark.parametrize("rows", [0, 1, 2, 65])
def test_extents_may_change_from_run_to_run(product, rows):
    model, x = NativePredictor(product), np.random.default_rng(2).standard_normal((rows, 3)).astype(np.float32)
    for _ in range(2):
        assert [a.tobytes() for a in model.run([x])] == [a.tobytes() for a in Predictor(product).run([x])]


def test_outputs_are_views_that_live_until_the_next_run_or_their_release(product):
    model = NativePredictor(product)
    with refused("BAD_STATE", "there are no outputs; run it first"):
        model.views()
    model.run([X])
    first, second = model.views(), model.views()
    assert first[0].ctypes.data == second[0].ctypes.data
    assert first[1].ctypes.data != X.ctypes.data  # a result is never the caller's memory
    checked(C.paddock_release_outputs(model.handle))
    with refused("BAD_STATE", "run it first"):
        model.views()


def test_a_failed_run_leaves_no_outputs(product):
    model = NativePredictor(product)
    model.run([X])
    with refused("BAD_TYPE", r"input0 is int64\[2, 3\]; the model takes float32\[2, 3\]"):
        model.run([X.astype(np.int64)])
    with refused("BAD_STATE", "run it first"):
        model.views()


WRONG = {
    "another type": (lambda t: t, X.astype(np.float64), "BAD_TYPE", "float64.*takes float32"),
    "another number of axes": (lambda t: t, X[0], "BAD_SHAPE", r"float32\[3\]; the model takes float32\[2, 3\]"),
    "a shape that does not fit": (lambda t: t, np.ones((2, 4), np.float32), "BAD_SHAPE", r"matmul: .*\(traced at "),
    "no data": (lambda t: setattr(t, "data", None), X, "BAD_ARGUMENT", "input 0 has no data"),
    "data off their alignment": (lambda t: setattr(t, "data", t.data + 2), X, "BAD_ARGUMENT", "not aligned to the 4"),
    "other bytes": (lambda t: setattr(t, "bytes", 8), X, "BAD_SHAPE", "which are 24 bytes; it is said to have 8"),
    "a type that is none": (lambda t: setattr(t, "type", 9), X, "BAD_ARGUMENT", "there is no type 9"),
    "too many axes": (lambda t: setattr(t, "rank", 9), X, "BAD_ARGUMENT", "has 9 axes"),
    "a negative extent": (lambda t: t.shape.__setitem__(0, -2), X, "BAD_SHAPE", "impossible shape"),
    "a huge extent": (lambda t: t.shape.__setitem__(0, 2**62), X, "BAD_SHAPE", "impossible shape"),
    "no size": (lambda t: setattr(t, "struct_size", 0), X, "BAD_ARGUMENT", "struct_size is 0; set it to sizeof"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_tensor_is_one_clear_error_and_the_next_run_works(product, name):
    change, array, status, words = WRONG[name]
    model = NativePredictor(product)
    tensor = raw_tensor(array)
    change(tensor)
    with refused(status, words):
        checked(C.paddock_run(model.handle, byref(tensor), 1))
    assert model.run([X])[0].tobytes() == Predictor(product).run([X])[0].tobytes()


def test_a_number_of_inputs_or_outputs_that_there_is_not_is_refused(product):
    model = NativePredictor(product)
    with refused("BAD_ARGUMENT", "got 2 inputs; the model takes 1"):
        model.run([X, X])
    with refused("BAD_ARGUMENT", "got 0 inputs"):
        model.run([])
    model.run([X])
    for index in (-1, 2):
        with refused("BAD_ARGUMENT", f"there is no output {index}"):
            checked(C.paddock_output(model.handle, index, byref(RawTensor(ctypes.sizeof(RawTensor)))))
        with refused("BAD_ARGUMENT", f"there is no number {index}"):
            checked(C.paddock_input_info(model.handle, index, byref(Info(ctypes.sizeof(Info)))))


def test_null_pointers_are_errors(product):
    made, model = c_void_p(), NativePredictor(product)
    model.run([X])
    for call in (
        lambda: C.paddock_load(None, None, byref(made)),
        lambda: C.paddock_load(str(product).encode(), None, None),
        lambda: C.paddock_clone(None, byref(made)),
        lambda: C.paddock_run(None, None, 0),
        lambda: C.paddock_run(model.handle, None, 1),
        lambda: C.paddock_output(model.handle, 0, None),
        lambda: C.paddock_input_info(model.handle, 0, None),
        lambda: C.paddock_options_new(None),
        lambda: C.paddock_options_set(None, b"levels", 1),
        lambda: C.paddock_set_instruction_set(None),
        lambda: C.paddock_memory_report(None, None),
        lambda: C.paddock_metadata_at(model.handle, None, None),
    ):
        with refused("BAD_ARGUMENT", "is a null pointer"):
            checked(call())
    C.paddock_free(None)
    C.paddock_options_free(None)


def test_a_struct_of_a_newer_header_is_filled_as_far_as_the_library_knows_it(product):
    class Newer(ctypes.Structure):
        _fields_ = (("old", RawTensor), ("more", ctypes.c_uint64 * 4))

    model = NativePredictor(product)
    given = (Newer * 1)(Newer(raw_tensor(X), (7, 7, 7, 7)))
    given[0].old.struct_size = ctypes.sizeof(Newer)
    checked(C.paddock_run(model.handle, given, 1))
    asked = Newer(RawTensor(ctypes.sizeof(Newer)), (7, 7, 7, 7))
    checked(C.paddock_output(model.handle, 0, ctypes.cast(byref(asked), ctypes.POINTER(RawTensor))))
    assert tuple(asked.old.shape[:2]) == (2, 3) and list(asked.more) == [7] * 4
    assert asked.old.struct_size == ctypes.sizeof(Newer)


def test_bools_that_are_neither_0_nor_1_are_refused(tmp_path):
    model = NativePredictor(saved(tmp_path, lambda m, x: ops.where(m, x, -x), np.ones(3, bool), X))
    flags = np.array([0, 1, 2], np.uint8)
    tensors = (RawTensor * 2)(raw_tensor(flags), raw_tensor(X))
    tensors[0].type = TYPES.index("bool")
    with refused("BAD_ARGUMENT", "input 0: a bool is neither 0 nor 1"):
        checked(C.paddock_run(model.handle, tensors, 2))


def test_a_model_of_fixed_shapes_says_so_and_why(tmp_path):
    model = NativePredictor(saved(tmp_path, lambda x: x * float(x.shape[0]), X))
    assert model.infos("input")[0][3]
    with refused("BAD_SHAPE", r"has shape \[4, 3\]; this model was exported for \[2, 3\].* because .*test_interface"):
        model.run([np.ones((4, 3), np.float32)])


def test_options_and_settings_that_there_are_not_are_refused(product):
    with refused("BAD_ARGUMENT", "there is no option 'speed'"):
        NativePredictor(product, speed=9)
    with refused("BAD_ARGUMENT", "option loop_steps is 0; it takes a number above 0"):
        NativePredictor(product, loop_steps=0)
    with refused("BAD_ARGUMENT", "option map_weights is 2; it takes 0 or 1"):
        NativePredictor(product, map_weights=2)
    with refused("BAD_ARGUMENT", "set_num_threads: got 0"):
        checked(C.paddock_set_threads(0))
    with refused("BAD_ARGUMENT", "'mmx' is not available here"):
        checked(C.paddock_set_instruction_set(b"mmx"))


def test_weights_that_are_copied_outlive_the_file_that_is_written_over(product):
    model = NativePredictor(product, map_weights=0)
    expected = model.run([X])[0].tobytes()
    (file,) = product.glob("weights*.safetensors")
    with file.open("r+b") as f:
        f.write(b"\0" * file.stat().st_size)
    assert model.run([X])[0].tobytes() == expected


def test_mapped_weights_outlive_the_file_that_another_takes_the_place_of(product):
    model = NativePredictor(product)
    expected = Predictor(product).run([X])[0].tobytes()
    w = weight(3, 3) * 2.0
    saved(product, lambda x: ops.matmul(x, w), X)
    assert model.run([X])[0].tobytes() == expected != NativePredictor(product).run([X])[0].tobytes()


def test_loops_end_at_their_limit_of_steps(steps):
    model = NativePredictor(steps, loop_steps=100)
    assert model.run([X, np.array(90)])[0].tobytes() == Predictor(steps).run([X, np.array(90)])[0].tobytes()
    with refused("NOT_SUPPORTED", 'more steps than are allowed.*options_set\\(options, "loop_steps"'):
        model.run([X, np.array(101)])
    model.run([X, np.array(90)])


def test_a_run_that_would_plan_more_memory_than_it_may_is_refused_before_it_starts(product):
    model = NativePredictor(product, memory_bytes=100_000)
    model.run([X])
    with refused("NO_MEMORY", r"plans \d+ bytes; 100000 are allowed \(option memory_bytes\)"):
        model.run([np.ones((10_000, 3), np.float32)])
    model.run([X])


def test_clones_share_weights_and_what_is_derived_from_them(tmp_path):
    w = weight(512, 512)
    model = NativePredictor(saved(tmp_path, lambda x: ops.matmul(x, w), np.ones((64, 512), np.float32)))
    x = np.random.default_rng(3).standard_normal((64, 512)).astype(np.float32)
    expected = model.run([x])[0].tobytes()
    prepared = model.memory_report()["prepared_bytes"]
    assert prepared >= w.numpy().nbytes
    live = framework._core.memory_stats()["live"]
    clones = [model.clone() for _ in range(8)]
    assert all(clone.run([x])[0].tobytes() == expected for clone in clones)
    assert {clone.memory_report()["prepared_bytes"] for clone in clones} == {prepared}
    grown = framework._core.memory_stats()["live"] - live
    assert grown < 8 * 2 * x.nbytes + prepared // 2  # results and arenas, no weights
    del model
    assert clones[0].run([x])[0].tobytes() == expected


def test_clones_run_in_threads_at_once_with_the_same_bits(steps, tmp_path):
    model = NativePredictor(steps)
    inputs = [[X * k, np.array(200 + k)] for k in range(4)]
    expected = [Predictor(steps).run(i)[0].tobytes() for i in inputs]
    wrong = []

    def work(clone, k):
        wrong.extend(n for n in range(50) if clone.run(inputs[k])[0].tobytes() != expected[k])

    threads = [threading.Thread(target=work, args=(model.clone(), k)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_the_first_runs_of_clones_at_once_derive_from_weights_once(tmp_path):
    w = weight(256, 256)
    model = NativePredictor(saved(tmp_path, lambda x: ops.matmul(x, w), np.ones((64, 256), np.float32)))
    x, start, found = np.ones((64, 256), np.float32), threading.Barrier(4), []

    def work(clone):
        start.wait()
        found.append(clone.run([x])[0].tobytes())

    threads = [threading.Thread(target=work, args=(model.clone(),)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [Predictor(tmp_path).run([x])[0].tobytes()] * 4
    model.run([x])
    assert model.memory_report()["prepared_bytes"] < 2 * w.numpy().nbytes


def test_two_threads_on_one_predictor_are_an_error_and_no_crash(steps):
    model, ended, statuses = NativePredictor(steps), threading.Event(), []

    def work():
        while not ended.is_set():
            try:
                model.run([X, np.array(20_000)])
            except NativeError as error:
                statuses.append(error.status)

    thread = threading.Thread(target=work)
    thread.start()
    seen = set()
    for _ in range(10_000):
        try:
            model.run([X, np.array(1)])
        except NativeError as error:
            seen.add(error.status)
        if "BUSY" in seen:
            break
    ended.set()
    thread.join()
    assert seen == {"BUSY"} and set(statuses) <= {"BUSY", "BAD_STATE"}
    model.run([X, np.array(1)])


def test_a_child_of_a_fork_uses_what_its_parent_loaded(product):
    code = f"""
import os, signal
from tests.framework.predictor.test_interface import X, NativePredictor

model = NativePredictor({str(product)!r})
expected = model.run([X])[0].tobytes()
child = os.fork()
if not child:
    signal.alarm(20)  # ends a child that waits for ever
    os._exit(0 if model.run([X])[0].tobytes() == expected else 1)
print(os.waitpid(child, 0)[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "0\n", done.stderr


@pytest.fixture
def counter(tmp_path):
    """A state that grows by x each run; it is given after the step."""
    total = framework.tensor(np.zeros(3, np.float32))
    total.persistable, total.name = True, "total"

    def add(x):
        total.set(total + x)
        return total * 1.0

    save_program(framework.program(add).program_for(np.ones(3, np.float32)).program, tmp_path)
    return tmp_path


def test_states_go_on_from_run_to_run_and_a_clone_has_its_own(counter):
    model, one = NativePredictor(counter), np.ones(3, np.float32)
    assert [model.run([one])[0][0] for _ in range(3)] == [1, 2, 3]
    clone = model.clone()
    assert [clone.run([one])[0][0], model.run([one])[0][0], clone.run([one])[0][0]] == [4, 4, 5]
    assert NativePredictor(counter).run([one])[0][0] == 1  # the file is not written


def test_a_profile_says_what_ran_where_it_was_written_and_how(steps):
    model = NativePredictor(steps)
    with refused("BAD_STATE", "call paddock_set_profiling first"):
        model.profile()
    checked(C.paddock_set_profiling(model.handle, 1))
    model.run([X, np.array(3)])
    records = model.profile()
    assert len(records) >= 7 and all("test_interface.py:" in r["line"] for r in records if r["line"])
    assert any(r["line"] for r in records) and all(r["microseconds"] >= 0 for r in records)
    assert model.profile() == []
    checked(C.paddock_set_profiling(model.handle, 0))
    model.run([X, np.array(3)])


def test_a_report_of_memory_agrees_with_pythons(product):
    model = NativePredictor(product)
    with refused("BAD_STATE", "it has not run yet"):
        model.memory_report()
    model.run([X])
    found, python = model.memory_report(), Predictor(product)
    python.run([X])
    expected = python._compiled.memory_report()
    assert (found["arena_bytes"], found["values_bytes"]) == (expected.arena_bytes, expected.naive_bytes)


@pytest.mark.parametrize("isa", framework._core.supported_isas())
def test_kernels_of_each_instruction_set_give_pythons_bits(product, isa):
    before = C.paddock_instruction_set()
    checked(C.paddock_set_instruction_set(isa.encode()))
    try:
        assert C.paddock_instruction_set() == isa.encode()
        assert NativePredictor(product).run([X])[0].tobytes() == Predictor(product).run([X])[0].tobytes()
    finally:
        checked(C.paddock_set_instruction_set(before))


def test_the_threads_are_those_of_the_process():
    before = C.paddock_threads()
    checked(C.paddock_set_threads(3))
    assert framework.num_threads() == 3
    checked(C.paddock_set_threads(before))


def test_parts_of_the_metadata_are_found_by_their_pointers(tmp_path):
    extra = {"a/b": {"~": [1.50, {"": None}]}, "names": ["über", 'quote " and \\'], "n": 7}
    model = NativePredictor(saved(tmp_path, lambda x: x * 2.0, X, extra=extra))
    for pointer, part in {
        "/a~1b/~0/0": "1.5", "/a~1b/~0/1/": "null", "/names/0": "über", "/names/1": 'quote " and \\', "/n": "7",
    }.items():  # fmt: skip
        assert model.part(pointer) == part == model.part(pointer)
    assert model.metadata == extra
    for pointer in ("names", "/names/2", "/names/-1", "/names/0/0", "/names/0x", "/other", "/"):
        with refused("BAD_ARGUMENT", "the model's metadata have nothing at "):
            model.part(pointer)
