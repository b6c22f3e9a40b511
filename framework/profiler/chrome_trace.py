"""A profile's calls in the Trace Event Format that chrome://tracing and ui.perfetto.dev read.

Source: "Trace Event Format", Google (2016): complete events ("ph": "X") with `ts` and `dur` in microseconds.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from framework.profiler.call import Call


def chrome_trace(calls: Sequence[Call]) -> dict[str, Any]:
    """The trace as plain data for JSON; time 0 is the first call's begin."""
    start = calls[0].begin_ns if calls else 0
    process = os.getpid()
    names = [
        {"ph": "M", "name": kind, "pid": process, "tid": 0, "args": {"name": name}}
        for kind, name in (("process_name", "paddock"), ("thread_name", "operators"))
    ]
    return {
        "displayTimeUnit": "ms",
        "traceEvents": [*names, *(_event(call, start, process) for call in calls)],
    }


def _event(call: Call, start: int, process: int) -> dict[str, Any]:
    spent, done = call.seconds or 1e-9, call.work
    args: dict[str, Any] = {"shapes": call.shapes, "GB/s": round(done.bytes / spent * 1e-9, 2)}
    if done.flops:
        args["GFLOP/s"] = round(done.flops / spent * 1e-9, 2)
    if call.implementation:
        args["implementation"] = call.implementation
    if call.where:
        args["line"] = call.where
    return {
        "ph": "X",
        "name": call.label,
        "cat": call.operator,
        "pid": process,
        "tid": 0,
        "ts": (call.begin_ns - start) / 1e3,
        "dur": (call.end_ns - call.begin_ns) / 1e3,
        "args": args,
    }
