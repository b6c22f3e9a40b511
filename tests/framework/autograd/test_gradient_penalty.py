"""Training with a gradient in the loss: a critic under the penalty of WGAN-GP (Gulrajani et al., arXiv:1704.00028)."""

import numpy as np
import pytest

import framework
from framework import nn, ops, optim
from framework.nn import init

WEIGHT = 10.0  # of the penalty, as in the paper
STEPS = 150


class RowCritic(nn.Layer):
    """x: [N, 2] -> score [N, 1]."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(2, 32), nn.Linear(32, 32), nn.Linear(32, 1)

    def forward(self, x):
        return self.last(ops.tanh(self.second(ops.tanh(self.first(x)))))


class ImageCritic(nn.Layer):
    """x: [N, 6, 6, 1] -> score [N, 1]."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.second = nn.Conv2d(8, 16, 3, padding=1)
        self.norm = nn.GroupNorm(4, 16)
        self.last = nn.Linear(16, 1)

    def forward(self, x):
        x = ops.leaky_relu(self.first(x), slope=0.2)
        x = ops.silu(self.norm(self.second(x)))
        return self.last(ops.mean(x, axes=(1, 2)))


def make_step(critic):
    """One step of training on real and false samples: loss and mean gradient norm between the two."""
    optimizer = optim.Adam(critic.named_parameters(), lr=0.005, beta1=0.5)

    def step(real, false, share):
        between = ops.lerp(false, real, share)
        between.requires_grad = True
        (slope,) = framework.gradients([ops.sum(critic(between))], [between], create_graph=True)
        norms = ops.sqrt(ops.sum(ops.square(slope), axes=tuple(range(1, slope.ndim))) + 1e-12)
        penalty = ops.mean(ops.square(norms - 1.0))
        loss = ops.mean(critic(false)) - ops.mean(critic(real)) + WEIGHT * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, ops.mean(norms)

    return step


def batches(shape, steps):
    """Real samples around 1, false ones around -1, and where to look between the two."""
    rng = np.random.default_rng(0)
    for _ in range(steps):
        real, false = (rng.standard_normal((32, *shape)) * 0.3 + at for at in (0.5, -0.5))
        share = rng.random((32, *[1] * len(shape)))
        yield [framework.tensor(a.astype(np.float32)) for a in (real, false, share)]


def train(make_critic, shape, steps, wrap):
    """Losses, gradient norms and final parameters."""
    critic = make_critic()
    init.initialize(critic, 0)
    step = wrap(make_step(critic))
    found = [[float(v) for v in step(*batch)] for batch in batches(shape, steps)]
    return np.array(found).T, [p.numpy().copy() for _, p in critic.named_parameters()]


def test_a_critic_under_a_gradient_penalty_learns_a_slope_of_one():
    (losses, norms), _ = train(RowCritic, (2,), STEPS, framework.program)
    assert losses[0] > 3 and norms[0] < 0.6  # where it started
    # The means are d = sqrt(2) apart. A slope of s along that line gives -s d + 10 (s - 1)^2, least at s = 1 + d / 20.
    distance = np.sqrt(2)
    assert abs(norms[-30:].mean() - (1 + distance / 20)) < 0.05
    assert abs(losses[-30:].mean() - (-distance - distance**2 / 40)) < 0.1


@pytest.mark.parametrize(("make_critic", "shape"), [(RowCritic, (2,)), (ImageCritic, (6, 6, 1))])
def test_eager_and_program_train_alike_with_a_gradient_penalty(make_critic, shape):
    eager, eager_parameters = train(make_critic, shape, 5, lambda step: step)
    plain, plain_parameters = train(make_critic, shape, 5, lambda step: framework.program(step, pass_names=()))
    assert eager.tobytes() == plain.tobytes()
    for a, b in zip(eager_parameters, plain_parameters, strict=True):
        assert a.tobytes() == b.tobytes()
    with_passes, _ = train(make_critic, shape, 5, framework.program)
    # Five steps of some hundred roundings each, which Adam's division by the gradient's size can enlarge.
    np.testing.assert_allclose(with_passes, eager, rtol=5 * 128 * np.finfo(np.float32).eps, atol=1e-5)
