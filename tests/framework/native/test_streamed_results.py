"""Results too large for the caches are written past them: they are those of their parts, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from framework import Tensor, from_numpy, nn, no_grad, program

IMAGES, H, W, C = 8, 512, 256, 16  # 64 MiB in all, which every machine streams; 8 MiB an image, which none does


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((IMAGES, H, W, C), np.float32)


@pytest.mark.parametrize(
    "layer",
    [
        pytest.param(nn.ConvBNAct(C, C, 1, act="relu"), id="product"),
        pytest.param(nn.ConvBNAct(C, C, 3, groups=C, act="relu"), id="depthwise"),
        pytest.param(
            nn.Sequential(nn.ConvBNAct(C, C, 3, groups=C, act="relu"), nn.ConvBNAct(C, C, 1, act="relu")),
            id="separable",
        ),
    ],
)
def test_a_batch_that_is_streamed_gives_what_each_image_gives(layer: nn.Layer, images: np.ndarray) -> None:
    layer.eval()

    @program
    def run(x: Tensor) -> Tensor:
        return layer(x)

    with no_grad():
        whole = run(from_numpy(images)).numpy()
        parts = [run(from_numpy(image[None])).numpy() for image in images]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
