"""update_early and recompute_activations: Programs before and after, the same bits, less memory."""

import re

import numpy as np
import pytest

import framework
from framework import nn, ops
from framework.graph import passes
from framework.nn import init
from framework.optim import Momentum

FUSED = ("merge_equal_operations", "drop_dead_code", "fuse_batch_norm_grad", "fuse_batch_norm", "fuse_activation")
X = np.random.default_rng(0).standard_normal((2, 12, 12, 4), np.float32)


class Block(nn.Layer):
    """conv -> norm -> ReLU, with the input added before the ReLU if asked for."""

    def __init__(self, residual=False):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm(4)
        self.residual = residual

    def forward(self, x):
        y = self.norm(self.conv(x))
        return ops.relu(y + x if self.residual else y)


def trained(layers, pass_names, x=X):
    """The compiled step, and the bits of losses and weights after some steps."""
    net = nn.Sequential(*layers)
    init.initialize(net, 0)
    optimizer = Momentum(net.named_parameters(), lr=0.1)

    @framework.program(pass_names=pass_names)
    def step(images):
        loss = ops.mean(ops.square(net(images)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(x).numpy().tobytes() for _ in range(2)]
    return step.program_for(x), (losses, {k: t.numpy().tobytes() for k, t in net.state_dict().items()})


def names(compiled):
    return [op.name for op in compiled.program.block]


def test_weight_gradients_come_first_and_steps_follow_the_last_reader_of_the_weight():
    before, plain = trained([Block(), Block()], FUSED)
    after, early = trained([Block(), Block()], (*FUSED, "update_early"))
    assert plain == early
    backward = [n for n in names(before) if n.startswith("conv2d_grad") or n == "momentum_step"]
    assert backward == ["conv2d_grad_input", *["conv2d_grad_weight"] * 2, *["momentum_step"] * 6]
    moved = [n for n in names(after) if n.startswith("conv2d_grad") or n == "momentum_step"]
    assert moved == [
        "conv2d_grad_weight",
        *["momentum_step"] * 2,  # scale and bias of the last norm, which its gradient has just read
        "conv2d_grad_input",
        "momentum_step",  # the last convolution's weight, which the line above read
        "conv2d_grad_weight",
        *["momentum_step"] * 3,
    ]
    assert "run earlier" in after.explain()["update_early"].matched[0]


def test_gradients_of_weights_do_not_pile_up_until_the_end():
    x = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)
    layers = lambda: [nn.Linear(64, 64) for _ in range(8)]  # noqa: E731
    before, plain = trained(layers(), FUSED, x=x)
    after, early = trained(layers(), (*FUSED, "update_early"), x=x)
    assert plain == early
    gradient = 4 * 64 * 64
    assert before.memory_report().arena_bytes > 8 * gradient
    assert after.memory_report().arena_bytes < 3 * gradient


def test_a_step_that_replaces_a_weight_is_not_run_before_others_have_read_it():
    weight = framework.tensor(np.ones(3, np.float32), requires_grad=True)
    weight.persistable = True

    def step(x):
        weight.set(weight * 2.0)  # ready at once, but the sum below wants the old value
        return ops.sum(ops.exp(x) + weight.detach())

    run = framework.program(lambda x: (step(x), weight * 1.0)[0], pass_names=("update_early",))
    expected = float(np.exp(1.0) * 3 + 6.0)
    np.testing.assert_allclose(run(np.ones(3, np.float32)).numpy(), expected, rtol=1e-6)
    assert weight.tolist() == [2.0] * 3


def test_states_that_wait_for_each_other_keep_their_order():
    a, b = (framework.tensor(np.full(2, v, np.float32)) for v in (1.0, 5.0))
    a.persistable = b.persistable = True

    def swap(x):
        old_a, old_b = a * 1.0, b * 1.0
        a.set(old_b + a * 0.0)
        b.set(old_a + b * 0.0)
        return x

    run = framework.program(swap, pass_names=("update_early",))
    run(np.ones(1, np.float32))
    assert a.tolist() == [5.0] * 2 and b.tolist() == [1.0] * 2


RECOMPUTED = (*FUSED, "update_early", "recompute_activations")


def test_outputs_of_batch_norm_are_made_again_for_the_weight_gradient():
    layers = lambda: [Block() for _ in range(6)]  # noqa: E731
    before, plain = trained(layers(), RECOMPUTED[:-1])
    after, again = trained(layers(), RECOMPUTED)
    assert plain == again
    assert "batch_norm_inference" not in names(before)
    assert names(after).count("batch_norm_inference") == 4  # not the last two, which are needed again at once
    text = str(after.program).splitlines()
    at = [i for i, line in enumerate(text) if "batch_norm_inference" in line]
    assert all("conv2d_grad_weight" in text[i + 1] for i in at)
    made = re.search(r"(%\d+): \S+", text[at[0]]).group(1)
    assert f"conv2d_grad_weight({made}" in text[at[0] + 1]
    assert after.memory_report().arena_bytes < 0.75 * before.memory_report().arena_bytes
    assert len(after.explain()["recompute_activations"].matched) == 4


def test_a_chain_of_residuals_is_made_again_from_its_start():
    layers = lambda: [Block(), *[Block(residual=True) for _ in range(6)]]  # noqa: E731
    before, plain = trained(layers(), RECOMPUTED[:-1])
    after, again = trained(layers(), RECOMPUTED)
    assert plain == again
    assert names(after).count("batch_norm_inference") == 4
    assert after.memory_report().arena_bytes < before.memory_report().arena_bytes


def test_activations_without_fusion_are_made_again_through_the_norm():
    unfused = ("merge_equal_operations", "drop_dead_code", "update_early", "recompute_activations")
    layers = lambda: [Block() for _ in range(6)]  # noqa: E731
    _, plain = trained(layers(), unfused[:-1])
    after, again = trained(layers(), unfused)
    assert plain == again
    assert names(after).count("relu") == 6 + 4 and names(after).count("batch_norm_inference") == 4


def test_gelu_is_made_again_from_what_its_own_gradient_keeps():
    """As between the two linear layers of a Transformer, where it is the largest activation."""
    layers = [part for _ in range(3) for part in (nn.Linear(4, 64), nn.Activation("gelu"), nn.Linear(64, 4))]
    x = X.reshape(-1, 4)
    before, plain = trained(layers, ("merge_equal_operations", "drop_dead_code", "update_early"), x)
    layers = [part for _ in range(3) for part in (nn.Linear(4, 64), nn.Activation("gelu"), nn.Linear(64, 4))]
    passes_ = ("merge_equal_operations", "drop_dead_code", "update_early", "recompute_activations")
    after, again = trained(layers, passes_, x)
    assert plain == again
    assert names(before).count("gelu") == 3 and names(after).count("gelu") == 5  # the last is read again at once
    assert after.memory_report().arena_bytes < before.memory_report().arena_bytes


class Sublayer(nn.Layer):
    """What a Transformer has twice a layer: norm(x + dropout(ReLU and products of x))."""

    def __init__(self):
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(32, 64), nn.Linear(64, 32), nn.LayerNorm(32)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.norm(x + self.dropout(self.down(ops.relu(self.up(x)))))


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_a_layer_norm_of_a_sum_is_made_again_from_the_sum(precision):
    x = np.random.default_rng(2).standard_normal((64, 32)).astype(np.float32)
    fused = ("merge_equal_operations", "drop_dead_code", "fuse_residual_layer_norm", "update_early")
    results = []
    with framework.autocast(precision):
        for pass_names in (fused, (*fused, "recompute_activations")):
            framework.random.seed(0)
            results.append(trained([Sublayer() for _ in range(4)], pass_names, x=x))
    (before, plain), (after, again) = results
    assert plain == again
    assert names(after).count("layer_norm") == names(before).count("layer_norm") + 2  # the others are read soon
    assert after.memory_report().arena_bytes < before.memory_report().arena_bytes


def test_what_is_read_soon_or_depends_on_what_is_gone_is_kept():
    w = framework.tensor(np.eye(4, dtype=np.float32))
    w.persistable = True

    def f(x):
        from_input, from_sigmoid = ops.relu(x), ops.relu(ops.sigmoid(x))
        z = ops.matmul(from_input + from_sigmoid, w)
        for _ in range(6):
            z = ops.matmul(z, w)
        return from_input + z + from_sigmoid  # nothing keeps the sigmoid, and it costs too much to make it again

    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    run = framework.program(f, pass_names=("merge_equal_operations", "recompute_activations"))
    expected = framework.program(f, pass_names=())(x).numpy()
    np.testing.assert_array_equal(run(x).numpy(), expected)
    report = run.explain(x)["recompute_activations"]
    assert [op.name for op in run.program_for(x).program.block].count("relu") == 2 + 1
    assert len(report.matched) == 1
    assert re.match(r"relu %\d+ \(\S+\) not computed again: %\d+ is not alive any more", report.missed[0])


def test_training_uses_both():
    last = [n for n in passes.TRAINING_PASSES if n in ("update_early", "recompute_activations")]
    assert last == ["update_early", "recompute_activations"]
