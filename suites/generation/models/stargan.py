"""StarGAN: one generator that turns a picture of any class into any other (Choi et al. 2018, arXiv:1711.09020).

Letters: N pictures, H W their size, K classes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from framework import Tensor, nn, no_grad, ops
from framework.errors import AttributeValueError
from framework.random import default_generator
from suites.engine.registry import register
from suites.generation.models.base import Adversarial, away, planes, uniform
from suites.generation.models.networks import Translator, conv
from suites.generation.models.noise import gradient_penalty


class ClassCritic(nn.Layer):
    """Says of patches whether they are real, and of the picture which class it is.

    Args:
        size: H and W.
        channels: of the first map.
        halvings: convolutions of stride 2.
        classes: K.
    """

    def __init__(self, size: tuple[int, int], channels: int, halvings: int, classes: int) -> None:
        super().__init__()
        widths = [3, *(channels * 2**at for at in range(halvings))]
        self.convs = nn.LayerList(conv(a, b, 4, 2, padding=1) for a, b in itertools.pairwise(widths))
        self.real = conv(widths[-1], 1, 3, bias=False)
        cells = (size[0] >> halvings) * (size[1] >> halvings)
        self.classes = nn.Linear(cells * widths[-1], classes, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x: [N, H, W, 3]; y: [N, h, w, 1] and logits [N, K]."""
        for layer in self.convs:
            x = ops.leaky_relu(layer(x), slope=0.01)
        return self.real(x), self.classes(ops.reshape(x, (0, -1)))


@register("generative_model")
class StarGAN(Adversarial):
    """A generator that is told the wanted class, and a critic that knows classes; the critic's gradient is held at 1.

    It learns from a folder for each class, without pairs. `optimizer: {type: Adam, beta1: 0.5}` at 1e-4 is the paper's.

    Args:
        size: H and W in pixels, multiples of 2^halvings.
        classes: K, 2 or more.
        channels: of the generator's first map; 64 in the paper.
        blocks: residual blocks; 6 in the paper.
        critic_channels: of the critic's first map; 64 in the paper.
        halvings: convolutions of stride 2 of the critic; 6 for 128 pixels in the paper.
        by_label: weight of the class; 1 in the paper.
        cycle: weight of the way back to the own class; 10 in the paper.
        penalty: weight of the gradient's distance from 1; 10 in the paper.
        critic_steps: updates of the critic for one of the generator; 5 in the paper.
    """

    def __init__(
        self,
        classes: int,
        size: int | list[int] = 128,
        channels: int = 64,
        blocks: int = 6,
        critic_channels: int = 64,
        halvings: int = 6,
        by_label: float = 1.0,
        cycle: float = 10.0,
        penalty: float = 10.0,
        critic_steps: int = 5,
    ) -> None:
        if classes < 2 or halvings < 2 or critic_steps < 1 or min(by_label, cycle, penalty) < 0:
            raise AttributeValueError(
                f"StarGAN: classes is {classes}, halvings {halvings}, critic_steps {critic_steps}, by_label "
                f"{by_label}, cycle {cycle} and penalty {penalty}; classes and halvings must be 2 or more, "
                "critic_steps 1 or more, the weights 0 or more"
            )
        super().__init__(size, 2**halvings)
        self.num_classes, self.critic_steps = classes, critic_steps
        self.generator = Translator(channels, blocks, classes)
        self._critic = self.size, critic_channels, halvings, classes
        self._by_label, self._cycle, self._penalty = by_label, cycle, penalty

    def critics(self) -> nn.Layer:
        """One."""
        return ClassCritic(*self._critic)

    def draw(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """`made` of `images`, of the class of `targets`."""
        return {"made": self._turned(inputs["images"], inputs["targets"])}

    def _turned(self, images: Tensor, classes: Tensor) -> Tensor:
        return self.generator(ops.concat([images, planes(classes, self.num_classes, self.size)], axis=3))

    def _wanted(self, labels: Tensor) -> Tensor:
        """The batch's classes in another order."""
        return ops.gather(labels, ops.random_permutation(default_generator.key(), n=labels.shape[0]), axis=0)

    def make(self, inputs: Mapping[str, Tensor], critics: nn.Layer) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What the critic says, the wanted class, and the way back."""
        images, labels = inputs["images"], inputs["labels"]
        wanted = self._wanted(labels)
        made = self._turned(images, wanted)
        told, classes = critics(made)
        losses = {
            "adversarial": -ops.mean(told),
            "class": self._by_label * ops.mean(ops.cross_entropy(classes, wanted)),
            "cycle": self._cycle * away(self._turned(made, labels), images),
        }
        return losses, {}

    def judge(self, inputs: Mapping[str, Tensor], critics: nn.Layer) -> dict[str, Tensor]:
        """Minus the distance, the class of real pictures, and the penalty."""
        images, labels = inputs["images"], inputs["labels"]
        with no_grad():
            made = self._turned(images, self._wanted(labels)).detach()
        real, classes = critics(images)
        penalty = gradient_penalty(lambda x: critics(x)[0], images, made, uniform(images.shape[0], 1, 1, 1))
        return {
            "critic": ops.mean(critics(made)[0]) - ops.mean(real),
            "critic_class": self._by_label * ops.mean(ops.cross_entropy(classes, labels)),
            "penalty": self._penalty * penalty,
        }
