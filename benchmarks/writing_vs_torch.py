#!/usr/bin/env python3
"""Claim: networks that write texts train faster than the same ones in PyTorch's best mode, and to the same losses.

    python benchmarks/writing_vs_torch.py [CASE ...] --peer-python PYTHON [--modes eager compile] [--agree 200]

A step is forward, loss, backward, clipping of gradients and the optimizer's update, with the dropout of the config
whose network it is, over eight batches in turn (after 20 steps that are not counted, in which PyTorch compiles):

- `translation`: transformer_multi30k_ende.yml's, on pairs of its lengths (4 to 40 tokens, 14 in the mean) in any
  order, 4,096 tokens a batch. Ours holds no padding; PyTorch's rows are as long as the longest of their batch, and
  its output matrix sees no padding either;
- `translation_mixed`: the same on texts of 5 to 100 tokens;
- `characters`: gpt_tinyshakespeare.yml's, 16 windows of 128;
- `characters_10m`: gpt_tinyshakespeare_10m.yml's, 16 of its 64 windows of 256;
- `recurrent`: lstm_tinyshakespeare.yml's, 16 windows of 128, without its dropout of weights.

`--agree N` trains both sides for N steps from the same weights on the same batches without dropout, and prints the
largest difference of their losses.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import OURS, ROOT, Claim, Competitor, has_modules, run_claims, time_steps

MODES = ("eager", "compile")
CLAIMS = [
    Claim("translation", 2.5, 4.0),
    Claim("translation_mixed", 2.5, 4.0),
    Claim("characters", 2.0, 3.0),
    Claim("characters_10m", 1.2, 2.0),
    Claim("recurrent", 3.0, 4.0),
]
BATCHES, WARMUP = 8, 20


@dataclass(frozen=True)
class Size:
    """A network's: words, width, heads, width inside, layers, and shares of dropout."""

    words: int
    width: int
    heads: int
    hidden: int
    layers: int
    dropout: float
    between: float = 0.0
    rate: float = 1e-3
    beta2: float = 0.99
    eps: float = 1e-8
    decay: float = 0.1


SIZES = {
    "translation": Size(6000, 128, 4, 256, 4, 0.3, beta2=0.98, eps=1e-9, decay=0.0),
    "translation_mixed": Size(6000, 128, 4, 256, 4, 0.3, beta2=0.98, eps=1e-9, decay=0.0),
    "characters": Size(72, 128, 4, 352, 4, 0.0),
    "characters_10m": Size(72, 384, 6, 1024, 6, 0.2),
    "recurrent": Size(72, 128, 0, 384, 2, 0.1, 0.1),
}
Batch = dict[str, np.ndarray]


def batches(case: str) -> Iterator[tuple[Batch, int]]:
    """Flat arrays as ours takes them, and the tokens that are learnt from: the same for both sides."""
    rng, size = np.random.default_rng(0), SIZES[case]
    for _ in range(BATCHES):
        if not case.startswith("translation"):
            count, length = 16, 256 if case == "characters_10m" else 128
            ids = _successors(rng, count, length + 1, size.words)
            yield {
                "ids": ids[:, :-1].ravel(), "offsets": np.arange(count + 1) * length, "words": ids[:, 1:].ravel(),
            }, count * length  # fmt: skip
            continue
        drawn = (rng.gamma(9.0, 14 / 9, 400) if case == "translation" else rng.uniform(5, 100, 400)).round().astype(int)
        lengths = drawn.clip(4, 40) if case == "translation" else drawn
        others = (lengths * rng.uniform(0.8, 1.25, 400)).round().astype(int)
        count = int(np.searchsorted(np.cumsum(lengths + others), 4096))
        source, target = lengths[:count], others[:count]
        words = rng.integers(3, size.words, target.sum())
        starts = np.cumsum([0, *target])
        shifted = np.roll(words, 1)
        shifted[starts[:-1]] = 1
        yield {
            "source": rng.integers(3, size.words, source.sum()), "source_offsets": np.cumsum([0, *source]),
            "target": shifted, "target_offsets": starts, "words": words,
        }, int(source.sum() + target.sum())  # fmt: skip


def _successors(rng: np.random.Generator, count: int, length: int, words: int) -> np.ndarray:
    """Rows of words in which a word's successor is one of three: something to learn."""
    ids = np.zeros((count, length), np.int64)
    for i in range(1, length):
        ids[:, i] = (ids[:, i - 1] * 7 + rng.integers(1, 4, count)) % words
    return ids


def our_model(case: str, dropout: bool) -> Any:
    """The network of a config, with its dropout or without."""
    from suites.nlp.models.language_model import LanguageModel
    from suites.nlp.models.recurrent_writing import RecurrentLanguageModel
    from suites.nlp.models.transformer import Transformer

    s, p = SIZES[case], float(dropout)
    if case.startswith("translation"):
        sides: dict[str, Any] = {"encoder_layers": s.layers, "decoder_layers": s.layers, "max_length": 256}
        return Transformer(s.words, s.words, s.width, s.heads, s.hidden, dropout=p * s.dropout, shared=True, **sides)
    if case == "recurrent":
        shares: dict[str, Any] = {"dropout": p * s.dropout, "layer_dropout": p * s.between}
        return RecurrentLanguageModel(s.words, s.width, hidden=s.hidden, layers=s.layers, **shares)
    return LanguageModel(s.words, s.width, s.layers, s.heads, max_length=256, dropout=p * s.dropout)


def our_step(case: str, model: Any) -> Callable[[int], float]:
    """A training step on batch k; its loss."""
    from framework import ops, program, tensor
    from framework.optim import AdamW, clip_by_global_norm

    s, smoothing = SIZES[case], 0.1 if case.startswith("translation") else 0.0
    optimizer = AdamW(
        model.named_parameters(), lr=s.rate, beta2=s.beta2, eps=s.eps, weight_decay=s.decay, decay_vectors=True
    )
    given = [{name: tensor(value) for name, value in batch.items()} for batch, _ in batches(case)]

    @program
    def step(batch: Any) -> Any:
        inputs = {name: value for name, value in batch.items() if name != "words"}
        loss = ops.mean(ops.cross_entropy(model(**inputs), batch["words"], label_smoothing=smoothing))
        optimizer.zero_grad()
        loss.backward()
        clip_by_global_norm(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return lambda k: float(step(given[k % BATCHES]).numpy())


def peer_model(case: str, dropout: bool) -> Any:
    """The same network in PyTorch."""
    import writing_networks as networks

    s, p = SIZES[case], float(dropout)
    if case.startswith("translation"):
        return networks.Transformer(s.words, s.width, s.heads, s.hidden, s.layers, p * s.dropout)
    if case == "recurrent":
        return networks.RecurrentLanguageModel(s.words, s.width, s.hidden, s.layers, p * s.dropout, p * s.between)
    return networks.LanguageModel(s.words, s.width, s.heads, s.hidden, s.layers, p * s.dropout)


def peer_step(case: str, model: Any, mode: str) -> Callable[[int], float]:
    """A training step on batch k in PyTorch, padded; its loss."""
    import torch
    from torch.nn import functional as F
    from torch.nn.utils.rnn import pad_sequence

    s, smoothing = SIZES[case], 0.1 if case.startswith("translation") else 0.0
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=s.rate, betas=(0.9, s.beta2), eps=s.eps, weight_decay=s.decay, fused=True
    )

    def padded(values: np.ndarray, offsets: np.ndarray) -> torch.Tensor:
        return pad_sequence([torch.from_numpy(row) for row in np.split(values, offsets[1:-1])], batch_first=True)

    given: list[tuple[Any, ...]] = []
    for batch, _ in batches(case):
        if case.startswith("translation"):
            lengths, theirs = np.diff(batch["source_offsets"]), np.diff(batch["target_offsets"])
            target = padded(batch["target"], batch["target_offsets"])
            real = torch.from_numpy(np.arange(target.shape[1]) < theirs[:, None])
            source = padded(batch["source"], batch["source_offsets"])
            given.append((source, torch.from_numpy(lengths), target, real, torch.from_numpy(batch["words"])))
        else:
            given.append((padded(batch["ids"], batch["offsets"]), torch.from_numpy(batch["words"])))

    def loss_of(*batch: Any) -> torch.Tensor:
        *inputs, words = batch
        logits = model.logits(model(*inputs[:3])[inputs[3]]) if len(inputs) > 1 else model(*inputs).flatten(0, 1)
        return F.cross_entropy(logits, words, label_smoothing=smoothing)

    # lengths differ from batch to batch: compiled once for all of them, not for each anew
    dynamic = True if case.startswith("translation") else None
    call = torch.compile(loss_of, dynamic=dynamic) if mode == "compile" else loss_of

    def step(k: int) -> float:
        optimizer.zero_grad()
        loss = call(*given[k % BATCHES])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(loss)

    return step


def step_of(case: str, side: str, threads: int, weights: Path | None = None) -> Callable[[int], float]:
    """The training step of one side; with a file of weights from these, without dropout."""
    if side == OURS:
        sys.path.insert(0, str(ROOT))
        import framework

        framework.set_num_threads(threads)
        framework.random.seed(0)
        model = our_model(case, dropout=weights is None)
        if weights is not None:
            np.savez(weights, **{name: each.numpy() for name, each in model.named_parameters()})
        return our_step(case, model)
    import torch
    from writing_networks import take

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = peer_model(case, dropout=weights is None)
    if weights is not None:
        with np.load(weights) as arrays:
            take(model, {name: torch.from_numpy(arrays[name]) for name in arrays.files})
    return peer_step(case, model, side)


def run(a: argparse.Namespace) -> None:
    """Time one side of a case, or train it from given weights, and print a JSON line."""
    case = a.cases[0]
    step = step_of(case, a.side, a.threads, a.weights)
    if a.weights is not None:
        print(json.dumps([step(k) for k in range(a.agree)]))
        return
    count = iter(range(10**9))
    found = time_steps(lambda: step(next(count)), a.seconds, warmup=WARMUP)
    tokens = np.mean([tokens for _, tokens in batches(case)])
    print(json.dumps({"rate": round(float(tokens / found["step_ms"] * 1e3)), "unit": "tokens/s", **found}))


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """Ours, and PyTorch in every mode asked for, where it is installed."""
    words = ["--seconds", str(a.seconds), "--threads", str(a.threads), case]
    found = [Competitor(OURS, [sys.executable, __file__, "--side", OURS, *words])]
    if not has_modules(a.peer_python, "torch"):
        print(f"PyTorch is left out: {a.peer_python} does not have it", file=sys.stderr)
        return found
    peer = [a.peer_python, __file__, "--side"]
    return found + [Competitor(f"torch {mode}", [*peer, mode, *words]) for mode in a.modes]


def agreement(case: str, python: str, steps: int, threads: int) -> tuple[float, float, float]:
    """The losses of both sides after so many steps from the same weights, and their largest difference on the way."""
    losses: list[Sequence[float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for interpreter, side in ((sys.executable, OURS), (python, "eager")):
            words = ["--side", side, "--threads", str(threads), "--agree", str(steps), case]
            command = [interpreter, __file__, "--weights", f"{folder}/first.npz", *words]
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            losses.append(json.loads(out.splitlines()[-1]))
    ours, theirs = map(np.array, losses)
    return float(ours[-1]), float(theirs[-1]), float(np.abs(ours - theirs).max())


def add_options(parser: argparse.ArgumentParser) -> None:
    """The script's own options."""
    parser.add_argument("--agree", type=int, default=0, metavar="STEPS", help="compare losses, not time")
    parser.add_argument("--weights", type=Path, help=argparse.SUPPRESS)


def told(case: str, a: argparse.Namespace) -> str:
    """What `--agree` prints of a case."""
    ours, theirs, most = agreement(case, a.peer_python, a.agree, a.threads)
    return f"{case}: {a.agree} steps, loss {ours:.5f} and {theirs:.5f}, at most {most:.1e} apart"


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    own: dict[str, Any] = {"baseline": "torch eager", "modes": MODES, "options": add_options, "agree": told}
    return run_claims("writing_vs_torch", __doc__, CLAIMS, competitors, run, words, **own)


if __name__ == "__main__":
    main()
