"""A profile names every operator that ran, its implementation, work and line, and sums them up."""

import json
import threading

import numpy as np
import pytest

import framework
from framework import ops
from framework.errors import AttributeValueError, NotSupportedError
from framework.profiler import Profile


def image(*shape: int) -> framework.Tensor:
    return framework.tensor(np.ones(shape, np.float32))


def convolve(x, w, v):
    return ops.exp(ops.conv2d(ops.conv2d(x, w, padding=1), v, stride=2))


ARGUMENTS = (image(2, 16, 16, 16), image(32, 3, 3, 16), image(8, 1, 1, 32))


def test_a_programs_calls_have_times_shapes_and_the_users_line():
    step = framework.program(convolve)
    with Profile() as p:
        step(*ARGUMENTS)
    assert [c.label for c in p.calls] == ["conv2d 3x3", "conv2d 1x1 stride 2", "exp"]
    first, _, last = p.calls
    assert first.shapes == "[2, 16, 16, 16], [32, 3, 3, 16], -, - -> [2, 16, 16, 32]"
    assert first.where.startswith(f"{__file__}:")
    assert first.begin_ns < first.end_ns <= last.begin_ns < last.end_ns
    assert 0 < p.operator_seconds <= p.wall_seconds


def test_the_implementation_of_a_convolution_is_named():
    x, w = ARGUMENTS[:2]
    deep = image(16, 3, 3, 1)
    with Profile() as p:
        ops.conv2d(x, w, padding=1, algorithm="winograd")
        ops.conv2d(x, w, padding=1, algorithm="direct")
        ops.conv2d(x, deep, padding=1, groups=16)
    assert [c.implementation.split()[0] for c in p.calls] == ["winograd", "direct", "depthwise"]
    assert p.calls[2].label == "conv2d 3x3 depthwise"


def test_eager_calls_and_several_programs_are_recorded_in_order():
    one, two = framework.program(lambda x: ops.exp(x)), framework.program(lambda x: ops.tanh(x))
    x = image(4)
    with Profile() as p:
        for f in (one, two, ops.relu, one):
            f(x)
    assert [c.operator for c in p.calls] == ["exp", "tanh", "relu", "exp"]
    assert [bool(c.where) for c in p.calls] == [True, True, False, True]


def test_nothing_is_recorded_outside_and_entering_again_adds_up():
    p = Profile()
    x = image(4)
    for _ in range(2):
        with p:
            ops.exp(x)
        ops.relu(x)
    assert [c.operator for c in p.calls] == ["exp", "exp"]
    assert [(row.name, row.calls) for row in p.operators()] == [("exp", 2)]


def test_another_thread_is_not_recorded():
    with Profile() as p:
        other = threading.Thread(target=lambda: ops.exp(image(4)))
        other.start()
        other.join()
    assert p.calls == []


def test_one_profile_a_thread_and_an_error_inside_ends_it():
    with Profile(), pytest.raises(NotSupportedError, match="recorded by another profile"), Profile():
        pass
    p = Profile()
    with pytest.raises(ZeroDivisionError), p:
        raise ZeroDivisionError
    ops.exp(image(4))
    assert p.calls == []


def test_calls_beyond_the_limit_are_counted_and_said():
    with Profile(limit=2) as p:
        for _ in range(5):
            ops.exp(image(4))
    assert (len(p.calls), p.dropped) == (2, 3)
    assert "3 more calls" in p.table()
    with pytest.raises(AttributeValueError, match="limit is 0"):
        Profile(limit=0)


def test_rows_sum_up_to_the_whole_and_rates_follow_from_them():
    step = framework.program(convolve)
    with Profile() as p:
        for _ in range(3):
            step(*ARGUMENTS)
    rows = p.operators()
    assert sum(row.calls for row in rows) == len(p.calls) == 9
    assert sum(row.seconds for row in rows) == pytest.approx(p.operator_seconds)
    assert sum(row.share for row in rows) == pytest.approx(1)
    assert [row.seconds for row in rows] == sorted((row.seconds for row in rows), reverse=True)
    conv = next(row for row in rows if row.name == "conv2d 3x3")
    assert conv.flops == 3 * 2 * (2 * 16 * 16 * 32) * (3 * 3 * 16)
    assert conv.gflops_per_second == pytest.approx(conv.flops / conv.seconds / 1e9)
    assert conv.gbytes_per_second == pytest.approx(conv.bytes / conv.seconds / 1e9)


def test_the_table_names_rates_and_with_details_shapes_and_lines():
    step = framework.program(convolve)
    with Profile() as p:
        step(*ARGUMENTS)
    plain, detailed = p.table(), p.table(details=2)
    for text in ("operator", "GFLOP/s", "GB/s", "share", "conv2d 1x1 stride 2", "exp"):
        assert text in plain
    assert __file__ not in plain and len(plain.splitlines()) == 2 + 3
    assert detailed.startswith(plain) and detailed.count(f"{__file__}:") == 2
    assert "[2, 16, 16, 16], [32, 3, 3, 16], -, - -> [2, 16, 16, 32]" in detailed


def test_the_listing_is_the_program_with_what_ran_at_each_line():
    step = framework.program(convolve)
    with Profile() as p:
        step(*ARGUMENTS)
        step(*ARGUMENTS)
    plain, listed = str(step.program_for(*ARGUMENTS).program).splitlines(), p.listing().splitlines()
    assert [line.split("  #")[0] for line in listed] == plain
    commented = [line.split("  # ")[1] for line in listed if "  # " in line]
    assert len(commented) == 3 and all(text.endswith(" ms") for text in commented)
    assert commented[1].startswith("direct")


def test_an_empty_profile_has_a_table():
    with Profile() as p:
        pass
    assert "0 operator calls" in p.table(details=3)


def test_the_chrome_trace_has_the_fields_its_viewers_need(tmp_path):
    step = framework.program(convolve)
    with Profile() as p:
        step(*ARGUMENTS)
    p.write_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    complete = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    named = {e["name"]: e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert named == {"process_name": "paddock", "thread_name": "operators"}
    assert [e["name"] for e in complete] == [c.label for c in p.calls]
    for event, call in zip(complete, p.calls, strict=True):
        assert {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"} <= event.keys()
        assert event["dur"] * 1e-6 == pytest.approx(call.seconds)
        assert event["args"]["line"] == call.where
    ends = [e["ts"] + e["dur"] for e in complete]
    assert complete[0]["ts"] == 0 and all(e["ts"] >= end - 1e-3 for e, end in zip(complete[1:], ends[:-1], strict=True))


def test_a_program_reports_the_memory_of_its_last_run():
    step = framework.program(lambda x: ops.exp(ops.tanh(x) + x) * x, pass_names=())
    compiled = step.program_for(image(8))
    with pytest.raises(AttributeValueError, match="has not run yet"):
        compiled.memory_report()
    step(image(1024))
    assert compiled.memory_report().naive_bytes == compiled.memory_report([image(1024)]).naive_bytes
    assert compiled.memory_report([image(8)]).naive_bytes < compiled.memory_report([image(1024)]).naive_bytes
