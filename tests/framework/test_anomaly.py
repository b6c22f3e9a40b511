"""detect_anomaly names the operator that made the first NaN."""

import numpy as np
import pytest

import framework
from framework import nn, ops, optim
from framework.errors import NumericsError

X = framework.tensor([1.0, -1.0, 4.0])


def roots(x):
    y = x * 2.0
    return ops.sum(ops.sqrt(y) + 1.0)


def test_eager_code_is_stopped_at_the_operator():
    message = r"sqrt: result y of shape \[3\] holds 1 NaN and 0 infinite numbers of 3; its inputs hold none"
    with framework.detect_anomaly(), pytest.raises(NumericsError, match=message):
        roots(X)


def test_a_program_is_stopped_too_and_the_line_is_named():
    plain = framework.program(roots, pass_names=())
    assert np.isnan(plain(X).item())
    with (
        framework.detect_anomaly(),
        pytest.raises(NumericsError, match=r"^sqrt: .* \(traced at .*test_anomaly.py:\d+\)$"),
    ):
        plain(X)


def test_what_came_in_as_nan_is_said_to_have_been_it():
    with (
        framework.detect_anomaly(),
        pytest.raises(NumericsError, match=r"mul: .*its input a holds such numbers already"),
    ):
        framework.tensor([np.nan]) * 2.0


def test_gradients_are_searched_too():
    x = framework.tensor([0.0], requires_grad=True)
    y = ops.sum(ops.sqrt(x) * 0.0)  # the gradient is 0 * infinity
    with framework.detect_anomaly(), pytest.raises(NumericsError, match="holds 1 NaN"):
        y.backward()


def test_infinities_are_searched_when_asked():
    with framework.detect_anomaly():
        ops.log(framework.tensor([0.0]))
    with framework.detect_anomaly(infinite=True), pytest.raises(NumericsError, match=r"log: .* 0 NaN and 1 infinite"):
        ops.log(framework.tensor([0.0]))


@pytest.mark.parametrize("dtype", ("float16", "bfloat16", "float64"))
def test_every_float_type_is_searched(dtype):
    with framework.detect_anomaly(), pytest.raises(NumericsError, match="sub: "):
        framework.tensor([np.inf], dtype) - framework.tensor([np.inf], dtype)


def test_a_step_in_control_flow_is_searched():
    def f(x):
        return framework.while_loop(
            lambda i, v: i < 3, lambda i, v: (i + 1, v - 2.0 * v * v), (ops.full([], 0, "int64"), x)
        )[1]

    looped = framework.program(lambda x: ops.sqrt(f(x)))
    with framework.detect_anomaly(), pytest.raises(NumericsError, match="sqrt"):
        looped(framework.tensor([1.0]))


def test_the_search_ends_with_the_block_also_after_an_error():
    with pytest.raises(NumericsError), framework.detect_anomaly():
        ops.sqrt(framework.tensor([-1.0]))
    assert np.isnan(ops.sqrt(framework.tensor([-1.0])).item())


def test_a_healthy_training_step_passes_and_computes_the_same():
    def losses():
        model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))
        nn.init.initialize(model, seed=0)
        optimizer = optim.Adam(model.named_parameters(), lr=1e-2)

        @framework.program
        def step(x):
            loss = ops.mean(ops.square(model(x)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        x = np.random.default_rng(0).standard_normal((32, 8)).astype(np.float32)
        return [step(x).item() for _ in range(3)]

    with framework.detect_anomaly():
        watched = losses()
    assert watched == losses()
