"""pix2pix: a picture becomes its partner, learnt from pairs (Isola et al. 2017, arXiv:1611.07004)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from framework import Tensor, nn, no_grad, ops
from framework.errors import AttributeValueError
from suites.engine.registry import register
from suites.generation.models.base import Adversarial, Kind, away
from suites.generation.models.networks import PatchCritic, Up, conv

_DROPPED = 3  # innermost maps of the way up that have dropout


class UNet(nn.Layer):
    """Down to one pixel by convolutions of stride 2 and up again, each map of the way down joined to its like.

    Args:
        channels: of the first map; 64 in the paper.
        halvings: maps of the way down; 8 for 256 pixels in the paper.
        dropout: of the innermost maps of the way up, while training.
    """

    def __init__(self, channels: int, halvings: int, dropout: float) -> None:
        super().__init__()
        widths = [channels * min(2**at, 8) for at in range(halvings)]
        inner = halvings - 1
        self.downs = nn.LayerList(
            conv(a, b, 4, 2, padding=1, bias=at in (0, inner))
            for at, (a, b) in enumerate(zip([3, *widths[:-1]], widths, strict=True))
        )
        self.down_norms = nn.LayerList(nn.BatchNorm(width) for width in widths[1:-1])
        ins = [widths[-1], *(2 * width for width in widths[-2::-1])]
        outs = [*widths[-2::-1], 3]
        self.ups = nn.LayerList(Up(a, b, bias=at == inner) for at, (a, b) in enumerate(zip(ins, outs, strict=True)))
        self.up_norms = nn.LayerList(nn.BatchNorm(width) for width in outs[:-1])
        self.drop = nn.Dropout(dropout)
        self._dropped = min(_DROPPED, halvings - 2)

    def forward(self, x: Tensor) -> Tensor:
        """x, y: [N, H, W, 3]; y in [-1, 1]."""
        kept = [self.downs[0](x)]
        for at, layer in enumerate(self.downs):
            if at:
                x = layer(ops.leaky_relu(kept[-1], slope=0.2))
                kept.append(self.down_norms[at - 1](x) if at < len(self.downs) - 1 else x)
        x = kept.pop()
        for at, up in enumerate(self.ups):
            x = up(ops.relu(x))
            if at < len(self.ups) - 1:
                x = self.up_norms[at](x)
                if 0 < at <= self._dropped:
                    x = self.drop(x)
                x = ops.concat([kept.pop(), x], axis=3)
        return ops.tanh(x)


@register("generative_model")
class Pix2Pix(Adversarial):
    """A U-Net that draws the partner of a picture; a critic of patches that sees both.

    The U-Net of 256 pixels has 54,414 thousand weights, the critic 2,769 thousand, as the authors' code prints them.
    The paper keeps dropout when it draws; here it is of training alone, so that a picture always becomes the same one.

    Args:
        size: H and W in pixels, multiples of 2^halvings.
        channels: of the U-Net's first map; 64 in the paper.
        halvings: maps of the way down; 8 for 256 pixels in the paper, 6 for 64.
        critic_channels: of the critic's first map; 64 in the paper.
        critic_halvings: convolutions of stride 2 of the critic; the paper's 3 see 70 x 70 pixels.
        l1: weight of the mean absolute difference from the partner; 100 in the paper.
        dropout: of the innermost maps of the way up; 0.5 in the paper.
    """

    kind: ClassVar[Kind] = "pairs"

    def __init__(
        self,
        size: int | list[int] = 256,
        channels: int = 64,
        halvings: int = 8,
        critic_channels: int = 64,
        critic_halvings: int = 3,
        l1: float = 100.0,
        dropout: float = 0.5,
    ) -> None:
        if halvings < 3 or l1 < 0:
            raise AttributeValueError(f"Pix2Pix: halvings is {halvings} and l1 {l1}; they must be 3 and 0 or more")
        super().__init__(size, 2**halvings)
        self.generator = UNet(channels, halvings, dropout)
        self._critic, self._l1 = (critic_channels, critic_halvings), l1

    def critics(self) -> nn.Layer:
        """One, that sees both pictures of a pair."""
        return PatchCritic(*self._critic, channels_in=6, norm="batch")

    def draw(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`made` of `images`."""
        return {"made": self.generator(inputs["images"])}

    def make(self, inputs: Mapping[str, Tensor], critics: nn.Layer) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What the critic says, and the distance from the partner."""
        made = self.generator(inputs["images"])
        told = critics(ops.concat([inputs["images"], made], axis=3))
        return {"adversarial": ops.mean(ops.softplus(-told)), "l1": self._l1 * away(made, inputs["others"])}, {}

    def judge(self, inputs: Mapping[str, Tensor], critics: nn.Layer) -> dict[str, Tensor]:
        """Cross entropies of real and of drawn pairs, halved as in the paper."""
        with no_grad():
            made = self.generator(inputs["images"]).detach()
        real = critics(ops.concat([inputs["images"], inputs["others"]], axis=3))
        drawn = critics(ops.concat([inputs["images"], made], axis=3))
        return {"critic_real": 0.5 * ops.mean(ops.softplus(-real)), "critic_made": 0.5 * ops.mean(ops.softplus(drawn))}
