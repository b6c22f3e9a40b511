"""DDPM: pictures by taking noise away step by step (Ho et al. 2020, arXiv:2006.11239).

The schedule is the cosine of Nichol and Dhariwal 2021 (arXiv:2102.09672), drawing is DDIM's without noise (Song et al.
2021, arXiv:2010.02502), classes are followed by classifier-free guidance (Ho and Salimans 2022, arXiv:2207.12598).

Letters: N pictures, H W their size, C channels, E numbers of a time, K classes, T times of training, S steps of
drawing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from framework import Tensor, nn, ops, tensor
from framework.control import scan
from framework.errors import AttributeValueError
from framework.nn import init
from framework.random import default_generator
from suites.engine.contract.losses import Loss, count_of
from suites.engine.registry import register
from suites.generation.models.base import Denoiser, normal, uniform

_GROUPS = 8  # of each norm
_OFFSET = 0.008  # s of the cosine schedule
_MOST_BETA = 0.999
_PERIOD = 10_000.0  # of the slowest sine of a time


def kept_signal(times: int) -> np.ndarray:
    """float64 [T]: alpha bar, the share of the picture's variance that is left at each time (Nichol, equation 17)."""
    at = np.cos((np.arange(times + 1) / times + _OFFSET) / (1 + _OFFSET) * np.pi / 2) ** 2
    betas = np.minimum(1 - at[1:] / at[:-1], _MOST_BETA)
    return np.cumprod(1 - betas)


def time_table(times: int, width: int) -> np.ndarray:
    """float32 [T, C]: sines and cosines of each time (Vaswani et al. 2017, section 3.5)."""
    rates = np.exp(-math.log(_PERIOD) * np.arange(width // 2) / (width // 2))
    angles = np.arange(times)[:, None] * rates
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


class ResBlock(nn.Layer):
    """Two convolutions beside a shortcut; the time is added between them.

    Args:
        channels_in, channels: before and after.
        width: E.
        dropout: before the second convolution.
    """

    def __init__(self, channels_in: int, channels: int, width: int, dropout: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(_GROUPS, channels_in), nn.GroupNorm(_GROUPS, channels)
        self.conv1 = nn.Conv2d(channels_in, channels, 3)
        self.conv2 = nn.Conv2d(channels, channels, 3, initializer=init.Constant(0.0))
        self.time = nn.Linear(width, channels)
        self.drop = nn.Dropout(dropout)
        self.short = nn.Conv2d(channels_in, channels, 1) if channels_in != channels else None

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """x: [N, H, W, C]; time: [N or 1, E]."""
        y = self.conv1(ops.silu(self.norm1(x)))
        y = y + ops.reshape(self.time(ops.silu(time)), (0, 1, 1, -1))
        y = self.conv2(self.drop(ops.silu(self.norm2(y))))
        return y + (x if self.short is None else self.short(x))


class PixelAttention(nn.Layer):
    """Each pixel looks at all others, beside a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(_GROUPS, channels)
        self.query, self.key, self.value = (nn.Linear(channels, channels) for _ in range(3))
        self.out = nn.Linear(channels, channels, initializer=init.Constant(0.0))
        self._channels, self._scale = channels, channels**-0.5

    def forward(self, x: Tensor) -> Tensor:
        """x, y: [N, H, W, C]."""
        rows = ops.reshape(self.norm(x), (0, -1, self._channels))
        scores = ops.softmax(ops.matmul(self.query(rows), self.key(rows), transpose_b=True) * self._scale, axis=-1)
        return x + ops.reshape_like(self.out(ops.matmul(scores, self.value(rows))), x)


class NoiseUNet(nn.Layer):
    """A noisy picture with its time and class to the noise in it.

    Args:
        channels: C of the finest maps, a multiple of 8.
        factors: of C, for each size of the maps; each is half of the one before.
        blocks: at each size.
        attention: whether pixels of the coarsest maps look at each other.
        dropout: in blocks.
        times: T.
        classes: K; 0 for none.
    """

    table: Tensor

    def __init__(
        self, channels: int, factors: list[int], blocks: int, attention: bool, dropout: float, times: int, classes: int
    ) -> None:
        super().__init__()
        width = 4 * channels
        self.register_buffer("table", time_table(times, channels))
        self.time1, self.time2 = nn.Linear(channels, width), nn.Linear(width, width)
        self.classes = nn.Embedding(classes + 1, width) if classes else None  # the last one is that of no class
        self.start = nn.Conv2d(3, channels, 3)
        self._levels, self._blocks = len(factors), blocks
        widths = [channels * factor for factor in factors]
        kept, now = [channels], channels
        self.down, self.smaller = nn.LayerList([]), nn.LayerList([])
        for level, wide in enumerate(widths):
            for _ in range(blocks):
                self.down.append(ResBlock(now, wide, width, dropout))
                now = wide
                kept.append(now)
            if level < len(widths) - 1:
                self.smaller.append(nn.Conv2d(now, now, 3, 2))
                kept.append(now)
        self.middle = nn.LayerList([ResBlock(now, now, width, dropout), ResBlock(now, now, width, dropout)])
        self.attention = PixelAttention(now) if attention else None
        self.up, self.larger = nn.LayerList([]), nn.LayerList([])
        for level, wide in reversed(list(enumerate(widths))):
            for _ in range(blocks + 1):
                self.up.append(ResBlock(now + kept.pop(), wide, width, dropout))
                now = wide
            if level:
                self.larger.append(nn.Conv2d(now, now, 3))
        self.norm = nn.GroupNorm(_GROUPS, now)
        self.out = nn.Conv2d(now, 3, 3, initializer=init.Constant(0.0))

    def forward(self, x: Tensor, times: Tensor, classes: Tensor | None) -> Tensor:
        """x: [N, H, W, 3]; times: int64 [N] or [1]; classes: int64 [N], K for none; y: [N, H, W, 3]."""
        time = self.time2(ops.silu(self.time1(ops.gather(self.table, times, axis=0))))
        if classes is not None and self.classes is not None:
            time = time + self.classes(classes)
        downs, ups = iter(self.down), iter(self.up)
        x = self.start(x)
        kept = [x]
        for level in range(self._levels):
            for _ in range(self._blocks):
                x = next(downs)(x, time)
                kept.append(x)
            if level < self._levels - 1:
                x = self.smaller[level](x)
                kept.append(x)
        x = self.middle[0](x, time)
        x = self.middle[1](x if self.attention is None else self.attention(x), time)
        for level in range(self._levels):
            for _ in range(self._blocks + 1):
                x = next(ups)(ops.concat([x, kept.pop()], axis=3), time)
            if level < self._levels - 1:
                x = self.larger[level](ops.resize_nearest(x, scale=2))
        return self.out(ops.silu(self.norm(x)))


@register("generative_model")
class DDPM(Denoiser):
    """Learns the noise in noisy pictures, and draws by taking it away.

    Args:
        size: H and W in pixels, multiples of 2^(levels - 1).
        channels: of the finest maps, a multiple of 8.
        factors: of `channels` at each level; there are as many levels as factors.
        blocks: at each level.
        attention: whether pixels of the coarsest level look at each other.
        dropout: in blocks, while training.
        classes: K, where what is drawn is chosen by class; 0 for none.
        times: T, levels of noise in training; 1,000 in the paper.
        steps: S, of drawing; more draw more slowly and more precisely.
        guidance: w of classifier-free guidance: noise (1 + w) eps(class) - w eps(no class); 0 for none.
        unlabelled: share of training pictures whose class is left out; 0.1 to 0.2 in the paper.
    """

    from_noise: ClassVar[bool] = True

    def __init__(
        self,
        size: int | list[int] = 32,
        channels: int = 64,
        factors: list[int] | None = None,
        blocks: int = 2,
        attention: bool = True,
        dropout: float = 0.1,
        classes: int = 0,
        times: int = 1000,
        steps: int = 50,
        guidance: float = 0.0,
        unlabelled: float = 0.1,
    ) -> None:
        factors = [1, 2, 2] if factors is None else factors
        if channels % _GROUPS or not factors or min(factors) < 1 or blocks < 1 or not 1 <= steps <= times:
            raise AttributeValueError(
                f"DDPM: channels is {channels}, factors {factors}, blocks {blocks}, steps {steps} and times {times}; "
                f"channels must be a multiple of {_GROUPS}, factors and blocks 1 or more, steps from 1 to times"
            )
        if guidance < 0 or not 0 <= unlabelled < 1 or (guidance and not (classes and unlabelled)):
            raise AttributeValueError(
                f"DDPM: guidance is {guidance}, unlabelled {unlabelled} and classes {classes}; guidance is 0 or more "
                "and needs classes and a share of unlabelled pictures below 1"
            )
        super().__init__(size, 2 ** (len(factors) - 1))
        self.noise, self.num_classes = (*self.size, 3), classes
        self._times, self._steps, self._guidance, self._unlabelled = times, steps, guidance, unlabelled
        self._kept = kept_signal(times)
        self.network = NoiseUNet(channels, factors, blocks, attention, dropout, times, classes)

    def losses(self, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """Mean squared error of the noise, at a time drawn for each picture (Ho, equation 14)."""
        images = inputs["images"]
        count = images.shape[0]
        times = ops.random_integers(default_generator.key(), shape=(count,), low=0, high=self._times, dtype="int64")
        noise = normal(count, *self.noise)
        kept = ops.reshape(ops.gather(tensor(self._kept.astype(np.float32)), times, axis=0), (0, 1, 1, 1))
        noisy = ops.sqrt(kept) * images + ops.sqrt(1.0 - kept) * noise
        classes = None
        if self.num_classes:
            left_out = ops.less(uniform(count), self._unlabelled)
            classes = ops.where(left_out, ops.full_like(inputs["labels"], value=self.num_classes), inputs["labels"])
        found = self.network(noisy, times, classes)
        return {"noise": Loss(ops.mean(ops.square(found - noise)), count_of(images))}

    def draw(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`made` of `noise` [N, H, W, 3] and `targets`; a loop of S steps in the Program."""
        at = np.linspace(self._times - 1, 0, self._steps).round().astype(np.int64)
        kept = self._kept[at]
        after = np.append(kept[1:], 1.0)
        columns = [tensor(at[:, None]), *(tensor(a.astype(np.float32)) for a in (kept, after))]
        targets = inputs.get("targets")

        def step(x: Tensor, rows: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
            time, now, then = rows
            noise = self._noise_in(x, time, targets)
            # Of the picture it seems to be, what no picture can have is cut, and the noise is what is left.
            clean = ops.clip((x - ops.sqrt(1.0 - now) * noise) / ops.sqrt(now), min=-1.0, max=1.0)
            noise = (x - ops.sqrt(now) * clean) / ops.sqrt(1.0 - now)
            return ops.sqrt(then) * clean + ops.sqrt(1.0 - then) * noise, ()

        made, _ = scan(step, inputs["noise"], tuple(columns))
        return {"made": made}

    def _noise_in(self, x: Tensor, time: Tensor, targets: Tensor | None) -> Tensor:
        if targets is None or not self._guidance:
            return self.network(x, time, targets)
        none = ops.full_like(targets, value=self.num_classes)
        both = self.network(ops.concat([x, x], axis=0), time, ops.concat([targets, none], axis=0))
        halves = ops.reshape(both, (2, -1, *self.noise))
        by_class, without = halves[0], halves[1]
        return (1.0 + self._guidance) * by_class - self._guidance * without
