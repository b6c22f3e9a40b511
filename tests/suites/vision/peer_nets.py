"""Networks of torchvision, timm and transformers with drawn weights, and ours with the same: outputs and gradients."""

import numpy as np

from framework import nn, no_grad, ops, tensor
from suites.classification import ImageClassifier
from suites.engine.weights import load_pretrained
from suites.engine.weights.pretrained import schemes_of


def drawn(torch, model, spread=0.02):
    """Numbers whose activations stay of one size; norms, biases and factors that start at 0 or 1 say something."""
    torch.manual_seed(0)
    for part in model.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(part.weight, 0.8, 1.2)
            torch.nn.init.normal_(part.bias, std=0.1)
            part.running_mean.normal_(std=0.1)
            part.running_var.uniform_(0.8, 1.2)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.ndim == 1 or "token" in name or "pos" in name or "scale" in name or "gamma" in name:
                p.add_(torch.randn_like(p) * spread)
            if "layer_scale" in name or "gamma" in name:
                p.add_(0.3)
    return model.eval()


def classifier(backbone, count, top=True):
    """Ours, with numbers that a file replaces."""
    with nn.init.undrawn():
        return ImageClassifier(backbone(), count, top=top).eval()


def pictures(*shape):
    """float32 [N, H, W, 3], the same each time."""
    return np.random.default_rng(0).standard_normal((*shape, 3)).astype(np.float32)


def close(found, wanted, share):
    """Equal up to a share of the largest number."""
    np.testing.assert_allclose(found, wanted, rtol=0, atol=share * np.abs(wanted).max())


def expect_same(torch, theirs, ours, source, images, scheme, call=lambda net, x: net(x)):
    """After loading `source`: the outputs within 1e-4, and the gradients of a drawn sum of them within 1e-3."""
    report = load_pretrained(ours, source)
    assert set(report.loaded) == set(ours.state_dict()) and not report.new
    x = torch.from_numpy(images).permute(0, 3, 1, 2)
    wanted = call(theirs, x)
    with no_grad():
        close(ours(tensor(images)).numpy(), wanted.detach().numpy(), 1e-4)
    weights = np.random.default_rng(1).standard_normal(tuple(wanted.shape)).astype(np.float32)
    theirs.zero_grad()
    (wanted * torch.from_numpy(weights)).sum().backward()
    ops.sum(ours(tensor(images)) * tensor(weights)).backward()
    expect_same_gradients(theirs, ours, scheme)


def expect_same_gradients(theirs, ours, scheme):
    """Those of every parameter: the difference at most 1e-3 of the gradient, both as lengths of vectors."""
    gradients = {n: p.grad for n, p in theirs.named_parameters() if p.grad is not None}
    sources = schemes_of(ours)[scheme]().sources
    longest = max(float(g.norm()) for g in gradients.values())
    for name, p in ours.named_parameters():
        wanted = np.concatenate([sources[name].ours(gradients[n].numpy()) for n in sources[name].names])
        off = np.linalg.norm(p.grad.numpy() - wanted)
        assert off <= 1e-3 * max(np.linalg.norm(wanted), 1e-3 * longest), (name, off, np.linalg.norm(wanted))
