"""Svtr and AttentionReader: against an independent reading in PyTorch, and what they learn, bound and refuse."""

import numpy as np
import pytest

from framework import from_numpy, no_grad, optim, program
from framework.errors import AttributeValueError, ConfigError
from suites.ocr.decoding import greedy
from suites.ocr.models.attention import NOTHING, AttentionReader, told
from suites.ocr.models.crnn import Crnn
from suites.ocr.models.svtr_grid import Svtr
from suites.ocr.pixels import LineFrame
from suites.ocr.problems.lines import collate_lines
from suites.ocr.processor import LineProcessor, OcrProcessor
from suites.ocr.sample import LineSample
from tests.suites.ocr.test_training import line_task

SMALL = {"dims": (16, 16, 32), "depths": (1, 2, 1), "heads": (1, 2, 2), "local": 2, "out": 24}
THIN = (8, 8, 16, 16, 32, 32, 32)


def lines(width, count=2, height=32, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (count, height, width, 3)).astype(np.float32)


def stirred(model, seed=1):
    """A model whose every weight and statistic is drawn, so that none of them is left out unseen."""
    rng = np.random.default_rng(seed)
    state = {}
    for name, value in model.state_dict().items():
        array = rng.normal(0, 0.2, value.shape).astype(np.float32)
        state[name] = from_numpy(np.abs(array) + 0.5 if name.endswith("running_var") else array)
    model.load_state_dict(state)
    return model.eval(), {name: value.numpy() for name, value in state.items()}


def svtr_in_torch(torch, w, x, plan):
    """Du et al. 2022 as PaddleOCR has it with norms first, of channels last lines [N, H, W, 3]."""
    functions = torch.nn.functional

    def linear(x, name):
        bias = w.get(f"{name}.bias")
        return functions.linear(x, w[f"{name}.weight"], bias)

    def norm(x, name, eps):
        return functions.layer_norm(x, x.shape[-1:], w[f"{name}.scale"], w[f"{name}.bias"], eps)

    def patch(x, name):
        x = functions.conv2d(x, w[f"{name}.conv.weight"].permute(0, 3, 1, 2), stride=2, padding=1)
        parts = [w[f"{name}.norm.{leaf}"] for leaf in ("running_mean", "running_var", "scale", "bias")]
        return functions.gelu(functions.batch_norm(x, *parts, eps=1e-5))

    def mask(h, w_):
        padded = torch.ones(h * w_, h + 6, w_ + 10)
        for i in range(h):
            for j in range(w_):
                padded[i * w_ + j, i : i + 7, j : j + 11] = 0
        return torch.where(padded[:, 3 : h + 3, 5 : w_ + 5].flatten(1) < 1, 0.0, float("-inf"))

    x = patch(patch(torch.from_numpy(x).permute(0, 3, 1, 2), "patches.first"), "patches.second")
    x = x + w["places"][:, :, : x.shape[3]].permute(0, 3, 1, 2)
    number = 0
    for k, (depth, heads) in enumerate(zip(plan["depths"], plan["heads"], strict=True)):
        if k:
            weight = w[f"lower.{k - 1}.weight"].permute(0, 3, 1, 2)
            x = functions.conv2d(x, weight, w[f"lower.{k - 1}.bias"], stride=(2, 1), padding=1)
            x = norm(x.permute(0, 2, 3, 1), f"norms.{k - 1}", 1e-5).permute(0, 3, 1, 2)
        n, c, h, wide = x.shape
        rows = x.flatten(2).transpose(1, 2)
        for j in range(depth):
            place = f"stages.{k}.{j}"
            mixed = linear(norm(rows, f"{place}.norm1", 1e-6), f"{place}.qkv")
            q, key, v = mixed.reshape(n, -1, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
            scores = q @ key.transpose(2, 3) * (c // heads) ** -0.5
            if number < plan["local"]:
                scores = scores + mask(h, wide)
            seen = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, -1, c)
            rows = rows + linear(seen, f"{place}.out")
            rows = rows + linear(
                functions.gelu(linear(norm(rows, f"{place}.norm2", 1e-6), f"{place}.up")), f"{place}.down"
            )
            number += 1
        x = rows.transpose(1, 2).reshape(n, c, h, wide)
    rows = norm(x.permute(0, 2, 3, 1), "norm", 1e-6).mean(1)
    return linear(functions.hardswish(linear(rows, "last")), "fc")


@pytest.mark.peers
@pytest.mark.parametrize(("plan", "width"), [(SMALL, 64), (SMALL, 40), ({}, 104)])
def test_svtr_is_an_independent_reading_of_the_paper_in_pytorch(plan, width):
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    model, weights = stirred(Svtr("digits", widest=128, **plan))
    whole = {"depths": (3, 6, 3), "heads": (2, 4, 8), "local": 6, **plan}
    given = lines(width)
    with no_grad(), torch.no_grad():
        ours = model(from_numpy(given)).numpy()
        theirs = svtr_in_torch(torch, {k: torch.from_numpy(v) for k, v in weights.items()}, given, whole).numpy()
    assert ours.shape == (2, width // 4, 11) and np.ptp(theirs) > 0.1
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-4 * np.abs(theirs).max())


def attention_in_torch(torch, w, features, before, greedy_steps=0):
    """PaddleOCR's AttentionHead with torch's GRUCell; `before` [N, L], or greedily so many steps."""
    functions = torch.nn.functional
    hidden, classes = w["cell.state.weight"].shape[1], len(w["fc.weight"])
    cell = torch.nn.GRUCell(features.shape[2] + classes, hidden)
    cell.load_state_dict(
        {
            "weight_ih": torch.cat([w["cell.seen.weight"], w["cell.before.weight"].T], dim=1),
            "bias_ih": w["cell.seen.bias"],
            "weight_hh": w["cell.state.weight"],
            "bias_hh": w["cell.state.bias"],
        }
    )
    state, found = torch.zeros(len(features), hidden), []
    last = torch.zeros(len(features), dtype=torch.int64)
    for k in range(greedy_steps or before.shape[1]):
        last = last if greedy_steps else before[:, k]
        query = functions.linear(state, w["cell.query.weight"], w["cell.query.bias"])[:, None]
        keys = functions.linear(features, w["cell.key.weight"])
        energy = functions.linear(torch.tanh(keys + query), w["cell.score.weight"])
        context = (energy.softmax(1).transpose(1, 2) @ features)[:, 0]
        state = cell(torch.cat([context, functions.one_hot(last, classes).float()], dim=1), state)
        found.append(functions.linear(state, w["fc.weight"], w["fc.bias"]))
        last = found[-1].argmax(-1)
    return torch.stack(found, dim=1)


@pytest.mark.peers
def test_the_decoder_is_an_independent_reading_in_pytorch():
    torch = pytest.importorskip("torch", reason="the peer PyTorch is not installed")
    model, weights = stirred(AttentionReader(Crnn("digits", channels=THIN, hidden=16), hidden=24, longest=9))
    w = {k: torch.from_numpy(v) for k, v in weights.items()}
    before = np.random.default_rng(2).integers(0, 11, (3, 7))
    with no_grad(), torch.no_grad():
        features = model.features(from_numpy(lines(64, count=3)))
        given = torch.from_numpy(features.numpy())
        ours = model.written(features, from_numpy(before)).numpy()
        theirs = attention_in_torch(torch, w, given, torch.from_numpy(before)).numpy()
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max())
        characters, scores = (value.numpy() for value in model.read(from_numpy(lines(64, count=3))))
        likely = attention_in_torch(torch, w, given, None, greedy_steps=9).softmax(-1).numpy()
    for k, row in enumerate(likely.argmax(-1)):
        ended = int(np.append(row, 0).argmin()) if 0 in row else 9
        assert characters[k, ::2].tolist() == [*row[:ended], *[0] * (9 - ended)]
        np.testing.assert_allclose(scores[k, ::2][:ended], likely[k].max(-1)[:ended], atol=1e-5)
    assert not characters[:, 1::2].any() and characters.any()


def learnt(task, steps, lr):
    (batch,) = task.train_loader(seed=0, workers=0)
    optimizer = optim.Adam(task.model.named_parameters(), lr=lr)

    @program
    def step(inputs):
        terms = task.train_step(inputs)
        loss = sum((term.mean for term in terms.values()), start=0.0)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    task.model.train()
    losses = [float(step({name: batch[name] for name in task.train_inputs})) for _ in range(steps)]
    metric = task.metric()
    with no_grad():
        outputs = task.eval_step({"lines": from_numpy(batch["lines"])})
    metric.update({name: array.numpy() for name, array in outputs.items()}, batch)
    return losses, metric.result()["accuracy"]


def test_svtr_learns_lines_by_heart(tmp_path):
    losses, accuracy = learnt(line_task(tmp_path, Svtr("digits", dropout=0.0, **SMALL)), 250, 1e-3)
    assert losses[-1] < 0.3 < 2.0 < losses[0] and accuracy == 1.0


def test_the_attention_decoder_learns_lines_by_heart(tmp_path):
    body = Crnn("digits", channels=THIN, hidden=32)
    losses, accuracy = learnt(line_task(tmp_path, AttentionReader(body, hidden=32, longest=8)), 250, 5e-3)
    assert losses[-1] < 0.3 < 2.0 < losses[0] and accuracy == 1.0


def test_what_a_decoder_is_told_and_should_say():
    before, wanted = told([np.array([3, 4]), np.zeros(0, np.int64), np.array([5, 6, 7, 8])], longest=4)
    assert before.tolist() == [[0, 3, 4, 0], [0, 0, 0, 0], [0, 5, 6, 7]]
    assert wanted.tolist() == [[3, 4, 0, NOTHING], [0, *[NOTHING] * 3], [5, 6, 7, 8]]


def test_repeated_characters_of_the_decoder_stay_two():
    model = AttentionReader(Crnn("digits", channels=THIN, hidden=16), hidden=8, longest=6).eval()
    with no_grad():
        characters, scores = (value.numpy() for value in model.read(from_numpy(lines(64))))
    assert characters.shape == scores.shape == (2, 12) and not characters[:, 1::2].any()
    (read,) = greedy(np.array([[2, 0, 2, 0, 0, 0]]), np.ones((1, 6)), model.alphabet)
    assert read.text == "11"


def test_lines_wider_than_the_learnt_places_are_squeezed():
    model = Svtr("digits", widest=64, **SMALL)
    long = LineSample(image=np.zeros((20, 2000, 3), np.uint8), text="1" * 30)
    batch = collate_lines([long], alphabet=model.alphabet, frame=LineFrame(32, 8, 64), step=4, lost=0)
    assert batch["lines"].shape == (1, 32, 64, 3) and batch["columns"].tolist() == [0, 16]
    shown = LineProcessor(model.alphabet, LineFrame(32, 8, 64, 16))
    assert shown.prepare([long.image])["lines"].shape == (1, 32, 64, 3)
    assert OcrProcessor.from_metadata(shown.metadata()).metadata() == shown.metadata()


@pytest.mark.parametrize(
    ("given", "said"),
    [({"height": 24}, "height is 24"), ({"widest": 30}, "widest 30"), ({"dims": (10, 20, 30)}, "three numbers")],
)
def test_shapes_of_no_svtr_are_refused(given, said):
    with pytest.raises(AttributeValueError, match=said):
        Svtr("digits", **given)


def test_a_decoder_of_a_decoder_is_refused():
    body = Crnn("digits", channels=THIN, hidden=16)
    with pytest.raises(AttributeValueError, match="longest 1"):
        AttentionReader(body, longest=1)
    with pytest.raises(ConfigError, match="AttentionReader: AttentionReader is no recogniser of columns"):
        AttentionReader(AttentionReader(body))
