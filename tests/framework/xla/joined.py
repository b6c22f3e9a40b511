"""Run as each of some hosts by test_hosts.py: what they compute together, as JSON."""

import json
import sys

import numpy as np

import framework
from framework import hosts, ops
from framework.data.world import World
from framework.errors import AttributeValueError, HostError
from tests.framework.ops.specs.masks import BOXES, DISCS, SIZES
from tests.framework.xla.several import doubling, table
from tests.framework.xla.several import training as training_on

JOB, RANK, SIZE, PORT, DEVICES = sys.argv[1], *map(int, sys.argv[2:6])


def training():
    """Losses and states of a training whose batch all hosts share; slots in parts over the devices of each."""
    return training_on(DEVICES, spread=DEVICES > 1)


def program():
    """Where a batch and a state lie, what each host reads of them, and what a bad label does on all hosts."""
    w, step = doubling()
    with framework.device("xla-cpu", DEVICES):
        x = np.arange(24, dtype=np.float32).reshape(8, 3)
        loss, doubled = step(x, np.zeros(8, np.int64))
        parts = len(w._data.buffer.sharding.device_set)
        again = step(doubled, np.zeros(8, np.int64))[1]  # a result, whole, that becomes a batch, split
        before = w.detach()  # the state is given to the next run, this is not
        error = ""
        try:
            step(x, np.array([0, 0, 0, 0, 0, 0, 0, 2]))[0].item()
        except AttributeValueError as e:
            error = str(e)
        return {
            "right": bool((doubled.numpy() == 2 * x).all() and (again.numpy() == 4 * x).all()),
            "state": w.numpy().tolist(),
            "before": before.numpy().tolist(),
            "parts": parts,
            "loss": loss.item(),
            "error": error,
        }


def agreement():
    """What hosts tell each other, short and long, and how they differ."""
    found = {
        "world": [hosts.world().rank, hosts.world().size],
        "gather": [data.decode() for data in hosts.gather(b"x" * (1 + 3000 * RANK))] == ["x", "x" * 3001],
        "send": hosts.send({"step": 7 + RANK}),
    }
    hosts.expect_same({"code": "a", "config": "b"})
    try:
        hosts.expect_same({"code": "a", "config": str(RANK)})
    except HostError as e:
        found["differ"] = str(e)

    def refuse():
        raise AttributeValueError("the folder is taken")

    try:
        hosts.first_alone(refuse)
    except (AttributeValueError, HostError) as e:
        found["refused"] = f"{type(e).__name__}: {e}"
    found["made"] = hosts.first_alone(lambda: "made")
    return found


def masks():
    """Operators that run on the host in the middle of a Program: what each host reads, and what our kernels give."""
    w = framework.tensor(np.ones(1, np.float32))
    w.persistable = True

    @framework.program
    def step(runs, offsets, boxes, index, sizes):
        wanted = ops.crop_masks(runs, offsets, boxes * w, index, sizes, size=7)
        first = ops.reshape(wanted[:, 0], shape=(-1, 7, 7)) * w
        bitmaps = ops.paste_masks(first, boxes[:, 1], height=20, width=26)
        w.set(w + ops.mean(ops.cast(bitmaps, dtype="float32")))
        return wanted, bitmaps

    found = {}
    for device, count in (("cpu", 1), ("xla-cpu", DEVICES)):
        w.set(framework.tensor(np.ones(1, np.float32)))
        given = [framework.tensor(a) for a in (*DISCS, BOXES.astype(np.float32), np.ones((2, 6), np.int64), SIZES)]
        with framework.device(device, count):
            results = [step(*given) for _ in range(3)]
        found[device] = [w.tolist(), *(y.numpy().tolist() for y in results[-1])]
    return found


JOBS = {
    "training": training,
    "program": program,
    "agreement": agreement,
    "table": lambda: table(DEVICES),
    "masks": masks,
}
hosts.join(World(RANK, SIZE), f"127.0.0.1:{PORT}", devices=DEVICES, wait=60)
print(json.dumps(JOBS[JOB]()))
