"""The networks of MTCNN: small convolutions on small pictures, each with a PReLU.

Letters: M cuts or places, S side of a cut.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from framework import nn, ops
from framework.tensors import Tensor
from suites.detection.models.torchvision_names import convs
from suites.engine.weights import Names, Source
from suites.vision.backbones.base import drawn_image
from suites.vision.backbones.naming import linear

SCHEME = "facenet"
CELL, REFINED, LAST = 12, 24, 48  # pixels that each of the three sees at a time


class CascadeNet(nn.Layer):
    """Convolutions without padding, each with a PReLU and all but the last with a largest-of-window, then outputs.

    Args:
        shapes: (kernel, channels, window or 0) of each convolution.
        hidden: the features of a linear layer behind them, (in, out); None for outputs at each place.
        outputs: width of each output; the first are two logits, of no face and of a face.

    Attributes:
        widths: numbers that each output of `forward` has of a cut.
    """

    schemes: tuple[str, ...] = (SCHEME,)

    def __init__(
        self, shapes: Sequence[tuple[int, int, int]], hidden: tuple[int, int] | None, outputs: Sequence[int]
    ) -> None:
        super().__init__()
        self.widths = (1, *outputs[1:])
        channels = 3
        self.convs, self.acts = nn.LayerList(), nn.LayerList()
        for kernel, out, _ in shapes:
            self.convs.append(nn.Conv2d(channels, out, kernel, padding=0))
            self.acts.append(nn.PReLU(out))
            channels = out
        self._windows = [window for _, _, window in shapes]
        self.hidden = None if hidden is None else nn.Linear(*hidden)
        self.hidden_act = None if hidden is None else nn.PReLU(hidden[1])
        self.outs = nn.LayerList(
            nn.Conv2d(channels, width, 1) if hidden is None else nn.Linear(hidden[1], width) for width in outputs
        )

    def forward(self, x: Tensor) -> list[Tensor]:
        """x: [M, S, S, 3]; how likely a face is [M], then the other outputs [M, width]; of places [M, h, w] each."""
        for conv, act, window in zip(self.convs, self.acts, self._windows, strict=True):
            x = act(conv(x))
            if window:
                x = ops.max_pool2d(x, kernel=window, stride=2, ceil_mode=True)
        if self.hidden is not None and self.hidden_act is not None:
            # Their features go through columns, then rows, then channels.
            x = self.hidden_act(self.hidden(ops.flatten(ops.transpose(x, perm=(0, 2, 1, 3)), start=1)))
        logits, *others = [out(x) for out in self.outs]
        return [ops.softmax(logits, axis=-1)[..., 1], *others]

    def names_in(self, scheme: str) -> Names:
        """Names in facenet-pytorch's pnet.pt, rnet.pt and onet.pt."""
        count = len(self.convs)
        place = f"conv{count + 1}" if self.hidden is None else f"dense{count + 2}"
        outs = {f"outs.{i}": f"{place}_{i + 1}" for i in range(len(self.outs))}
        names = convs({f"convs.{i}": f"conv{i + 1}" for i in range(count)})
        names |= {f"acts.{i}.slope": Source((f"prelu{i + 1}.weight",)) for i in range(count)}
        if self.hidden is None:
            return Names({**names, **convs(outs)})
        names |= linear("hidden", f"dense{count + 1}")
        names["hidden_act.slope"] = Source((f"prelu{count + 1}.weight",))
        for ours, theirs in outs.items():
            names |= linear(ours, theirs)
        return Names(names)

    def answers(self) -> dict[str, np.ndarray]:
        """Its last output on a drawn image of the side it takes; see `suites.engine.weights.answers`."""
        side = {3: CELL, 4: REFINED, 5: LAST}[len(self.convs) + (self.hidden is not None)]
        return {f"side_{side}": self(drawn_image(side))[-1].numpy().reshape(-1)}


def proposal_net() -> CascadeNet:
    """What proposes faces at each place of a picture: how likely, and a code of the box."""
    return CascadeNet([(3, 10, 2), (3, 16, 0), (3, 32, 0)], None, (2, 4))


def refine_net() -> CascadeNet:
    """What looks again at a cut: how likely, and a code of the box."""
    return CascadeNet([(3, 28, 3), (3, 48, 3), (2, 64, 0)], (576, 128), (2, 4))


def output_net() -> CascadeNet:
    """What looks at what is left: how likely, a code of the box, and x, then y of five points."""
    return CascadeNet([(3, 32, 3), (3, 64, 3), (3, 64, 2), (2, 128, 0)], (1152, 256), (2, 4, 10))
