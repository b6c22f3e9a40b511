"""`conv_algorithm` decides for every convolution of a block, its gradients too, eagerly and traced, and only there."""

import threading

import numpy as np
import pytest

import framework
from framework import Profile, _core, conv_algorithm, nn, ops
from framework.errors import AttributeValueError
from framework.ops import dispatch
from framework.ops.registry import OPS
from tests.framework.ops import specs as _specs  # noqa: F401  (fills SPECS)
from tests.framework.ops.harness import SPECS

RNG = np.random.default_rng(0)
X = framework.tensor(RNG.standard_normal((2, 24, 24, 64), np.float32))
W = framework.tensor(RNG.standard_normal((64, 3, 3, 64), np.float32))
T = framework.tensor(RNG.standard_normal((64, 3, 3, 64), np.float32))


def ran(function, *args) -> set[str]:
    """The implementations of the convolutions that the call runs."""
    with Profile() as p:
        function(*args)
    return {call.implementation.split()[0].rstrip(",") for call in p.calls if call.operator.startswith("conv2d")}


def train(x, w):
    """All three passes of conv2d and conv2d_transpose; the gradients by x and w."""
    x.requires_grad = w.requires_grad = True
    y = ops.conv2d_transpose(ops.conv2d(x, w, padding=1), T, padding=1)
    return framework.gradients([ops.sum(y)], [x, w])


def test_auto_takes_winograd_for_these_shapes():
    assert "winograd" in ran(train, X, W)


def test_direct_holds_for_every_pass_eager_and_traced():
    for function in (train, framework.program(train)):
        with conv_algorithm("direct"):
            assert ran(function, X, W) == {"direct"}


def test_a_program_is_traced_again_where_the_choice_differs_and_keeps_what_it_had():
    function = framework.program(lambda x: ops.conv2d(x, W, padding=1))
    assert ran(function, X) == {"winograd"}
    with conv_algorithm("direct"):
        assert ran(function, X) == {"direct"}
        assert "algorithm='direct'" in str(function.program_for(X).program)
    assert ran(function, X) == {"winograd"}
    assert function.traces_made == 2
    assert "algorithm" not in str(function.program_for(X).program)


def test_the_gradient_of_a_value_made_inside_is_direct_outside_too():
    x, w = X.detach(), W.detach()
    x.requires_grad = True
    with conv_algorithm("direct"):
        y = ops.sum(ops.conv2d(x, w, padding=1))
    assert ran(framework.gradients, [y], [x]) == {"direct"}


def test_the_choice_ends_with_its_block_also_after_an_error_and_nests():
    with pytest.raises(ZeroDivisionError), conv_algorithm("direct"):
        raise ZeroDivisionError
    assert "winograd" in ran(train, X, W)
    with conv_algorithm("direct"), conv_algorithm("auto"):
        assert "winograd" in ran(train, X, W)


def test_other_threads_keep_their_own():
    found = []
    with conv_algorithm("direct"):
        thread = threading.Thread(target=lambda: found.append(ran(train, X, W)))
        thread.start()
        thread.join()
    assert "winograd" in found[0]


def test_a_convolution_that_names_its_algorithm_keeps_it():
    layer = nn.Conv2d(64, 64, 3, algorithm="winograd")
    layer.weight.set(W)
    with conv_algorithm("direct"):
        assert ran(layer, X) == {"winograd"}


def test_a_wrong_name_is_refused_with_the_right_ones():
    with (
        pytest.raises(AttributeValueError, match="conv_algorithm: it is 'fast'; takes 'auto', 'direct'"),
        conv_algorithm("fast"),
    ):
        pass


def test_explain_ends_with_the_algorithm_of_every_shape():
    layer, one = nn.Conv2d(64, 64, 3, padding=1), nn.Conv2d(64, 64, 1)
    step = framework.program(lambda x: layer(layer(one(x))))
    lines = step.explain(np.ones((1, 56, 56, 64), np.float32))["convolution algorithms"].matched
    image = "float32[1, 56, 56, 64]"
    assert lines[0].startswith(f"conv2d {image} float32[64, 1, 1, 64] -> {image}: direct, 1 of them (")
    assert lines[1].startswith(f"conv2d {image} float32[64, 3, 3, 64] -> {image}: winograd F(4x4,3x3), 2 of them (")
    assert "convolution algorithms:\n  + conv2d" in str(step.explain(np.ones((1, 56, 56, 64), np.float32)))


@pytest.mark.parametrize("name", [name for name, info in OPS.items() if "winograd" in info.choices("algorithm")])
def test_which_algorithm_a_convolution_takes_is_told_from_shapes_alone(name):
    """`explain` asks the kernel, which must answer before it looks at data: there is none then."""
    info, spec = OPS[name], SPECS[name]
    for sample in spec.samples:
        with Profile() as profile:
            dispatch.call_by_name(name, sample.tensors(spec.dtypes[0]), **sample.attrs)
        for call in profile.calls:
            shapes, dtypes = ([None if x is None else x[of] for x in call.inputs] for of in (0, 1))
            told = _core.implementation_of(info.native, shapes, dtypes, call.attrs)
            assert call.implementation.startswith(told)
            assert told or 0 in call.outputs[0][0]
