"""Against PyTorch: its CTC loss, and EasyOCR's recogniser by its formula with the published weights."""

import itertools

import numpy as np
import pytest

from framework import from_numpy, no_grad, ops, tensor
from suites.engine.weights import load_pretrained, resolve
from suites.ocr.models.crnn import Crnn
from tests.zoo import fetched

CHANNELS = (32, 64, 128, 128, 256, 256, 256)


def ragged(seed, sequences=6, classes=12, longest=40):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(8, longest, sequences)
    labels = [rng.integers(1, classes, rng.integers(0, n // 2)) for n in lengths]
    logits = rng.normal(0, 3, (int(lengths.sum()), classes)).astype(np.float32)
    return logits, lengths, labels


@pytest.mark.peers
@pytest.mark.parametrize("seed", range(4))
def test_ctc_loss_and_gradients_are_pytorchs(seed):
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    logits, lengths, labels = ragged(seed)
    offsets, ends = np.cumsum([0, *lengths]), np.cumsum([0, *map(len, labels)])
    flat = np.concatenate([*labels, np.zeros(0, np.int64)])
    given = tensor(logits)
    given.requires_grad = True
    losses = ops.ctc_loss(given, from_numpy(offsets), from_numpy(flat), from_numpy(ends))
    ops.sum(losses).backward()
    theirs = torch.from_numpy(logits.astype(np.float64)).requires_grad_()  # in float32 it is off by 3e-5 itself
    parts = [theirs[a:b] for a, b in itertools.pairwise(offsets)]
    padded = torch.nn.utils.rnn.pad_sequence(parts).log_softmax(-1)
    wanted = torch.nn.functional.ctc_loss(
        padded, torch.from_numpy(flat), torch.from_numpy(lengths), torch.from_numpy(np.diff(ends)), reduction="none"
    )
    wanted.sum().backward()
    np.testing.assert_allclose(losses.numpy(), wanted.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(given.grad.numpy(), theirs.grad.numpy(), rtol=0, atol=1e-5)


def easyocr(torch, state):
    """EasyOCR's network of its second generation (vgg_model.py, MIT), as a function of grey lines [N, 1, 64, W]."""
    functions, weights = torch.nn.functional, {k: torch.from_numpy(np.asarray(v)) for k, v in state.items()}

    def conv(x, number, padding=1):
        place = f"module.FeatureExtraction.ConvNet.{number}"
        return functions.conv2d(x, weights[f"{place}.weight"], weights.get(f"{place}.bias"), padding=padding)

    def norm(x, number):
        place = f"module.FeatureExtraction.ConvNet.{number}"
        parts = [weights[f"{place}.{leaf}"] for leaf in ("running_mean", "running_var", "weight", "bias")]
        return functions.batch_norm(x, *parts)

    def along(x, k):
        place = f"module.SequenceModeling.{k}"
        lstm = torch.nn.LSTM(x.shape[2], 256, bidirectional=True, batch_first=True)
        lstm.load_state_dict(
            {n.removeprefix(f"{place}.rnn."): w for n, w in weights.items() if n.startswith(f"{place}.rnn.")}
        )
        return functions.linear(lstm(x)[0], weights[f"{place}.linear.weight"], weights[f"{place}.linear.bias"])

    def run(x):
        x = functions.max_pool2d(conv(x, 0).relu(), 2)
        x = functions.max_pool2d(conv(x, 3).relu(), 2)
        x = functions.max_pool2d(conv(conv(x, 6).relu(), 8).relu(), (2, 1))
        x = norm(conv(x, 11), 12).relu()
        x = functions.max_pool2d(norm(conv(x, 14), 15).relu(), (2, 1))
        x = conv(x, 18, padding=0).relu().mean(2).permute(0, 2, 1)
        x = along(along(x, 0), 1)
        return functions.linear(x, weights["module.Prediction.weight"], weights["module.Prediction.bias"])

    return run


@pytest.mark.peers
def test_the_logits_of_english_g2_are_easyocrs(monkeypatch):
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    fetched("english_g2", monkeypatch)
    model = Crnn("english_g2", 64, CHANNELS)
    report = load_pretrained(model, "english_g2")
    assert set(report.loaded) == set(model.state_dict())
    lines = np.random.default_rng(0).uniform(-1, 1, (2, 64, 96, 1)).astype(np.float32)
    with no_grad():
        ours = model.eval()(from_numpy(np.repeat(lines, 3, axis=3))).numpy()
    state = {
        name: value.numpy() for name, value in torch.load(resolve("english_g2")[0], "cpu", weights_only=True).items()
    }
    with torch.no_grad():
        theirs = easyocr(torch, state)(torch.from_numpy(lines.transpose(0, 3, 1, 2))).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)
    assert np.ptp(theirs) > 1
