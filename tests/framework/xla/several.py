"""Run in a process of its own by test_several_devices.py: what some devices compute, as JSON."""

import json
import sys

import numpy as np

import framework
from framework import ops
from framework.errors import AttributeValueError
from framework.table import SGD
from tests.framework.table.test_programs import Model
from tests.framework.xla.test_executor import OPTIMIZERS, trained


def training(devices, spread=False, name="momentum"):
    """Losses and states of a training; of each slot of its optimizer the shape, that of one part, and the sum."""
    slots = {}

    def look(optimizer):
        for name, t in optimizer.state_dict().items():
            if hasattr(t._data, "buffer"):  # it has run
                part = t._data.buffer.addressable_shards[0].data.shape
                slots[name] = [list(t.shape), list(part), float(np.sum(np.abs(t.numpy())))]
        if spread and not slots:
            framework.devices.spread(optimizer.state_dict().values())

    losses, states = trained("xla-cpu", OPTIMIZERS[name], devices=devices, batch=8, look=look)
    found = {name: values.ravel().tolist() for name, values in states.items()}
    return {"losses": losses, "states": found, "slots": slots}


def doubling():
    """A state [3, 2], and a Program that doubles it and its batch and gives a loss first."""
    w = framework.tensor(np.ones((3, 2), np.float32))
    w.persistable = True

    @framework.program
    def step(x, labels):
        loss = ops.mean(ops.cross_entropy(ops.matmul(x, w), labels))
        w.set(w * 2.0)
        return loss, x * 2.0

    return w, step


def placement():
    """How a batch and a state lie on four devices, and what one device says of a bad label."""
    w, step = doubling()
    with framework.device("xla-cpu", 4):
        x = np.arange(24, dtype=np.float32).reshape(8, 3)
        _, doubled = step(x, np.zeros(8, np.int64))
        shards = sorted({s.data.shape for s in doubled._data.buffer.addressable_shards})
        state = sorted({s.data.shape for s in w._data.buffer.addressable_shards})
        right = bool((doubled.numpy() == 2 * x).all())
        odd = step(x[:7], np.zeros(7, np.int64))[1].numpy().shape
        before = w.numpy().tolist()
        try:
            step(x, np.array([0, 0, 0, 0, 0, 0, 0, 2]))[0].item()
            error = ""
        except AttributeValueError as e:
            error = str(e)
        kept = w.numpy().tolist() == before
        w.set(framework.tensor(before))
        x[7] = np.nan  # on the last device alone
        return {
            "nan": bool(np.isnan(step(x, np.zeros(8, np.int64))[0].item())),
            "batch": shards,
            "state": state,
            "right": right,
            "odd": odd,
            "error": error,
            "kept": kept,
        }


def table(devices):
    """Rows, their counts and a weight after two steps of a model with a table."""
    model = Model(SGD(lr=0.1))
    step = framework.program(model.step)
    rng = np.random.default_rng(0)
    with framework.device("xla-cpu", devices):
        for _ in range(2):
            step(rng.integers(0, 20, (8, 3)), rng.integers(0, 20, 8), rng.integers(0, 2, 8).astype(np.float32))
    counts = model.table.counts(np.arange(20)).tolist()
    return {"rows": model.seen().tolist(), "counts": counts, "w": model.w.numpy().tolist()}


def found(job, words):
    """What a job computes; `words` are its arguments."""
    if job == "training":
        return {"training": training(int(words[0]), *words[1:])}
    return table(int(words[0])) if job == "table" else placement()


if __name__ == "__main__":
    print(json.dumps(found(sys.argv[1], sys.argv[2:])))
