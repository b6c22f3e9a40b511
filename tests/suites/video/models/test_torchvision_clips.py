"""R(2+1)D-18, R3D-18 and MC3-18 have torchvision's logits with its drawn weights, and its numbers of parameters."""

from pathlib import Path

import numpy as np
import pytest

from framework import nn, no_grad, tensor
from suites.engine.config.building import build_task, read_config
from suites.engine.weights import load_pretrained, rename
from suites.video.models.resnet3d import MC3, R3D, R2Plus1D
from tests.suites.vision.peer_nets import close, drawn

NETS = {"r2plus1d_18": (R2Plus1D, 31_505_325), "r3d_18": (R3D, 33_371_472), "mc3_18": (MC3, 11_695_440)}
CLIP = np.random.default_rng(0).standard_normal((1, 8, 40, 48, 3)).astype(np.float32)


@pytest.mark.peers
@pytest.mark.parametrize("name", NETS)
def test_logits_are_torchvisions(tmp_path, name):
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    from torchvision.models import video

    theirs = drawn(torch, getattr(video, name)(weights=None))
    torch.save(theirs.state_dict(), tmp_path / "w.pth")
    with nn.init.undrawn():
        ours = NETS[name][0](400).eval()
    report = load_pretrained(ours, tmp_path / "w.pth")
    assert set(report.loaded) == set(ours.state_dict())
    assert all(n.endswith("num_batches_tracked") for n in report.unused)
    with no_grad(), torch.no_grad():
        wanted = theirs(torch.from_numpy(CLIP).permute(0, 4, 1, 2, 3)).numpy()
        close(ours(tensor(CLIP)).numpy(), wanted, 1e-4)
        assert np.ptp(wanted) > 0.01


@pytest.mark.parametrize("name", NETS)
def test_the_config_builds_the_network_of_the_published_size(name):
    with nn.init.undrawn():
        model = build_task(read_config(Path(f"video/{name}_kinetics"))).model
    assert type(model) is NETS[name][0]
    assert sum(p.size for p in model.parameters()) == NETS[name][1]


@pytest.mark.parametrize("kind", [R2Plus1D, R3D, MC3])
def test_names_go_there_and_back_and_other_classes_keep_the_body(kind, tmp_path):
    from safetensors.numpy import save_file

    net, other = kind(7, width=8), kind(3, width=8)
    theirs = rename(net, net.names_in("torchvision").sources)
    assert theirs["layer1.0.conv1.0.0.weight" if kind is R2Plus1D else "layer1.0.conv1.0.weight"].ndim == 5
    save_file(theirs, tmp_path / "w.safetensors")
    report = load_pretrained(other, tmp_path / "w.safetensors")
    assert len(report.loaded) == len(net.state_dict()) - 2
    for name, array in net.state_dict().items():
        if not name.startswith("fc."):
            np.testing.assert_array_equal(other.state_dict()[name].numpy(), array.numpy())
