"""Networks of the zoo a second time, written with PyTorch's functions, on the weights of ours.

Letters: N batch, C channels, H W size. PyTorch wants images [N, C, H, W] and weights [K, C/groups, R, S].
"""

from __future__ import annotations

import numpy as np
import pytest


class Peer:
    """Computes a network of ours in PyTorch; skips the test where that is not installed.

    Args:
        net: ours: its weights and running statistics are taken by name.
        training: whether batch norm takes the statistics of the batch.
        dtype: "float32" or "float64".
    """

    eps = 1e-5  # of batch norms

    def __init__(self, net, training, dtype):
        self._torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
        self._functions = self._torch.nn.functional
        self._training, self._dtype = training, getattr(self._torch, dtype)
        self._weights = {name: self._given(t.numpy()) for name, t in net.state_dict().items()}

    def _given(self, array):
        channels_first = np.moveaxis(array, 3, 1) if array.ndim == 4 else array
        return self._torch.from_numpy(np.ascontiguousarray(channels_first)).to(self._dtype)

    def _conv(self, x, name, stride=1, dilation=1, act="relu"):
        """A convolution that keeps the size (of stride 1), batch norm, activation."""
        functions, weights = self._functions, self._weights
        kernel = weights[f"{name}.conv.weight"]
        groups, padding = x.shape[1] // kernel.shape[1], dilation * (kernel.shape[2] // 2)
        x = functions.conv2d(x, kernel, None, stride, padding, dilation, groups)
        mean, var, scale, bias = (weights[f"{name}.norm.{p}"] for p in ("running_mean", "running_var", "scale", "bias"))
        if self._training:
            mean = var = None
        x = functions.batch_norm(x, mean, var, scale, bias, self._training, eps=self.eps)
        return getattr(functions, act)(x) if act else x

    def resnet50(self, images):
        """Logits [N, classes] of an ImageClassifier with a ResNet-50 (He et al. 2016)."""
        x = self._conv(self._given(images), "backbone.stem.0", stride=2)
        x = self._functions.max_pool2d(x, 3, 2, 1)
        for stage, count in enumerate((3, 4, 6, 3)):
            for block in range(count):
                x = self._bottleneck(x, f"backbone.stages.{stage}.{block}", 2 if stage and not block else 1)
        return self._functions.linear(x.mean((2, 3)), self._weights["fc.weight"], self._weights["fc.bias"]).numpy()

    def _bottleneck(self, x, name, stride):
        y = self._conv(x, f"{name}.body.0")
        y = self._conv(y, f"{name}.body.1", stride)
        y = self._conv(y, f"{name}.body.2", act=None)
        if f"{name}.short.conv.weight" in self._weights:
            x = self._conv(x, f"{name}.short", stride, act=None)
        return self._functions.relu(x + y)

    def deeplab_v3plus_mobilenet_v2(self, images):
        """Logits [N, classes, H, W] of DeepLabV3+ (Chen et al. 2018) at output stride 16."""
        x = self._given(images)
        size = x.shape[2:]
        fine, x = self._mobilenet_v2(x)
        x = self._resize(self._pyramid(x), fine.shape[2:])
        x = self._torch.cat([x, self._conv(fine, "low")], 1)
        x = self._separable(self._separable(x, "decoder.0"), "decoder.1")
        x = self._functions.conv2d(x, self._weights["decoder.2.weight"], self._weights["decoder.2.bias"])
        return self._resize(x, size).numpy()

    def _mobilenet_v2(self, x):
        """The maps of strides 4 and 16; of the last two stages, the second stride is taken by dilation."""
        x, number = self._conv(x, "backbone.stem", stride=2, act="relu6"), 0
        for count, stride, dilation in ((1, 1, 1), (2, 2, 1), (3, 2, 1), (4, 2, 1), (3, 1, 1), (3, 1, 2), (1, 1, 2)):
            for first in [True] + [False] * (count - 1):
                x = self._inverted_residual(x, f"backbone.blocks.{number}.body", stride if first else 1, dilation)
                number += 1
            if x.shape[1] == 24:
                fine = x
        return fine, x

    def _inverted_residual(self, x, name, stride, dilation):
        y, layer = x, 0
        if f"{name}.2.conv.weight" in self._weights:
            y, layer = self._conv(x, f"{name}.0", act="relu6"), 1
        y = self._conv(y, f"{name}.{layer}", stride, dilation, act="relu6")
        y = self._conv(y, f"{name}.{layer + 1}", act=None)
        return x + y if x.shape == y.shape else y

    def _pyramid(self, x):
        branches = [self._conv(x, "pyramid.branches.0")]
        branches += [self._separable(x, f"pyramid.branches.{i + 1}", rate) for i, rate in enumerate((6, 12, 18))]
        pooled = self._conv(x.mean((2, 3), keepdim=True), "pyramid.pooled")
        return self._conv(self._torch.cat([*branches, pooled.expand_as(branches[0])], 1), "pyramid.merge")

    def _separable(self, x, name, dilation=1):
        return self._conv(self._conv(x, f"{name}.0", dilation=dilation), f"{name}.1")

    def _resize(self, x, size):
        return self._functions.interpolate(x, size=size, mode="bilinear", align_corners=False)
