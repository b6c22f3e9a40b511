"""accumulate_products: Programs before and after, the same results, and what it leaves alone."""

import re

import numpy as np

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
