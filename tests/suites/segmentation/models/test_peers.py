"""Each segmentation network has the numbers of a second reading of its paper in PyTorch, on the same weights."""

import numpy as np
import pytest

from framework import from_numpy, no_grad
from tests.suites.segmentation.models.zoo import tiny

NAMES = ("unet", "pspnet", "icnet", "hrnet_fcn", "hrnet_ocr", "fast_scnn", "bisenet_v2", "deeplab_xception")


@pytest.mark.peers
@pytest.mark.parametrize("name", NAMES)
def test_all_logits_are_the_peers(name):
    pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    from tests.suites.segmentation.models.peers import SegmentationPeer

    net, rng = tiny(name).eval(), np.random.default_rng(0)
    for key, value in net.state_dict().items():  # norms and biases that start at 0 or 1 would hide a mistake
        if value.ndim == 1:
            drawn = (
                rng.uniform(0.7, 1.3, value.shape)
                if key.endswith(("scale", "var"))
                else rng.normal(size=value.shape) / 5
            )
            value.set(from_numpy(drawn.astype(np.float32)))
    images = rng.standard_normal((2, 64, 96, 3)).astype(np.float32)
    exact = getattr(SegmentationPeer(net, False, "float64"), name)(images)
    with no_grad():
        ours = net.outputs(from_numpy(images))
    assert len(ours) == len(exact)
    for found, wanted in zip(ours, exact, strict=True):
        wanted = wanted.permute(0, 2, 3, 1).numpy()
        np.testing.assert_allclose(found.numpy(), wanted, rtol=0, atol=1e-4 * max(1.0, np.abs(wanted).max()))
        assert np.ptp(wanted) > 0.01
