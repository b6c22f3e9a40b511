"""An operator in C++, loaded and used: eagerly, in a Program that trains, and in a saved Program.

c++ soft_clip.cc -o libsoft_clip.so $(python -m framework.extend)
python soft_clip.py ./libsoft_clip.so
"""

from __future__ import annotations

import sys
import tempfile

import numpy as np

import framework
from framework.graph.files import save_program
from framework.predictor import Predictor


def main(library: str) -> float:
    """Runs the example; returns the last loss."""
    clip = framework.load_operators(library)  # runs the library's code: load only what you trust
    # The gradient of soft_clip is soft_clip_grad, says its block. That operator's own gradient is given here, so that
    # soft_clip can be differentiated twice.
    framework.operator_gradient(
        "soft_clip_grad",
        dy=lambda ddx, y, limit: ddx * (1.0 - (y / limit) * (y / limit)),
        y=lambda ddx, dy, y, limit: ddx * dy * y * (-2.0 / limit**2),
    )

    x = framework.tensor([-3.0, 0.1, 3.0])
    print("eager:", clip.soft_clip(x, limit=2.0).tolist())  # the same as framework.custom.soft_clip

    weight = framework.tensor([0.5, 0.5, 0.5], requires_grad=True)
    weight.persistable = True

    @framework.program
    def step(x: framework.Tensor) -> framework.Tensor:
        weight.grad = None
        error = clip.soft_clip(x * weight, limit=2.0) - x
        loss = (error * error).mean()
        loss.backward()
        weight.set(weight - weight.grad)
        return loss

    data = framework.tensor(np.array([-1.0, 0.5, 1.5], np.float32))
    losses = [step(data).item() for _ in range(50)]
    print("training:", losses[0], "->", losses[-1])

    infer = framework.program(lambda x: clip.soft_clip(x * weight, limit=2.0))
    with tempfile.TemporaryDirectory() as folder, framework.no_grad():
        save_program(infer.program_for(data).program, folder)
        print("predictor:", Predictor(folder).run([data])[0])
    return float(losses[-1])


if __name__ == "__main__":
    main(sys.argv[1])
