"""Activations inside of operators: where their derivatives are read, and who may apply which."""

import pytest

from framework.ops.activations import reads_input
from framework.ops.registry import OPS

KEEP_THE_INPUT = {"matmul", "matmul_activation_grad", "quantized_matmul"}


def choices(name):
    return next((a["choices"] for a in OPS[name].attrs if a["name"] == "activation"), ())


@pytest.mark.parametrize("name", [name for name in OPS if choices(name) and name not in KEEP_THE_INPUT])
def test_an_operator_that_keeps_its_result_only_takes_activations_whose_derivatives_follow_from_it(name):
    assert not [a for a in choices(name) if reads_input(a)]


def test_derivatives_are_read_at_the_input_where_results_do_not_tell():
    assert [a for a in choices("matmul") if reads_input(a)] == ["silu", "gelu", "gelu_tanh"]
