"""What every video classifier is, and how what was computed for each frame goes back to its clip.

Letters: N clips, T frames of a clip, H W height and width, K classes.
"""

from __future__ import annotations

from framework import nn, ops
from framework.tensor import Tensor
from suites.engine.registry import register_role


class VideoClassifier(nn.Layer):
    """A whole video classifier: clips [N, T, H, W, 3] to logits [N, K], for any T."""


register_role("video_classifier", VideoClassifier, doc="A whole video classifier.")


def by_clip(x: Tensor, clips: Tensor, channels: int) -> Tensor:
    """What was computed for each frame, x [N * T, channels], by clip again: [N, T, channels].

    N and T are those of `clips` [N, T, H, W, 3], taken from its extents when the Program runs, so they may vary.
    """
    corner = ops.flatten(ops.slice(clips, starts=(0, 0, 0), ends=(1, 1, 1), axes=(2, 3, 4)), start=2)
    return ops.reshape_like(x, ops.tile(corner, repeats=(1, 1, channels)))
