"""Passes of Transformer patterns: Programs before and after, the same results, and what they leave alone."""

import re

import numpy as np
import pytest

import framework
from framework import nn, ops
from framework.graph import passes
from framework.nn import init
from framework.optim import SGD

PLAIN = ("merge_equal_operations", "drop_dead_code")
X = np.random.default_rng(0).standard_normal((6, 8), np.float32)
LABELS = np.array([0, 3, 1, 1, 7, 2])


class Net(nn.Layer):
    """Layers for the tails below, each 8 -> 8."""

    def __init__(self, tail):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Linear(8, 8) for _ in range(4))
        self.norm, self.last, self.tail = nn.LayerNorm(8), nn.LayerNorm(8), tail
        init.initialize(self, 0)

    def forward(self, x):
        return self.tail(self, x)


class Run:
    """Two steps of training with some passes: the Program, the report, losses and weights."""

    def __init__(self, tail, pass_names, loss=lambda y: ops.mean(ops.square(y - 0.5)), threads=2):
        framework.random.seed(5)
        net = Net(tail)
        optimizer = SGD(net.named_parameters(), lr=0.1)

        @framework.program(pass_names=pass_names)
        def step(x):
            total = loss(net(x))
            optimizer.zero_grad()
            total.backward()
            optimizer.step()
            return total

        before = framework.num_threads()
        framework.set_num_threads(threads)
        try:
            self.losses = [step(X).numpy().copy() for _ in range(2)]
        finally:
            framework.set_num_threads(before)
        compiled = step.program_for(X)
        self.text, self.explanation = str(compiled.program), compiled.explain()
        self.weights = {name: t.numpy().copy() for name, t in net.state_dict().items()}

    def operations(self, *names):
        """Operators of `names` that give floats, in order, with those of their attributes that are not the default."""
        found = re.findall(r"float32\[[\d, ]*\] = (\w+)\((.*)\)$", self.text, re.MULTILINE)
        shown = [(name, [a for a in rest.split(", ") if "=" in a and "transpose" not in a]) for name, rest in found]
        return [f"{name}({', '.join(attrs)})" for name, attrs in shown if name in names]


def same(a, b, *, bits):
    """The same losses and weights: the same bits, or within what sums in another order differ by."""
    for x, y in [*zip(a.losses, b.losses, strict=True), *((a.weights[k], b.weights[k]) for k in a.weights)]:
        if bits:
            assert x.tobytes() == y.tobytes()
        else:  # sums of at most 16 terms of size 1 and their order, through two steps
            np.testing.assert_allclose(x, y, rtol=0, atol=64 * np.finfo(np.float32).eps)


def fused(tail, name, **kwargs):
    """Without and with one pass; their results are compared."""
    order = [n for n in passes.PASSES if n in (*PLAIN, *((name,) if isinstance(name, str) else name))]
    return Run(tail, PLAIN, **kwargs), Run(tail, order, **kwargs)


# -- fuse_activation, fuse_activation_grad
PRODUCTS = ("matmul", "matmul_activation_grad", "gelu", "gelu_grad", "tanh", "tanh_grad")


def test_gelu_and_its_gradient_end_the_products_around_them():
    before, after = fused(lambda net, x: net.b(ops.gelu(net.a(x))), ("fuse_activation", "fuse_activation_grad"))
    assert before.operations(*PRODUCTS) == [
        "matmul()",
        "gelu()",
        "matmul()",
        *["matmul()"] * 2,
        "gelu_grad()",
        "matmul()",
    ]
    assert after.operations(*PRODUCTS) == [
        "matmul()",
        "gelu()",  # its gradient reads what goes in
        "matmul()",
        "matmul()",
        "matmul_activation_grad()",
        "matmul()",
    ]
    same(before, after, bits=True)
    assert re.fullmatch(
        r"%\d+: float32\[6, 8\] = gelu_grad\(%\d+, %\d+\) fused into matmul %\d+ \(test_transformer_passes.py:\d+\)",
        after.explanation["fuse_activation_grad"].matched[0],
    )


@pytest.mark.parametrize(
    ("activation", "forward", "name"),
    [
        (ops.tanh, "matmul(activation='tanh')", "activation='tanh'"),
        (ops.silu, "matmul()", "activation='silu'"),  # its gradient reads what goes in
        (lambda x: ops.gelu(x, approximate=True), "matmul()", "activation='gelu_tanh'"),
        (ops.relu, "matmul(activation='relu')", "activation='relu'"),
        (
            lambda x: ops.leaky_relu(x, slope=0.3),
            "matmul(activation='leaky_relu', slope=0.3)",
            "activation='leaky_relu', slope=0.3",
        ),
    ],
)
def test_activations_that_products_end_in(activation, forward, name):
    names = (
        "fuse_batch_norm_grad",
        "fuse_activation",
        "fuse_activation_grad",
    )  # the first lets leaky_relu's input go
    before, after = fused(lambda net, x: net.b(activation(net.a(x))), names)
    assert after.operations(*PRODUCTS)[0] == forward
    assert f"matmul_activation_grad({name})" in after.operations(*PRODUCTS)
    same(before, after, bits=True)


def test_an_activation_that_others_read_the_input_of_stays():
    def tail(net, x):
        z = net.a(x)
        return net.b(ops.gelu(z)) + z

    _, after = fused(tail, "fuse_activation")
    assert "gelu()" in after.operations("gelu")
    assert re.search(
        r"matmul %\d+ -> gelu %\d+ .* not fused: %\d+ is also read by add",
        after.explanation["fuse_activation"].missed[0],
    )


def test_a_convolution_knows_fewer_activations():
    conv = nn.Conv2d(4, 4, 1)
    image = np.ones((1, 2, 2, 4), np.float32)
    run = framework.program(lambda x: ops.gelu(conv(x)), pass_names=("fuse_activation",))
    missed = run.explain(image)["fuse_activation"].missed
    assert missed[0].endswith("not fused: conv2d ends in relu, relu6, leaky_relu only")


def test_gelu_at_inference_leaves_nothing_but_the_product():
    layer = nn.Linear(8, 8)
    run = framework.program(lambda x: ops.gelu(layer(x)), pass_names=passes.INFERENCE_PASSES)
    with framework.no_grad():
        text = str(run.program_for(X).program)
        assert "activation='gelu'" in text and text.count(" = ") == 1
        assert run(X).numpy().tobytes() == ops.gelu(layer(framework.tensor(X))).numpy().tobytes()


# -- accumulate_products
def test_gradients_by_a_shared_input_are_summed_by_the_products():
    def tail(net, x):
        h = net.d(x)
        return net.a(h) * net.b(h) + net.c(h)

    before, after = fused(tail, "accumulate_products")
    assert len(before.operations("add")) == 3  # one of the forward pass
    assert after.operations("add") == []
    assert len(after.explanation["accumulate_products"].matched) == 3
    same(before, after, bits=False)
    assert Run(tail, passes.TRAINING_PASSES, threads=1).losses == Run(tail, passes.TRAINING_PASSES).losses


def test_gradients_of_a_shared_weight_are_summed_in_place():
    def tail(net, x):
        return net.a(ops.relu(net.a(x)))

    before, after = fused(tail, "accumulate_products")
    assert [len(r.operations("add")) for r in (before, after)] == [2, 1]  # the bias keeps its own
    same(before, after, bits=False)
    weights = framework.tensor(np.eye(300, dtype=np.float32), requires_grad=True)
    weights.persistable = True

    @framework.program(pass_names=(*PLAIN, "accumulate_products"))
    def gradient(x):
        ops.sum(ops.relu(ops.matmul(ops.relu(ops.matmul(x, weights)), weights))).backward()
        g, weights.grad = weights.grad, None
        return g

    x = framework.tensor(np.ones((2, 300), np.float32))
    assert gradient.program_for(x).memory_report([x]).in_place_count >= 1
    np.testing.assert_allclose(gradient(x).numpy(), np.full((300, 300), 4.0))


def test_a_product_that_is_read_twice_is_not_added_to():
    def tail(net, x):
        y = net.a(x)
        return ops.square(y) * (y + x)

    _, after = fused(tail, "accumulate_products")
    assert any("also read by" in line for line in after.explanation["accumulate_products"].missed)


def test_a_sum_of_shapes_that_were_equal_by_chance_is_traced_again():
    weights = framework.tensor(np.eye(4, dtype=np.float32))
    run = framework.program(lambda a, b: ops.matmul(a, weights) + b, pass_names=("accumulate_products",))
    a, row = np.ones((3, 4), np.float32), np.ones((1, 4), np.float32)
    np.testing.assert_array_equal(run(row, row).numpy(), np.full((1, 4), 2.0))
    np.testing.assert_array_equal(run(a, row).numpy(), np.full((3, 4), 2.0))
    assert run.traces_made == 2


# -- fuse_residual_layer_norm
NORMS = ("dropout", "add", "layer_norm", "layer_norm_grad", "residual_layer_norm", "residual_layer_norm_grad", "sum_to")


def drop(x, p=0.25):
    return nn.Dropout(p)(x)


def test_dropout_residual_and_layer_norm_become_one_operator_and_one_gradient():
    before, after = fused(lambda net, x: net.norm(net.d(x) + drop(net.a(x))), "fuse_residual_layer_norm")
    assert before.operations(*NORMS)[:3] == ["dropout(p=0.25)", "add()", "layer_norm()"]
    assert "layer_norm_grad()" in before.operations(*NORMS)
    assert after.operations("dropout", "add", "layer_norm", "layer_norm_grad") == []
    assert after.operations("residual_layer_norm", "residual_layer_norm_grad") == [
        "residual_layer_norm(p=0.25)",
        "residual_layer_norm_grad(p=0.25)",
    ]
    same(before, after, bits=True)
    assert re.match(
        r"dropout %\d+ -> add %\d+ -> layer_norm %\d+ \(test_transformer_passes.py:\d+\) fused",
        after.explanation["fuse_residual_layer_norm"].matched[0],
    )


def test_a_sum_that_goes_on_brings_its_gradient_along():
    """As in a Transformer that normalises before its sublayers."""

    def tail(net, x):
        s = net.d(x) + drop(net.a(x))
        return s + drop(net.b(net.norm(s)))

    before, after = fused(tail, "fuse_residual_layer_norm")
    assert after.operations("residual_layer_norm_grad") == ["residual_layer_norm_grad(p=0.25)"]
    assert after.operations("layer_norm_grad") == []
    same(before, after, bits=True)


def test_without_dropout_only_the_forward_pass_is_fused():
    before, after = fused(lambda net, x: net.norm(ops.relu(net.d(x)) + ops.relu(net.a(x))), "fuse_residual_layer_norm")
    assert after.operations(*NORMS)[0] == "residual_layer_norm()"
    assert "layer_norm_grad()" in after.operations(*NORMS)
    same(before, after, bits=True)


def test_a_residual_that_broadcasts_stays():
    def tail(net, x):
        return net.norm(drop(net.a(x)) + net.b.bias)

    _, after = fused(tail, "fuse_residual_layer_norm")
    assert after.explanation["fuse_residual_layer_norm"].missed[0].endswith("not fused: the residual broadcasts")


def test_a_dropout_that_others_read_stays_by_itself():
    def tail(net, x):
        dropped = drop(net.a(x))
        return net.norm(dropped + x) * dropped

    before, after = fused(tail, "fuse_residual_layer_norm")
    assert "dropout(p=0.25)" in after.operations("dropout")
    assert "also read by" in after.explanation["fuse_residual_layer_norm"].missed[0]
    same(before, after, bits=True)


def test_all_training_passes_together_keep_a_transformer_s_results():
    def tail(net, x):
        h = net.norm(x + drop(net.a(x)))
        return net.last(h + drop(net.c(ops.gelu(net.b(h)))))

    plain, all_of_them = Run(tail, PLAIN), Run(tail, passes.TRAINING_PASSES)
    same(plain, all_of_them, bits=False)
    for name in ("fuse_residual_layer_norm", "fuse_activation_grad"):
        assert all_of_them.explanation[name].matched, name
