"""Steps of any network on fixed random inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from framework import Tensor
    from framework.nn import Layer

Step = Callable[[], Any]
Cases = Mapping[str, Callable[[], tuple[Step, int]]]  # a step, and what it works on in one go: images, clips, sentences


def on_device(step: Callable[..., Any], *given: Any) -> Step:
    """The step on these tensors, which are brought to the device before the first one and stay there."""
    from framework import current_device, program

    brought: list[Any] = []

    def run() -> Any:
        if not brought:
            brought.extend(given if current_device() == "cpu" else program(lambda *each: list(each))(*given))
        return step(*brought)

    return run


def training(
    make_model: Callable[[], Layer],
    shape: tuple[int, ...],
    draw_target: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray],
    loss: Callable[[Tensor, Tensor], Tensor],
) -> tuple[Step, int]:
    """A training step with fixed random inputs of `shape` [N, ...] and targets, and N.

    For each output of the model, `draw_target` gives a target by the output's shape; the step minimises the sum of the
    means of `loss(output, target)`. The rate is so small that the network does not learn its one batch by heart: its
    gradients would underflow, and some processors take fifty times as long for subnormal numbers.
    """
    import numpy as np

    from framework import from_numpy, ops, program
    from framework.nn import init
    from framework.optim import Momentum

    rng = np.random.default_rng(0)
    with init.undrawn():
        model = make_model()
    init.initialize(model, 0)
    images = from_numpy(rng.standard_normal(shape, np.float32))
    outputs = program(lambda x: model(x), pass_names=()).program_for(images).program.results  # shapes; nothing runs
    targets = [from_numpy(draw_target(rng, y.shape)) for y in outputs]
    optimizer = Momentum(model.named_parameters(), lr=1e-5, momentum=0.9, weight_decay=5e-4, decay_vectors=True)

    @program
    def step(x: Any, ts: Any) -> Any:
        first, *more = [ops.mean(loss(y, t)) for y, t in zip(_listed(model(x)), ts, strict=True)]
        total = sum(more, start=first)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        return total

    return on_device(step, images, targets), shape[0]


def inference(make_model: Callable[[], Layer], shape: tuple[int, ...]) -> tuple[Step, int]:
    """The model's outputs for one batch of `shape` [N, ...], and N."""
    import numpy as np

    from framework import from_numpy, no_grad, program
    from framework.graph.passes import INFERENCE_PASSES
    from framework.nn import init

    with init.undrawn():
        model = make_model()
    init.initialize(model, 0)
    model.eval()
    images = from_numpy(np.random.default_rng(0).standard_normal(shape, np.float32))
    forward = program(lambda x: model(x), pass_names=INFERENCE_PASSES)

    def step() -> Any:
        with no_grad():
            return forward(images)

    return step, shape[0]


def _listed(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def dense(make_model: Callable[[], Layer], shape: tuple[int, ...]) -> tuple[Step, int]:
    """Training on a number in [0, 1) for every number given out, by sigmoid cross entropy."""
    import numpy as np

    from framework import ops

    return training(make_model, shape, lambda rng, y: rng.random(y, np.float32), ops.sigmoid_cross_entropy)


def labelled(make_model: Callable[[], Layer], shape: tuple[int, ...]) -> tuple[Step, int]:
    """Training on a class for every position of the output [..., K], by softmax cross entropy."""
    from framework import ops

    return training(make_model, shape, lambda rng, y: rng.integers(0, y[-1], y[:-1]), ops.cross_entropy)


def squares(make_model: Callable[[], Layer], shape: tuple[int, ...]) -> tuple[Step, int]:
    """Training on a number in [0, 1) for every number given out, by the square of the difference."""
    import numpy as np

    from framework import ops

    return training(make_model, shape, lambda rng, y: rng.random(y, np.float32), lambda y, t: ops.square(y - t))
