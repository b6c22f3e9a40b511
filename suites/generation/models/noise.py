"""DCGAN and WGAN-GP: pictures from noise (Radford et al. 2016, arXiv:1511.06434; Gulrajani et al. 2017,
arXiv:1704.00028).

Letters: N pictures, H W their size, C channels, Z numbers of noise, K classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from framework import Tensor, gradients, nn, no_grad, ops
from framework.errors import AttributeValueError
from framework.nn.init import Normal
from suites.engine.registry import register
from suites.generation.models.base import Adversarial, normal, planes, uniform
from suites.generation.models.networks import Norm, Up, conv, norm_of

_LEAST = 4  # height and width of the first map


def _widths(size: tuple[int, int], channels: int) -> list[int]:
    """Channels of the maps from the finest but the picture to the coarsest: C, 2C, 4C, ..., 8C at most."""
    doublings = (min(size) // _LEAST).bit_length() - 1
    return [channels * min(2**at, 8) for at in range(doublings)]


class NoiseGenerator(nn.Layer):
    """Noise and class to a picture: a product, then transposed convolutions with batch norm and ReLU, tanh.

    Args:
        size: H and W.
        noise: Z.
        channels: C of the last map but the picture.
        classes: K; 0 for none.
    """

    def __init__(self, size: tuple[int, int], noise: int, channels: int, classes: int) -> None:
        super().__init__()
        widths = _widths(size, channels)[::-1]
        factor = 2 ** len(widths)
        self._grid, self._classes, self._first = (size[0] // factor, size[1] // factor), classes, widths[0]
        inner = self._grid[0] * self._grid[1] * widths[0]
        self.start = nn.Linear(noise + classes, inner, bias=False, initializer=Normal(0.02))
        self.norms = nn.LayerList(nn.BatchNorm(width) for width in widths)
        self.ups = nn.LayerList(Up(a, b) for a, b in zip(widths, [*widths[1:], 3], strict=True))

    def forward(self, noise: Tensor, classes: Tensor | None) -> Tensor:
        """noise: [N, Z]; classes: int64 [N]; y: [N, H, W, 3] in [-1, 1]."""
        if classes is not None:
            noise = ops.concat([noise, ops.one_hot(classes, depth=self._classes)], axis=1)
        x = ops.reshape(self.start(noise), (0, *self._grid, self._first))
        for norm, up in zip(self.norms, self.ups, strict=True):
            x = up(ops.relu(norm(x)))
        return ops.tanh(x)


class NoiseCritic(nn.Layer):
    """A picture to one number: convolutions of stride 2 with leaky ReLU, the generator's mirror image.

    Args:
        size: H and W.
        channels: C of the first map.
        classes: K, whose planes are inputs too; 0 for none.
        norm: of all maps but the first.
    """

    def __init__(self, size: tuple[int, int], channels: int, classes: int, norm: Norm) -> None:
        super().__init__()
        widths = _widths(size, channels)
        self._size, self._classes = size, classes
        grid = size[0] // 2 ** len(widths), size[1] // 2 ** len(widths)
        bias = norm != "batch"
        ins = [3 + classes, *widths[:-1]]
        self.convs = nn.LayerList(conv(a, b, 4, 2, padding=1, bias=bias) for a, b in zip(ins, widths, strict=True))
        norms = [norm_of(norm, width) for width in widths[1:]]
        self.norms = nn.LayerList(each for each in norms if each is not None)
        self.out = nn.Linear(grid[0] * grid[1] * widths[-1], 1, bias=bias, initializer=Normal(0.02))

    def forward(self, images: Tensor, classes: Tensor | None) -> Tensor:
        """images: [N, H, W, 3]; classes: int64 [N]; y: [N, 1]."""
        x = images
        if classes is not None:
            x = ops.concat([x, planes(classes, self._classes, self._size)], axis=3)
        for at, layer in enumerate(self.convs):
            x = layer(x)
            x = ops.leaky_relu(self.norms[at - 1](x) if at and len(self.norms) else x, slope=0.2)
        return self.out(ops.reshape(x, (0, -1)))


class NoiseModel(Adversarial):
    """Base of models that draw from noise.

    Args:
        size: H and W in pixels, 8 or more times a power of two, such as 64.
        noise: Z; 100 in DCGAN's paper, 128 in WGAN-GP's.
        channels: of the finest maps; 64 in both.
        classes: K, where what is drawn is chosen by class; 0 for none.
        norm: of the critic.
    """

    from_noise: ClassVar[bool] = True

    def __init__(self, size: int | list[int], noise: int, channels: int, classes: int, norm: Norm) -> None:
        super().__init__(size, 8)
        name = type(self).__name__
        if min(self.size) & (min(self.size) - 1) or noise < 1 or channels < 1 or classes < 0:
            raise AttributeValueError(
                f"{name}: size is {size}, noise {noise}, channels {channels} and classes {classes}; the shorter side "
                "must be a power of two, noise and channels 1 or more, classes 0 or more"
            )
        self.noise, self.num_classes = (noise,), classes
        self._channels, self._norm = channels, norm
        self.generator = NoiseGenerator(self.size, noise, channels, classes)

    def critics(self) -> nn.Layer:
        """One."""
        return NoiseCritic(self.size, self._channels, self.num_classes, self._norm)

    def draw(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`made` of `noise` and `targets`."""
        return {"made": self.generator(inputs["noise"], inputs.get("targets"))}

    def _drawn(self, inputs: Mapping[str, Tensor]) -> Tensor:
        return self.generator(normal(inputs["images"].shape[0], *self.noise), inputs.get("labels"))


@register("generative_model")
class DCGAN(NoiseModel):
    """The plain adversarial game with convolutions (Radford et al. 2016); generators minimise -log of what fools.

    At 64 pixels, 100 numbers of noise and 64 channels the generator has 3,576,704 weights, the critic 2,765,568, as in
    PyTorch's tutorial. `optimizer: {type: Adam, beta1: 0.5}` at 2e-4 is the paper's.

    Args:
        size: H and W in pixels, a power of two.
        noise: numbers of noise.
        channels: of the finest maps.
        classes: K, where what is drawn is chosen by class; 0 for none.
    """

    def __init__(self, size: int | list[int] = 64, noise: int = 100, channels: int = 64, classes: int = 0) -> None:
        super().__init__(size, noise, channels, classes, "batch")

    def make(self, inputs: Mapping[str, Tensor], critics: nn.Layer) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """How far the critic takes what was drawn for drawn."""
        told = critics(self._drawn(inputs), inputs.get("labels"))
        return {"adversarial": ops.mean(ops.softplus(-told))}, {}

    def judge(self, inputs: Mapping[str, Tensor], critics: nn.Layer) -> dict[str, Tensor]:
        """The cross entropy of real and of drawn pictures, as batches apart."""
        with no_grad():
            made = self._drawn(inputs)
        labels = inputs.get("labels")
        real, drawn = critics(inputs["images"], labels), critics(made.detach(), labels)
        return {"critic_real": ops.mean(ops.softplus(-real)), "critic_made": ops.mean(ops.softplus(drawn))}


@register("generative_model")
class WGANGP(NoiseModel):
    """Wasserstein GAN whose critic's gradient is held at length 1 between real and drawn (Gulrajani et al. 2017).

    The losses may be below zero. `optimizer: {type: Adam, beta1: 0.0, beta2: 0.9}` at 1e-4 is the paper's.

    Args:
        size: H and W in pixels, a power of two.
        noise: numbers of noise.
        channels: of the finest maps.
        classes: K, where what is drawn is chosen by class; 0 for none.
        penalty: weight of the gradient's distance from 1; 10 in the paper.
        critic_steps: updates of the critic for one of the generator; 5 in the paper.
        norm: of the critic; "layer" or "none", as batch norm makes pictures of a batch depend on each other.
    """

    def __init__(
        self,
        size: int | list[int] = 64,
        noise: int = 128,
        channels: int = 64,
        classes: int = 0,
        penalty: float = 10.0,
        critic_steps: int = 5,
        norm: Norm = "layer",
    ) -> None:
        super().__init__(size, noise, channels, classes, norm)
        if penalty <= 0 or critic_steps < 1 or norm == "batch":
            raise AttributeValueError(
                f"WGANGP: penalty is {penalty}, critic_steps {critic_steps} and norm {norm}; penalty must be above 0, "
                "critic_steps 1 or more, and norm another than batch, with which the gradient of one picture means "
                "nothing"
            )
        self._penalty, self.critic_steps = penalty, critic_steps

    def make(self, inputs: Mapping[str, Tensor], critics: nn.Layer) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Minus the critic's mean over what was drawn."""
        return {"adversarial": -ops.mean(critics(self._drawn(inputs), inputs.get("labels")))}, {}

    def judge(self, inputs: Mapping[str, Tensor], critics: nn.Layer) -> dict[str, Tensor]:
        """`critic`, minus the distance, and `penalty`."""
        with no_grad():
            made = self._drawn(inputs).detach()
        labels, real = inputs.get("labels"), inputs["images"]
        distance = ops.mean(critics(made, labels)) - ops.mean(critics(real, labels))
        penalty = gradient_penalty(lambda x: critics(x, labels), real, made, uniform(real.shape[0], 1, 1, 1))
        return {"critic": distance, "penalty": self._penalty * penalty}


def gradient_penalty(critic: Callable[[Tensor], Tensor], real: Tensor, made: Tensor, share: Tensor) -> Tensor:
    """Mean of (|gradient of the critic| - 1)^2 at points between real and drawn pictures (Gulrajani et al. 2017, sec.
    4).

    Args:
        critic: pictures [N, H, W, 3] to numbers.
        real, made: [N, H, W, 3], constants.
        share: [N, 1, 1, 1] of the real picture in each point.
    """
    between = (real * share + made * (1.0 - share)).detach()
    between.requires_grad = True
    (gradient,) = gradients([ops.sum(critic(between))], [between], create_graph=True)
    assert gradient is not None
    length = ops.sqrt(ops.sum(ops.square(gradient), axes=(1, 2, 3)) + 1e-12)
    return ops.mean(ops.square(length - 1.0))
