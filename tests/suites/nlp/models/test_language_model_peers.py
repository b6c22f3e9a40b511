"""Language models against transformers: random weights, saved by its own `save_pretrained`, read by ours."""

import json

import numpy as np
import pytest

import framework
from suites.nlp.models.language_model import LanguageModel
from suites.nlp.models.language_names import described_language_model
from suites.nlp.writing import Limits, Prompt, Search, Writer

pytestmark = pytest.mark.peers
SIZES = {
    "vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
FAMILIES = {
    "gpt2": {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64, "vocab_size": 61, "bos_token_id": 1,
             "eos_token_id": 2},
    "llama": SIZES,
    "llama shared": {**SIZES, "num_key_value_heads": 2, "tie_word_embeddings": True, "rope_theta": 100000.0},
    "qwen2": {**SIZES, "num_key_value_heads": 1},
    "mistral": {**SIZES, "num_key_value_heads": 2, "head_dim": 16, "sliding_window": None},
    "mistral windows": {**SIZES, "num_key_value_heads": 2, "sliding_window": 7},
    "qwen2 windows": {**SIZES, "num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": 5,
                      "max_window_layers": 1},
    "llama linear": {**SIZES, "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 10000.0}},
    "llama llama3": {**SIZES, "rope_parameters": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16, "rope_theta": 500000.0}},
    "llama yarn": {**SIZES, "rope_parameters": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 10000.0}},
}  # fmt: skip


@pytest.fixture(params=FAMILIES)
def both(request, tmp_path):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    config = AutoConfig.for_model(request.param.partition(" ")[0], **FAMILIES[request.param])
    config._attn_implementation = "eager"
    theirs = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in theirs.parameters():  # biases and norms too are something
            parameter.add_(torch.randn_like(parameter) * 0.1)
    theirs.save_pretrained(tmp_path)
    fields = described_language_model(json.loads((tmp_path / "config.json").read_text()), "config.json")
    from suites.engine.weights.pretrained import load_wanted

    ours = LanguageModel(**fields, weights=str(tmp_path))
    load_wanted(ours)
    return ours.eval(), theirs.eval()


def test_logits_are_those_of_transformers(both):
    import torch

    ours, theirs = both
    ids = np.random.default_rng(0).integers(3, 61, 40)
    with torch.no_grad():
        expected = [theirs(torch.tensor(part[None])).logits[0].numpy() for part in (ids[:33], ids[33:])]
    with framework.no_grad():
        found = ours(framework.tensor(ids), framework.tensor([0, 33, 40])).numpy()
    # Sums of at most 48 terms over 3 layers, of numbers of order 1: some hundred roundings of float32.
    scale = max(1.0, float(np.abs(found).max()))
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=0, atol=200 * np.finfo(np.float32).eps * scale)


@pytest.mark.parametrize("how", [{}, {"num_beams": 3}, {"repetition_penalty": 1.3}])
def test_the_same_words_are_written(both, how):
    import torch

    ours, theirs = both
    prompt = [5, 9, 17, 3]
    with torch.no_grad():
        given = torch.tensor([[1, *prompt]])
        said = theirs.generate(
            given, attention_mask=torch.ones_like(given), max_new_tokens=20, do_sample=False, pad_token_id=0,
            length_penalty=0.0, early_stopping=False, **how,
        )  # fmt: skip
    expected = [int(i) for i in said[0][5:]]
    expected = expected[: expected.index(2)] if 2 in expected else expected
    search = Search(
        beam=how.get("num_beams", 1),
        max_length=20,
        length_penalty=0.0,
        repetition_penalty=how.get("repetition_penalty", 1.0),
    )
    limits = Limits(1, 2, ours.past_width, length=ours.max_length)
    writer = Writer([Prompt(tuple(prompt))], limits, search)
    with framework.no_grad():
        while (arrays := writer.batch()) is not None:
            found = ours.step(**{name: framework.from_numpy(a) for name, a in arrays.items()})
            writer.take({name: t.numpy() for name, t in found.items()})
    assert list(writer.results()[0][0].ids[4:]) == expected
