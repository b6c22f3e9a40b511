"""The papers' formulas in NumPy, on the weights of our layers; float64, [N, T, H, W, C]."""

import numpy as np


def weights_of(layer):
    """Parameters of a layer by name, float64."""
    return {name: p.numpy().astype(np.float64) for name, p in layer.named_parameters()}


def conv3d(x, weight, bias=0.0, stride=(1, 1, 1), padding=(0, 0, 0)):
    """x [N, T, H, W, C], weight [K, Q, R, S, C] to [N, T', H', W', K]."""
    x = np.pad(x, [(0, 0), *((p, p) for p in padding), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[1:4], axis=(1, 2, 3))  # [N, T, H, W, C, Q, R, S]
    windows = windows[:, :: stride[0], :: stride[1], :: stride[2]]
    return np.einsum("nthwcqrs,kqrsc->nthwk", windows, weight) + bias


def depthwise(x, weight, bias):
    """x [N, T, C], weight [C, 3], each channel by itself, a frame of zeros on both sides."""
    x = np.pad(x, [(0, 0), (1, 1), (0, 0)])
    return x[:, :-2] * weight[:, 0] + x[:, 1:-1] * weight[:, 1] + x[:, 2:] * weight[:, 2] + bias


def batch_norm(x, scale, bias, eps=1e-5):
    """Normalised over all axes but the last, as in training."""
    axes = tuple(range(x.ndim - 1))
    return (x - x.mean(axes)) / np.sqrt(x.var(axes) + eps) * scale + bias


def relu(x):
    """max(x, 0)"""
    return np.maximum(x, 0)


def softmax(x):
    """Over the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
