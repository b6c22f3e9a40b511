#!/usr/bin/env python3
"""Claim: texts are written faster than by transformers and llama.cpp on the same cores, from the same weights.

    python benchmarks/generation_vs_peers.py [CASE ...] --peer-python PYTHON

A Llama form of 135 million random weights (SmolLM2-135M's sizes) writes 48 tokens behind prompts of 32, always the
likeliest one. `alone` is one request, `eight` is eight at once, in float32; the cases with `_int8` hold weights of
products in 8 bits (ours in groups of 64; llama.cpp's Q8_0 in groups of 32; transformers has no such form on CPUs, and
writes in float32). Ours is the engine that `paddock serve` runs; transformers' `generate` gets all prompts as one
batch; llama.cpp's sequences share a batch through its Python binding. Reading prompts is part of the time.

The peers need `pip install torch==2.13.0 transformers llama-cpp-python gguf`. What one token costs at least: the bytes
of all weights over the memory's bandwidth (`generation.py` measures both).

`--agree` writes 48 tokens of one prompt on every side and says which of them are the same.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from common import OURS, ROOT, Claim, Competitor, has_modules, run_claims
from common import SMOLLM2_135M as SIZE

sys.path.insert(0, str(ROOT))

CLAIMS = [
    Claim("alone", 1.0, 1.2),
    Claim("eight", 1.0, 2.0),
    Claim("alone_int8", 1.0, 1.2),
    Claim("eight_int8", 1.0, 1.5),
]
PROMPT, NEW = 32, 48
PEERS = {"transformers": ("torch", "transformers"), "llama.cpp": ("llama_cpp", "gguf")}

Writes = Callable[[Sequence[Sequence[int]]], list[list[int]]]  # prompts to what is written behind each


def prompts(count: int) -> list[list[int]]:
    """The same for all."""
    return np.random.default_rng(0).integers(3, SIZE["vocab_size"], (count, PROMPT)).tolist()


def weights() -> dict[str, np.ndarray]:
    """Random weights by our names, the same for all; wide enough that the likeliest token is no near thing."""
    rng, s = np.random.default_rng(1), SIZE
    size = s["width"] // s["heads"]
    shapes: dict[str, tuple[int, ...]] = {"words.weight": (s["vocab_size"], s["width"]), "norm.scale": (s["width"],)}
    for i in range(s["layers"]):
        shapes |= {
            f"layers.{i}.norm1.scale": (s["width"],), f"layers.{i}.norm2.scale": (s["width"],),
            f"layers.{i}.qkv.weight": (s["width"] + 2 * s["kv_heads"] * size, s["width"]),
            f"layers.{i}.out.weight": (s["width"], s["width"]), f"layers.{i}.gate.weight": (s["hidden"], s["width"]),
            f"layers.{i}.up.weight": (s["hidden"], s["width"]), f"layers.{i}.down.weight": (s["width"], s["hidden"]),
        }  # fmt: skip
    return {
        name: np.ones(shape, np.float32) if name.endswith("scale") else rng.standard_normal(shape, np.float32) * 0.04
        for name, shape in shapes.items()
    }


def theirs(ours: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights by Hugging Face's names."""
    part = SIZE["width"] // SIZE["heads"] * SIZE["kv_heads"]
    names = {"out": "self_attn.o_proj", "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj"}
    found = {"model.embed_tokens.weight": ours["words.weight"], "model.norm.weight": ours["norm.scale"]}
    for i in range(SIZE["layers"]):
        at, to = f"layers.{i}", f"model.layers.{i}"
        found[f"{to}.input_layernorm.weight"] = ours[f"{at}.norm1.scale"]
        found[f"{to}.post_attention_layernorm.weight"] = ours[f"{at}.norm2.scale"]
        rows = np.split(ours[f"{at}.qkv.weight"], [SIZE["width"], SIZE["width"] + part])
        found |= {f"{to}.self_attn.{p}_proj.weight": row for p, row in zip("qkv", rows, strict=True)}
        found |= {f"{to}.{name}.weight": ours[f"{at}.{own}.weight"] for own, name in names.items()}
    return found


def paddock(clients: int, int8: bool, threads: int) -> Writes:
    """The generation engine, a client a prompt."""
    from generation import Client, Network

    import framework
    from suites.engine.contract.capabilities.generating import Sampling
    from suites.engine.serving.generation.engine import Engine
    from suites.engine.serving.generation.requests import EngineLimits, Piece
    from suites.nlp.models.language_model import LanguageModel
    from suites.nlp.writing import Search
    from suites.nlp.writing.sampling import Sampler

    class Greedy(Network):
        """Always the likeliest token; its texts are numbers."""

        def text(self, ids: Sequence[int]) -> str:
            return "".join(f"{each} " for each in ids)

        def chooser(self, sampling: Sampling, number: int, prompt: Sequence[int]) -> Sampler:
            return Sampler(Search(temperature=0.0), number, prompt)

    class Reader(Client):
        """Keeps what it gets."""

        def take(self, piece: Piece) -> None:
            self.text += piece.text
            super().take(piece)

    framework.set_num_threads(threads)
    model = LanguageModel(**SIZE, max_length=2048)
    model.load_state_dict(weights())
    engine = Engine(Greedy(model, int8=int8), EngineLimits(sequences=clients, new_tokens=NEW), print)
    engine.start()

    def write(texts: Sequence[Sequence[int]]) -> list[list[int]]:
        asked = [Reader(engine, list(text), NEW, k) for k, text in enumerate(texts)]
        for each in asked:
            each.done.wait()
        return [[int(word) for word in each.text.split()] for each in asked]

    return write


def transformers(clients: int, int8: bool, threads: int) -> Writes:
    """`generate` of transformers, all prompts in one batch."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(threads)
    config = LlamaConfig(
        vocab_size=SIZE["vocab_size"], hidden_size=SIZE["width"], intermediate_size=SIZE["hidden"],
        num_hidden_layers=SIZE["layers"], num_attention_heads=SIZE["heads"], num_key_value_heads=SIZE["kv_heads"],
        max_position_embeddings=2048, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=True,
        bos_token_id=None, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    state = {name: torch.from_numpy(value) for name, value in theirs(weights()).items()}
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)

    def write(texts: Sequence[Sequence[int]]) -> list[list[int]]:
        ids = torch.tensor(texts)
        with torch.inference_mode():
            out = model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False
            )
        return out[:, PROMPT:].tolist()

    return write


def gguf_file(path: str, int8: bool) -> None:
    """The weights as llama.cpp reads them: queries and keys turned in neighbouring pairs; Q8_0 but for the norms."""
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    s, size = SIZE, SIZE["width"] // SIZE["heads"]
    writer.add_context_length(2048)
    writer.add_embedding_length(s["width"])
    writer.add_block_count(s["layers"])
    writer.add_feed_forward_length(s["hidden"])
    writer.add_head_count(s["heads"])
    writer.add_head_count_kv(s["kv_heads"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(size)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(s["vocab_size"])
    writer.add_tokenizer_model("llama")
    writer.add_token_list([f"<{i}>" for i in range(s["vocab_size"])])
    writer.add_token_scores([0.0] * s["vocab_size"])
    writer.add_token_types([1] * s["vocab_size"])

    def pairs(x: np.ndarray, heads: int) -> np.ndarray:
        return x.reshape(heads, 2, size // 2, -1).swapaxes(1, 2).reshape(x.shape)

    def add(name: str, x: np.ndarray) -> None:
        kind = gguf.GGMLQuantizationType
        if int8 and x.ndim == 2:
            writer.add_tensor(name, gguf.quants.quantize(x, kind.Q8_0), raw_dtype=kind.Q8_0)
        else:
            writer.add_tensor(name, x)

    names = {"self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate"}
    names |= {"mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm"}
    names |= {"post_attention_layernorm": "ffn_norm"}
    found = theirs(weights())
    add("token_embd.weight", found["model.embed_tokens.weight"])
    add("output_norm.weight", found["model.norm.weight"])
    for i in range(s["layers"]):
        at = f"model.layers.{i}"
        add(f"blk.{i}.attn_q.weight", pairs(found[f"{at}.self_attn.q_proj.weight"], s["heads"]))
        add(f"blk.{i}.attn_k.weight", pairs(found[f"{at}.self_attn.k_proj.weight"], s["kv_heads"]))
        for name, own in names.items():
            add(f"blk.{i}.{own}.weight", found[f"{at}.{name}.weight"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama_cpp(clients: int, int8: bool, threads: int) -> Writes:
    """llama.cpp's decoder on a batch of sequences, through its Python binding's low level."""
    import llama_cpp as api

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/weights.gguf"
        gguf_file(path, int8)
        silent = api.llama_log_callback(lambda level, text, data: None)
        api.llama_log_set(silent, ctypes.c_void_p(0))
        settings = api.llama_model_default_params()
        settings.use_mmap = False
        model = api.llama_model_load_from_file(path.encode(), settings)
    own = api.llama_context_default_params()
    own.n_ctx, own.n_batch, own.n_seq_max = 256 * clients, 512, clients
    own.n_threads = own.n_threads_batch = threads
    context = api.llama_init_from_model(model, own)
    batch = api.llama_batch_init(512, 0, 1)
    words = SIZE["vocab_size"]

    def run(rows: Sequence[tuple[int, int, int, bool]]) -> list[int]:
        """The likeliest tokens behind rows of (token, place, sequence, whether it is asked for)."""
        batch.n_tokens = len(rows)
        for i, (token, place, sequence, asked) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, place, 1
            batch.seq_id[i][0], batch.logits[i] = sequence, asked
        if api.llama_decode(context, batch):
            raise RuntimeError("llama_decode failed")
        scores = [api.llama_get_logits_ith(context, i) for i, row in enumerate(rows) if row[3]]
        return [int(np.ctypeslib.as_array(each, (words,)).argmax()) for each in scores]

    def write(texts: Sequence[Sequence[int]]) -> list[list[int]]:
        api.llama_memory_clear(api.llama_get_memory(context), True)
        last = run([(t, i, k, i == PROMPT - 1) for k, text in enumerate(texts) for i, t in enumerate(text)])
        found = [[token] for token in last]
        for step in range(NEW - 1):
            last = run([(token, PROMPT + step, k, True) for k, token in enumerate(last)])
            for each, token in zip(found, last, strict=True):
                each.append(token)
        return found

    return write


SIDES = {OURS: paddock, "transformers": transformers, "llama.cpp": llama_cpp}


def run(a: argparse.Namespace) -> None:
    """Time one side of a case and print the JSON line that `common.measure` reads."""
    case = a.cases[0]
    clients = 8 if case.startswith("eight") else 1
    texts = prompts(clients)
    write = SIDES[a.side](clients, case.endswith("int8"), a.threads)
    found = write(texts)
    if a.agree:
        print(json.dumps(found))
        return
    times: list[float] = []
    end = time.perf_counter() + a.seconds
    while time.perf_counter() < end or len(times) < 2:
        start = time.perf_counter()
        write(texts)
        times.append(time.perf_counter() - start)
    step = float(np.median(times))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    figures = {"rate": round(clients * NEW / step, 1), "unit": "tokens/s", "step_ms": round(1e3 * step, 2)}
    print(json.dumps({**figures, "steps": len(times), "peak_rss_mb": memory}))


def competitors(case: str, a: argparse.Namespace) -> list[Competitor]:
    """Ours, and the peers that are installed."""
    words = ["--seconds", str(a.seconds), "--threads", str(a.threads), *["--agree"] * a.agree, case]
    found = [Competitor(OURS, [sys.executable, __file__, "--side", OURS, *words])]
    for name, modules in PEERS.items():
        if has_modules(a.peer_python, *modules):
            found.append(Competitor(name, [a.peer_python, __file__, "--side", name, *words]))
        else:
            print(f"{name} is left out: {a.peer_python} has no {' or no '.join(modules)}", file=sys.stderr)
    return found


def agreement(case: str, a: argparse.Namespace) -> str:
    """How many of a text's tokens each peer writes as we do."""
    texts: dict[str, Any] = {}
    for each in competitors(case, a):
        out = subprocess.run(each.command, capture_output=True, text=True, check=True).stdout
        texts[each.name] = np.array(json.loads(out.splitlines()[-1]))
    lines = []
    for name in texts:
        same = [int(np.cumprod(x == y).sum()) for x, y in zip(texts[OURS], texts[name], strict=True)]
        lines.append(f"{case}: {name} writes the first {same} of {NEW} tokens as we do")
    return "\n".join(lines[1:])


def add_option(parser: argparse.ArgumentParser) -> None:
    """The script's own option."""
    parser.add_argument("--agree", action="store_true", help="compare texts, not time")


def main(words: list[str] | None = None) -> list[dict]:
    """Measure, print the table and return the results by case."""
    own: dict[str, Any] = {"options": add_option, "agree": agreement}
    return run_claims("generation_vs_peers", __doc__, CLAIMS, competitors, run, words, **own)


if __name__ == "__main__":
    main()
