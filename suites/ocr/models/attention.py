"""A decoder that writes a line character by character, looking at one place of it at a time.

Shi et al. 2018 (ASTER) with a GRU, as PaddleOCR's AttentionHead (ppocr/modeling/heads/rec_att_head.py). Letters:
N lines, T columns, C features, D hidden units, L characters at most, K characters with the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from framework import nn, ops, tensor
from framework.control import scan
from framework.errors import AttributeValueError, ConfigError
from framework.tensors import Tensor
from suites.engine.config import OfRole
from suites.engine.contract.losses import Loss, count_of
from suites.engine.registry import register
from suites.ocr.losses import ctc
from suites.ocr.models.base import TextRecogniser

NOTHING = -100  # what is wanted behind the end of a text


class AttentionCell(nn.Layer):
    """One step: where to look, what is seen there, and a GRU over it and the character before.

    Args:
        in_features: C.
        hidden: D.
        classes: K.
    """

    def __init__(self, in_features: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.key = nn.Linear(in_features, hidden, bias=False)
        self.query = nn.Linear(hidden, hidden)
        self.score = nn.Linear(hidden, 1, bias=False)
        self.seen = nn.Linear(in_features, 3 * hidden)
        self.before = nn.Embedding(classes, 3 * hidden)
        self.state = nn.Linear(hidden, 3 * hidden)
        self._hidden = hidden

    def forward(self, state: Tensor, before: Tensor, features: Tensor, keys: Tensor) -> Tensor:
        """The next state.  state: [N, D]; before: int64 [N]; features: [N, T, C]; keys: [N, T, D]; y: [N, D]."""
        found = self.score(ops.tanh(keys + ops.expand_dims(self.query(state), axis=1)))
        seen = ops.sum(ops.softmax(found, axis=1) * features, axes=(1,))
        sizes = [self._hidden] * 3
        reset, keep, new = ops.split(self.seen(seen) + self.before(before), axis=-1, sizes=sizes)
        own_reset, own_keep, own_new = ops.split(self.state(state), axis=-1, sizes=sizes)
        new = ops.tanh(new + ops.sigmoid(reset + own_reset) * own_new)
        keep = ops.sigmoid(keep + own_keep)
        return (1.0 - keep) * new + keep * state


@register("text_model")
class AttentionReader(TextRecogniser):
    """A recogniser whose columns are read by an attention decoder; class 0 begins and ends a text.

    In training each step is told the true character before it, and the recogniser's own CTC loss helps it to find the
    places (Watanabe et al. 2017). To predict, each step is told the most probable character of the step before.

    Args:
        body: the recogniser.
        hidden: D.
        longest: L, characters that are written at most, the end among them.
        ctc: factor of the recogniser's CTC loss, above 0.
    """

    def __init__(
        self,
        body: Annotated[TextRecogniser, OfRole("text_model")],
        hidden: int = 256,
        longest: int = 40,
        ctc: float = 0.2,
    ) -> None:
        super().__init__()
        if isinstance(body, AttentionReader) or not isinstance(body, TextRecogniser):
            raise ConfigError(f"AttentionReader: {type(body).__name__} is no recogniser of columns")
        if hidden < 1 or longest < 2 or ctc <= 0:
            raise AttributeValueError(
                f"AttentionReader: hidden is {hidden}, longest {longest}, ctc {ctc}; needed are 1, 2 and above 0"
            )
        self.alphabet, self.height, self.step, self.lost = body.alphabet, body.height, body.step, body.lost
        self.widest = body.widest
        self.body = body
        self.cell = AttentionCell(body.fc.in_features, hidden, self.alphabet.classes)
        self.fc = nn.Linear(hidden, self.alphabet.classes)
        self.longest, self._ctc = longest, ctc

    def features(self, lines: Tensor) -> Tensor:
        """Those of the recogniser."""
        return self.body.features(lines)

    def forward(self, lines: Tensor) -> Tensor:
        """The recogniser's logits for CTC, [N, T, K]."""
        return self.body(lines)

    def written(self, features: Tensor, before: Tensor) -> Tensor:
        """Logits [N, L', K] of each step that is told the character before it.

        Args:
            features: [N, T, C].
            before: int64 [N, L'], 0 at the beginning.
        """
        keys = self.cell.key(features)

        def step(state: Tensor, told: Tensor) -> tuple[Tensor, Tensor]:
            state = self.cell(state, told, features, keys)
            return state, state

        _, states = scan(step, _begun(keys), ops.transpose(before, perm=(1, 0)))
        return self.fc(ops.transpose(states, perm=(1, 0, 2)))

    def losses(self, inputs: Mapping[str, Tensor]) -> dict[str, Loss]:
        """The mean over lines of the cross entropy of their characters and ends, and the CTC loss.

        Args:
            inputs: what `ctc` takes; `before` int64 [N, L'] and `wanted` int64 [N, L'], `NOTHING` behind the end.
        """
        features = self.features(inputs["lines"])
        logits = self.written(features, inputs["before"])
        entropy = ops.sum(ops.cross_entropy(logits, inputs["wanted"], ignore_index=NOTHING), axes=(1,))
        found = ctc(self.body.fc(features), inputs)
        return {
            "attention": Loss(ops.mean(entropy), count_of(logits)),
            "ctc": Loss(found.mean * self._ctc, found.weight),
        }

    def read(self, lines: Tensor) -> tuple[Tensor, Tensor]:
        """The characters as CTC has them, with a blank behind each: int64 [N, 2 L], and their probabilities."""
        features = self.features(lines)
        keys = self.cell.key(features)
        none = ops.full_like(ops.argmax(keys[:, 0], axis=-1), value=0)

        def step(state: tuple[Tensor, ...], _: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
            hidden, told, going = state
            hidden = self.cell(hidden, told, features, keys)
            likely = ops.softmax(self.fc(hidden), axis=-1)
            found = ops.argmax(likely, axis=-1) * going
            going = going * ops.cast(found > 0, dtype="int64")
            return (hidden, found, going), (found, ops.max(likely, axes=(-1,)))

        steps = tensor(np.zeros((self.longest, 1), np.int64))
        _, (found, scores) = scan(step, (_begun(keys), none, none + 1), steps)
        found, scores = ops.transpose(found, perm=(1, 0)), ops.transpose(scores, perm=(1, 0))
        blanks = found * 0
        spaced = ops.flatten(ops.stack([found, blanks], axis=2), start=1, end=2)
        return spaced, ops.flatten(ops.stack([scores, scores], axis=2), start=1, end=2)


def _begun(keys: Tensor) -> Tensor:
    """The state before the first step, [N, D] of 0, for keys [N, T, D]."""
    return ops.full_like(keys[:, 0], value=0.0)


def told(labels: list[np.ndarray], longest: int) -> tuple[np.ndarray, np.ndarray]:
    """`before` and `wanted` of texts of classes, int64 [N, L'] each.

    L' is the longest text and its end, at most `longest`. A text that is longer is learnt as far as it goes.
    """
    most = min(max(map(len, labels), default=0) + 1, longest)
    before = np.zeros((len(labels), most), np.int64)
    wanted = np.full((len(labels), most), NOTHING, np.int64)
    for k, text in enumerate(labels):
        ended = np.append(text, 0)[:most]
        wanted[k, : len(ended)] = ended
        before[k, 1 : len(ended)] = ended[:-1]
    return before, wanted
