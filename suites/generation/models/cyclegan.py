"""CycleGAN: pictures of one kind become those of another without a single pair (Zhu et al. 2017, arXiv:1703.10593)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from framework import Tensor, nn, ops
from framework.errors import AttributeValueError
from suites.engine.registry import register
from suites.generation.models.base import Adversarial, Kind, away
from suites.generation.models.networks import Both, PatchCritic, Translator

SIDES = ("a", "b")


@register("generative_model")
class CycleGAN(Adversarial):
    """Two generators, a to b and b to a, that come back to the picture they were given; two critics of patches.

    Losses are least squares (Mao et al. 2017).

    Args:
        size: H and W in pixels, multiples of 4.
        channels: of the first layer of each generator; 64 in the paper.
        blocks: residual blocks; 6 for 128 pixels and 9 for 256 in the paper.
        critic_channels: of the first layer of each critic; 64 in the paper.
        halvings: convolutions of stride 2 of the critics; the paper's 3 see 70 x 70 pixels.
        cycle: weight of the way there and back; 10 in the paper.
        identity: weight of leaving alone what is of the right kind already, as a share of `cycle`; 0.5 in the paper
            where colours are to stay, 0 for none.
        buffer: drawn pictures of each kind that the critics are shown again; 50 in the paper.
        draws: the kind that an exported model and `paddock infer` draw, of pictures of the other kind.
    """

    kind: ClassVar[Kind] = "two"
    shows: ClassVar[tuple[str, ...]] = ("made_a", "made_b")

    def __init__(
        self,
        size: int | list[int] = 128,
        channels: int = 64,
        blocks: int = 6,
        critic_channels: int = 64,
        halvings: int = 3,
        cycle: float = 10.0,
        identity: float = 0.5,
        buffer: int = 50,
        draws: Literal["a", "b"] = "b",
    ) -> None:
        super().__init__(size, 4)
        if min(cycle, identity, buffer) < 0:
            raise AttributeValueError(
                f"CycleGAN: cycle is {cycle}, identity {identity} and buffer {buffer}; none may be below 0"
            )
        self.a, self.b = (Translator(channels, blocks) for _ in SIDES)
        self._critic = critic_channels, halvings
        self._cycle, self._identity, self.buffer, self.draws = cycle, identity, buffer, draws

    def critics(self) -> nn.Layer:
        """One of each kind."""
        return Both(*(PatchCritic(*self._critic) for _ in SIDES))

    def draw(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`made` of the other kind, and `back` from there."""
        there, back = (self.b, self.a) if self.draws == "b" else (self.a, self.b)
        made = there(inputs["images"])
        return {"made": made, "back": back(made)}

    def make(self, inputs: Mapping[str, Tensor], critics: nn.Layer) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Both ways, and back."""
        assert isinstance(critics, Both)
        real, told_by = {"a": inputs["images"], "b": inputs["others"]}, {"a": critics.a, "b": critics.b}
        made = {"b": self.b(real["a"]), "a": self.a(real["b"])}
        back = {"a": self.a(made["b"]), "b": self.b(made["a"])}
        losses = {
            "adversarial": _squares(told_by["a"](made["a"]), 1.0) + _squares(told_by["b"](made["b"]), 1.0),
            "cycle": self._cycle * (away(back["a"], real["a"]) + away(back["b"], real["b"])),
        }
        if self._identity:
            same = away(self.a(real["a"]), real["a"]) + away(self.b(real["b"]), real["b"])
            losses["identity"] = self._cycle * self._identity * same
        return losses, {f"made_{side}": picture for side, picture in made.items()}

    def judge(self, inputs: Mapping[str, Tensor], critics: nn.Layer) -> dict[str, Tensor]:
        """The loss of each critic, halved, so that it learns more slowly than its generator."""
        assert isinstance(critics, Both)
        real, told_by = {"a": inputs["images"], "b": inputs["others"]}, {"a": critics.a, "b": critics.b}
        return {
            f"critic_{side}": 0.5
            * (_squares(told_by[side](real[side]), 1.0) + _squares(told_by[side](inputs[f"made_{side}"]), 0.0))
            for side in SIDES
        }


def _squares(x: Tensor, wanted: float) -> Tensor:
    return ops.mean(ops.square(x - wanted))
