"""A linear-chain conditional random field over ragged data. Letters: T rows, B sequences, K tags."""

from __future__ import annotations

from framework import ops
from framework.nn import init
from framework.nn.layer import Layer
from framework.tensors import Tensor


class CRF(Layer):
    """Scores of tags that follow each other (Lafferty et al. 2001), learned beside the scores of single tags.

    score(tags) = start[t_1] + sum of emissions[i, t_i] + sum of transitions[t_i, t_i+1] + stop[t_n]

    Args:
        tags: K.

    The parameters are `transitions` [K, K] (from tag i to tag j), `start` and `stop` [K].

    Example:
        >>> scores = tensor(np.zeros((3, 2), np.float32))  # one sequence of 3 rows, 2 tags
        >>> loss = nn.CRF(2)(scores, tensor([0, 1, 1]), tensor([0, 3]))
        >>> loss.shape
        (1,)
    """

    transitions: Tensor
    start: Tensor
    stop: Tensor

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.tags = tags
        small = init.Uniform(-0.1, 0.1)
        self.add_parameter("transitions", (tags, tags), small)
        self.add_parameter("start", (tags,), small)
        self.add_parameter("stop", (tags,), small)

    def forward(self, emissions: Tensor, tags: Tensor, offsets: Tensor) -> Tensor:
        """The negative log-likelihood of each sequence's tags.

        emissions: [T, K]; tags: integer [T]; offsets: integer [B + 1]; result: [B].
        """
        return ops.crf_loss(emissions, self.transitions, self.start, self.stop, tags, offsets)

    def decode(
        self, emissions: Tensor, offsets: Tensor, forbidden: tuple[Tensor, Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """The best tags of each sequence.

        Args:
            emissions: [T, K].
            offsets: integer [B + 1].
            forbidden: added to `transitions`, `start` and `stop`: 0 for what may be, -infinity for what may not.

        Returns:
            Tags, int64 [T], and the score of each sequence's path, [B].
        """
        transitions, start, stop = self.transitions, self.start, self.stop
        if forbidden is not None:
            transitions, start, stop = transitions + forbidden[0], start + forbidden[1], stop + forbidden[2]
        return ops.crf_decode(emissions, transitions, start, stop, offsets)

    def _describe(self) -> str:
        return f"{self.tags}"
