"""The benchmark's peer networks in PyTorch, and our weights and images in their layout."""

import importlib.util

import numpy as np
import pytest


def load_peer(shared_data):
    """The module with the peer's networks; skips the test where it or PyTorch is missing."""
    pytest.importorskip("torch")
    spec = importlib.util.spec_from_file_location("peer_torch", shared_data("../bench/peer_torch.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def to_peer(array):
    """Weights [K, R, S, C] as [K, C, R, S], images [N, H, W, C] as [N, C, H, W]; others as they are."""
    return np.ascontiguousarray(array.transpose(0, 3, 1, 2)) if array.ndim == 4 else array


def give_weights(theirs, ours, peer_name):
    """Put our parameters and running statistics into the peer's network; `peer_name` translates a name."""
    import torch

    state = {peer_name(name): torch.from_numpy(to_peer(t.numpy())) for name, t in ours.state_dict().items()}
    missing, unexpected = theirs.load_state_dict(state, strict=False)
    assert not unexpected and all(name.endswith("num_batches_tracked") for name in missing)


def layer_name(name):
    """`body.2.norm.scale` is `body.2.1.weight` there."""
    return name.replace(".conv.", ".0.").replace(".norm.", ".1.").replace("scale", "weight")
