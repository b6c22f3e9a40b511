"""framework/native/ops/frames.cc"""

import numpy as np

from framework.errors import AttributeValueError, ShapeError
from tests.framework.ops.harness import Bad, Sample, integers, normal, spec


def _shift(x, channels, reverse=False):
    """Lin et al. 2019, arXiv:1811.08383, figure 1."""
    y = np.zeros_like(x)
    c = channels
    ahead, behind = (slice(c, 2 * c), slice(0, c)) if reverse else (slice(0, c), slice(c, 2 * c))
    y[:, :-1, ..., ahead] = x[:, 1:, ..., ahead]
    y[:, 1:, ..., behind] = x[:, :-1, ..., behind]
    y[..., 2 * c :] = x[..., 2 * c :]
    return y


def _windows(frames, size, stride=1, padding=0, dilation=1):
    """For each window and place the frame read, -1 for padding."""
    count = (frames + 2 * padding - dilation * (size - 1) - 1) // stride + 1
    read = np.arange(count)[:, None] * stride - padding + np.arange(size) * dilation
    return np.where((read >= 0) & (read < frames), read, -1)


def _unfold(x, **attrs):
    padded = np.concatenate([x, np.zeros_like(x[:, :1])], axis=1)
    return np.concatenate([padded[:, place] for place in _windows(x.shape[1], **attrs).T], axis=-1)


def _fold(dy, like, **attrs):
    dx = np.zeros(like.shape)
    for t, window in enumerate(_windows(like.shape[1], **attrs)):
        for part, frame in zip(np.split(dy[:, t], len(window), axis=-1), window, strict=True):
            if frame >= 0:
                dx[:, frame] += part
    return dx


_WINDOWS = [
    {"size": 3, "padding": 1},
    {"size": 3, "stride": 2, "padding": 1},
    {"size": 2, "stride": 3},
    {"size": 2, "dilation": 2, "padding": 2},
    {"size": 1, "stride": 2},
]
spec(
    "temporal_shift",
    reference=_shift,
    exact=True,
    samples=[
        Sample([normal(2, 4, 3, 2, 8)], {"channels": 2}),
        Sample([normal(2, 4, 3, 8)], {"channels": 4, "reverse": True}),
        Sample([normal(1, 1, 5)], {"channels": 1}),
        Sample([normal(2, 2, 3)], {"channels": 0}),
        Sample([normal(0, 2, 3)], {"channels": 1}),
        Sample([integers(-9, 9, 2, 3, 70, 40).astype(np.int8)], {"channels": 5}),
    ],
    errors=[
        Bad([normal(2, 3)], ShapeError, r"x \[2, 3\] must have the axes \[N, T, ..., C\]", {"channels": 1}),
        Bad([normal(1, 2, 3)], AttributeValueError, r"channels is 2 but x .* has 3 channels", {"channels": 2}),
        Bad([normal(1, 2, 3)], AttributeValueError, "channels is -1", {"channels": -1}),
    ],
)
spec(
    "unfold_frames",
    reference=_unfold,
    exact=True,
    samples=[
        *(Sample([normal(2, 5, 2, 3, 4)], attrs) for attrs in _WINDOWS),
        Sample([normal(2, 3, 4)], {"size": 3}),
        Sample([normal(0, 3, 4)], {"size": 2}),
        Sample([integers(-9, 9, 1, 4, 90, 33).astype(np.uint8)], {"size": 3, "padding": 1}),
    ],
    errors=[
        Bad([normal(1, 2, 3)], ShapeError, r"has 2 frames with its padding; a window takes 3", {"size": 3}),
        Bad([normal(1, 2, 3)], AttributeValueError, "size 0, stride 1", {"size": 0}),
        Bad([normal(1, 2, 3)], AttributeValueError, "padding is -1; it must lie in", {"size": 1, "padding": -1}),
        Bad([normal(2, 3)], ShapeError, r"x \[2, 3\] must have the axes", {"size": 1}),
    ],
)
spec(
    "fold_frames",
    reference=_fold,
    samples=[
        *(Sample([_unfold(normal(2, 5, 2, 3, 4), **attrs), normal(2, 5, 2, 3, 4)], attrs) for attrs in _WINDOWS),
        Sample([normal(0, 2, 8), normal(0, 3, 4)], {"size": 2}),
    ],
    errors=[
        Bad([normal(1, 2, 8), normal(1, 2, 4)], ShapeError, r"dy .*\[1, 1, 8\]", {"size": 2}),
        Bad([integers(0, 2, 1, 1, 8), normal(1, 2, 4)], Exception, "dy", {"size": 2}),
    ],
)
