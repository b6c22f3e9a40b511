"""The networks against their papers: weights, gradient penalty, schedule and steps of diffusion."""

import numpy as np
import pytest

from framework import from_numpy, no_grad, ops, program
from framework.errors import AttributeValueError
from framework.nn import init
from suites.generation import DCGAN, DDPM, WGANGP, CycleGAN, Pix2Pix, StarGAN
from suites.generation.models.diffusion import kept_signal, time_table
from suites.generation.models.networks import PatchCritic
from suites.generation.models.noise import gradient_penalty
from suites.generation.step import ImageBuffer


def size_of(layer):
    return sum(p.size for p in layer.parameters())


def test_networks_have_the_weights_that_their_authors_count():
    """PyTorch's tutorial of DCGAN, and what the authors' code of the others prints when it starts."""
    dcgan, pix, star = DCGAN(), Pix2Pix(), StarGAN(classes=8)
    assert (size_of(dcgan), size_of(dcgan.critics())) == (3_576_704, 2_765_568)
    assert (round(size_of(pix) / 1e3), round(size_of(pix.critics()) / 1e3)) == (54_415, 2_770)
    assert size_of(star.critics()) == 44_786_624
    # The authors' norms of CycleGAN have no scale and bias.
    cycle = CycleGAN(size=256, blocks=9)
    assert round((size_of(cycle.a) - 2 * (64 + 128 + 256 + 18 * 256 + 128 + 64)) / 1e3) == 11_378
    assert round((size_of(cycle.critics().a) - 2 * (128 + 256 + 512)) / 1e3) == 2_765


def test_a_critic_of_three_halvings_sees_70_pixels():
    critic = PatchCritic(4, 3, norm="none")
    init.initialize(critic, 0)
    x = np.random.default_rng(0).standard_normal((1, 128, 128, 3)).astype(np.float32)
    with no_grad():
        base = critic(from_numpy(x)).numpy()
        middle = base.shape[1] // 2
        touched = []
        for row in range(128):
            other = x.copy()
            other[:, row] += 5
            found = critic(from_numpy(other)).numpy()
            touched.append(not np.array_equal(found[0, middle, middle], base[0, middle, middle]))
    rows = np.flatnonzero(touched)
    assert rows[-1] - rows[0] + 1 == 70


def test_the_gradient_penalty_is_that_of_its_formula_and_so_is_its_own_gradient():
    """A critic w . x^2 / 2 has the gradient w x; both derivatives are known, in a Program as well."""
    rng = np.random.default_rng(0)
    w, real, made = (rng.standard_normal((n, 2, 2, 3)) for n in (1, 4, 4))
    share = rng.random((4, 1, 1, 1))
    between = real * share + made * (1 - share)
    length = np.sqrt(((w * between) ** 2).sum(axis=(1, 2, 3)))
    expected = ((length - 1) ** 2).mean()
    slope = (2 * (length - 1) / length / 4)[:, None, None, None] * w * between**2

    def penalty(weight, *others):
        weight.requires_grad = True
        found = gradient_penalty(lambda x: ops.sum(weight * ops.square(x) * 0.5, axes=(1, 2, 3)), *others)
        found.backward()
        return found, weight.grad

    given = [from_numpy(a) for a in (w, real, made, share)]
    for how in (penalty, program(penalty)):
        found, gradient = how(*given)
        assert float(found) == pytest.approx(expected, rel=1e-9)
        np.testing.assert_allclose(gradient.numpy()[0], slope.sum(axis=0), rtol=1e-9)
        given[0].grad = None


@pytest.mark.parametrize("layers", ["layer", "none"])
def test_the_penalty_of_convolutions_has_the_gradient_that_differences_find(layers):
    """In float64, with tanh, as the gradient of leaky ReLU jumps: a step of 1e-5 is off by 1e-10, rounding by 1e-11."""
    rng = np.random.default_rng(0)
    first, last = rng.standard_normal((6, 4, 4, 3)) * 0.3, rng.standard_normal((1, 8, 8, 6)) * 0.3
    ones, zeros = from_numpy(np.ones(6)), from_numpy(np.zeros(6))
    real, made, share = (from_numpy(a) for a in (*rng.standard_normal((2, 2, 16, 16, 3)), rng.random((2, 1, 1, 1))))

    def penalty(weight):
        weight.requires_grad = True

        def critic(x):
            x = ops.conv2d(x, weight, stride=2, padding=1)
            x = ops.group_norm(x, ones, zeros, groups=1)[0] if layers == "layer" else x
            return ops.conv2d(ops.tanh(x), from_numpy(last))

        return gradient_penalty(critic, real, made, share)

    weight = from_numpy(first)
    penalty(weight).backward()
    gradient = weight.grad.numpy()
    way, h = gradient / np.linalg.norm(gradient), 1e-5
    up, down = (float(penalty(from_numpy(first + sign * h * way)).numpy()) for sign in (1, -1))
    assert (up - down) / (2 * h) == pytest.approx(np.linalg.norm(gradient), rel=1e-6)


def test_the_cosine_schedule_and_the_times_are_those_of_the_papers():
    kept = kept_signal(1000)
    at = lambda t: np.cos((t / 1000 + 0.008) / 1.008 * np.pi / 2) ** 2  # noqa: E731
    np.testing.assert_allclose(kept[:900], at(np.arange(1, 901)) / at(0), rtol=1e-9)  # where no beta is cut
    assert (np.diff(kept) < 0).all() and 0 < kept[-1] < 1e-4
    table = time_table(1000, 8)
    np.testing.assert_allclose(table[7, [0, 4, 3, 7]], [np.sin(7), np.cos(7), np.sin(7e-3), np.cos(7e-3)], rtol=1e-6)


class Known:
    """Stands for a network: the noise is a known share of what it is shown, another one for each class."""

    def __call__(self, x, times, classes):
        factor = ops.reshape(ops.cast(classes, "float32") * 0.1 + 0.3, (0, 1, 1, 1))
        return x * factor + ops.cast(ops.reshape(times, (1, 1, 1, 1)), "float32") * 1e-4


@pytest.mark.parametrize("guidance", [0.0, 1.5])
def test_drawing_is_ddim_with_guidance_in_eager_and_as_a_program(guidance):
    shape = {"size": 4, "channels": 8, "factors": [1], "blocks": 1, "attention": False, "classes": 2}
    model = DDPM(**shape, times=100, steps=4, guidance=guidance)
    object.__setattr__(model, "network", Known())
    rng = np.random.default_rng(0)
    noise, targets = rng.standard_normal((3, 4, 4, 3)).astype(np.float32), np.array([0, 1, 1])
    x, kept = noise.astype(np.float64), kept_signal(100)
    times = [99, 66, 33, 0]
    for place, time in enumerate(times):
        eps = {c: x * (0.1 * c + 0.3) + time * 1e-4 for c in (0, 1, 2)}
        own = np.stack([eps[c][n] for n, c in enumerate(targets)])
        found = (1 + guidance) * own - guidance * eps[2]
        now, then = kept[time], kept[times[place + 1]] if place < 3 else 1.0
        clean = np.clip((x - np.sqrt(1 - now) * found) / np.sqrt(now), -1, 1)
        found = (x - np.sqrt(now) * clean) / np.sqrt(1 - now)
        x = np.sqrt(then) * clean + np.sqrt(1 - then) * found
    inputs = {"noise": from_numpy(noise), "targets": from_numpy(targets)}
    with no_grad():
        eager, traced = (how(inputs)["made"].numpy().copy() for how in (model.draw, program(model.draw)))
    # Four steps, each of which divides by sqrt(1 - kept), 0.03 at the least: rounding of 1e-7 grows to some 1e-5.
    np.testing.assert_allclose(eager, x, atol=1e-4)
    np.testing.assert_allclose(traced, eager, atol=1e-6)


def test_a_buffer_gives_older_pictures_half_of_the_time_and_draws_by_call_alone():
    buffer = ImageBuffer(4, seed=0)
    stream = [np.full((2, 1, 1, 3), call, np.float32) for call in range(300)]
    given = [buffer.swapped(pictures, call) for call, pictures in enumerate(stream)]
    np.testing.assert_array_equal(given[0], stream[0])  # as long as there is room
    older = np.mean([(a != b).all(axis=(1, 2, 3)).mean() for a, b in zip(given[2:], stream[2:], strict=True)])
    assert 0.4 < older < 0.6
    again = ImageBuffer(4, seed=0)
    for call, pictures in enumerate(stream[:150]):
        again.swapped(pictures, call)
    other = ImageBuffer(4, seed=0)
    other.load_state_dict(again.state_dict())
    np.testing.assert_array_equal(other.swapped(stream[150], 150), given[150])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: WGANGP(norm="batch"), "norm another than batch"),
        (lambda: WGANGP(critic_steps=0), "critic_steps 1 or more"),
        (lambda: DCGAN(size=48), "must be a power of two"),
        (lambda: CycleGAN(size=30), "must be multiples of 4"),
        (lambda: CycleGAN(cycle=-1), "none may be below 0"),
        (lambda: Pix2Pix(size=64), "must be multiples of 256"),
        (lambda: Pix2Pix(halvings=2), "must be 3"),
        (lambda: StarGAN(classes=1), "classes and halvings must be 2"),
        (lambda: DDPM(guidance=1.0), "needs classes"),
        (lambda: DDPM(channels=12), "multiple of 8"),
        (lambda: DDPM(steps=2000), "steps from 1 to times"),
    ],
)
def test_networks_that_cannot_be_are_refused(make, said):
    with pytest.raises(AttributeValueError, match=said):
        make()
