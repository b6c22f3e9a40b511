"""Each published family against transformers: random weights, saved by its own `save_pretrained`, read by ours."""

import json

import numpy as np
import pytest

from framework import ops, tensor
from suites.engine.config.sections import LoraSettings
from suites.engine.weights import load_pretrained
from suites.engine.weights.lora.layers import add_lora
from suites.engine.weights.lora.peft import save_adapter
from suites.engine.weights.pretrained import load_wanted
from suites.nlp.models.heads import SequenceClassifier, SpanPredictor, TokenClassifier
from suites.nlp.models.masked_language import MaskedLanguageModel
from suites.nlp.models.published import PublishedEncoder

SIZES = {
    "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 64,
}  # fmt: skip
FAMILIES = {
    "bert": {},
    "ernie": {"use_task_id": True, "task_type_vocab_size": 3},
    "roberta": {"type_vocab_size": 1, "pad_token_id": 1},
    "xlm-roberta": {"type_vocab_size": 1, "pad_token_id": 1},
    "camembert": {"type_vocab_size": 1, "pad_token_id": 1},
    "electra": {"embedding_size": 16},
    "electra whole": {"embedding_size": 32, "hidden_act": "gelu_new"},
    "albert": {"embedding_size": 16},
    "albert sets": {"embedding_size": 16, "num_hidden_layers": 4, "num_hidden_groups": 2, "inner_group_num": 2},
    "mpnet": {},
    "deberta-v2": {
        "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False,
        "type_vocab_size": 0, "max_relative_positions": -1,
    },
    "deberta-v2 of v3": {
        "relative_attention": True, "pos_att_type": "p2c|c2p", "position_biased_input": False, "type_vocab_size": 0,
        "max_relative_positions": -1, "position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm",
    },
    "deberta-v2 of xlarge": {
        "relative_attention": True, "pos_att_type": "p2c|c2p", "position_biased_input": False, "type_vocab_size": 0,
        "max_relative_positions": -1, "position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm",
        "conv_kernel_size": 3, "conv_act": "gelu",
    },
    "modernbert": {"global_attn_every_n_layers": 3, "local_attention": 8, "num_hidden_layers": 4},
    "modernbert biased": {
        "local_attention": 6, "attention_bias": True, "mlp_bias": True, "norm_bias": True, "num_hidden_layers": 4,
    },
    "distilbert": {},
}  # fmt: skip
LENGTHS = (41, 5, 14)  # tokens of the sequences


def made(family, folder):
    """Random weights of a family, saved; the model of theirs."""
    import torch
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(0)
    kind, _, _ = family.partition(" ")
    if kind == "distilbert":
        sizes = {
            "vocab_size": 60,
            "dim": 32,
            "n_layers": 3,
            "n_heads": 4,
            "hidden_dim": 48,
            "max_position_embeddings": 64,
        }
    else:
        sizes = SIZES
    specials = {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 1}
    config = AutoConfig.for_model(kind, **{**specials, **sizes, **FAMILIES[family]})
    config._attn_implementation = "eager"
    theirs = AutoModel.from_config(config)
    with torch.no_grad():
        for parameter in theirs.parameters():  # biases and norms too are something
            parameter.add_(torch.randn_like(parameter) * 0.1)
    theirs.save_pretrained(folder)
    return theirs.eval()


def padded(rows):
    """Ids [B, L] and mask [B, L] of sequences."""
    ids = np.ones((len(LENGTHS), max(LENGTHS)), np.int64)
    mask = np.zeros_like(ids)
    for b, row in enumerate(rows):
        ids[b, : len(row)], mask[b, : len(row)] = row, 1
    return ids, mask


def offsets_of(lengths):
    return tensor(np.cumsum([0, *lengths]))


@pytest.mark.peers
@pytest.mark.parametrize("family", FAMILIES)
def test_states_and_gradients_are_those_of_transformers(family, tmp_path):
    import torch

    theirs = made(family, tmp_path)
    fields = json.loads((tmp_path / "config.json").read_text())
    ours = PublishedEncoder(fields)
    report = load_pretrained(ours, tmp_path / "model.safetensors")
    assert not report.new and not report.resized
    ours.eval()
    generator = np.random.default_rng(0)
    rows = [generator.integers(4, 60, n) for n in LENGTHS]
    ids, mask = padded(rows)
    kinds = {"token_type_ids": torch.tensor(ids % 2)} if ours.config.segment_types > 1 else {}
    out = theirs(torch.tensor(ids), attention_mask=torch.tensor(mask), output_hidden_states=True, **kinds)
    flat, seen = np.concatenate(rows), mask.astype(bool)
    segments = {"segment_ids": tensor(flat % 2)} if kinds else {}
    states = ours.states(tensor(flat), offsets_of(LENGTHS), **segments)
    recorded = out.hidden_states[:: ours.config.inner]  # of a set of layers each is recorded there
    assert len(states) == len(recorded)
    for number, (mine, other) in enumerate(zip(states, recorded, strict=True)):
        wanted = other.detach().numpy()[seen]
        last = number == len(states) - 1
        if last:
            wanted = out.last_hidden_state.detach().numpy()[seen]
        np.testing.assert_allclose(mine.numpy(), wanted, rtol=0, atol=1e-4 * np.abs(wanted).max(), err_msg=str(number))

    weights = generator.standard_normal((len(flat), ours.hidden_size)).astype(np.float32)
    spread = np.zeros((*ids.shape, ours.hidden_size), np.float32)
    spread[seen] = weights
    pooled = getattr(out, "pooler_output", None)
    loss = (out.last_hidden_state * torch.tensor(spread)).sum() + (0 if pooled is None else pooled.sum())
    loss.backward()
    sequence, mine = ours(tensor(flat), offsets_of(LENGTHS), **segments)
    total = ops.sum(sequence * tensor(weights))
    total = total if pooled is None else total + ops.sum(mine)
    if pooled is not None:
        np.testing.assert_allclose(mine.numpy(), pooled.detach().numpy(), rtol=0, atol=1e-4)
    total.backward()
    grads = {name: p.grad.numpy() for name, p in theirs.named_parameters() if p.grad is not None}
    compared = 0
    largest = max(np.abs(g).max() for g in grads.values())
    for name, source in ours.names_in("hf").sources.items():
        parameter = ours.state_dict()[name]
        if any(each not in grads for each in source.names):
            assert parameter.grad is None or not np.abs(np.asarray(parameter.grad.numpy())).any(), name
            continue
        wanted = np.concatenate([source.ours(grads[each]) for each in source.names])
        got = parameter.grad
        got = got.numpy() if hasattr(got, "numpy") else np.asarray(got)
        scale = max(np.abs(wanted).max(), 1e-3 * largest)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-3 * scale, err_msg=name)
        compared += 1
    assert compared > 20 or ours.config.groups


@pytest.mark.peers
@pytest.mark.parametrize(
    "kind", ["bert", "roberta", "distilbert", "electra", "albert", "mpnet", "deberta-v2", "modernbert"]
)
def test_modules_of_adapters_are_those_of_transformers(kind, tmp_path):
    from transformers import AutoConfig, AutoModelForSequenceClassification

    made(kind, tmp_path / "base")
    theirs = AutoModelForSequenceClassification.from_config(AutoConfig.from_pretrained(tmp_path / "base"))
    ours = SequenceClassifier(PublishedEncoder(json.loads((tmp_path / "base" / "config.json").read_text())), 2)
    add_lora(ours, LoraSettings(rank=2, targets=["layers"], train=["^fc"]))
    config, _ = save_adapter(ours, tmp_path / "adapter")
    modules = dict(theirs.named_modules())
    for name in json.loads(config.read_text())["target_modules"]:
        assert type(modules[name]).__name__ == "Linear", name


HEADS = [
    *(("SequenceClassification", family) for family in FAMILIES if not family.startswith("modernbert")),
    *(("TokenClassification", family) for family in ("bert", "roberta", "distilbert", "electra", "deberta-v2")),
    *(("QuestionAnswering", family) for family in ("bert", "roberta", "distilbert", "electra")),
]


@pytest.mark.peers
@pytest.mark.parametrize(("head", "family"), HEADS)
def test_a_published_model_as_a_whole_gives_the_logits_of_transformers(tmp_path, head, family):
    import torch
    import transformers

    made(family, tmp_path / "encoder")
    config = transformers.AutoConfig.from_pretrained(tmp_path / "encoder", num_labels=2 if "Question" in head else 3)
    config._attn_implementation = "eager"
    config.architectures = None
    torch.manual_seed(1)
    theirs = getattr(transformers, f"AutoModelFor{head}").from_config(config)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    theirs.eval().save_pretrained(tmp_path / "whole")
    fields = json.loads((tmp_path / "whole" / "config.json").read_text())
    summary = "classifier" if head == "SequenceClassification" else "none"
    kinds = {"SequenceClassification": SequenceClassifier, "TokenClassification": TokenClassifier}
    ours = kinds.get(head, SpanPredictor)
    classes = {} if ours is SpanPredictor else {"num_classes": 3}
    model = ours(PublishedEncoder(fields, summary), **classes, weights=str(tmp_path / "whole"), head="published")
    (line,) = load_wanted(model)
    assert "new" not in line and not model.eval().training
    ids = np.random.default_rng(0).integers(5, 60, 23)
    with torch.no_grad():
        expected = theirs(torch.tensor(ids)[None])
    found = model(tensor(ids), tensor([0, len(ids)]))
    if ours is SpanPredictor:
        pairs = list(zip(found, (expected.start_logits[0], expected.end_logits[0]), strict=True))
    else:
        pairs = [(found, expected.logits if ours is SequenceClassifier else expected.logits[0])]
    for mine, other in pairs:
        wanted = other.numpy()
        np.testing.assert_allclose(mine.numpy(), wanted, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.peers
@pytest.mark.parametrize("family", FAMILIES)
def test_words_of_masks_are_those_of_transformers(family, tmp_path):
    import torch
    from transformers import AutoConfig, AutoModelForMaskedLM

    made(family, tmp_path / "encoder")
    config = AutoConfig.from_pretrained(tmp_path / "encoder")
    config._attn_implementation = "eager"
    torch.manual_seed(1)
    theirs = AutoModelForMaskedLM.from_config(config)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    theirs.save_pretrained(tmp_path / "whole")
    fields = json.loads((tmp_path / "whole/config.json").read_text())
    ours = MaskedLanguageModel(PublishedEncoder(fields, summary="none"))
    report = load_pretrained(ours, tmp_path / "whole/model.safetensors")
    assert not report.new and not report.resized and set(report.loaded) == set(ours.state_dict())
    ids = np.random.default_rng(0).integers(4, 60, 23)
    kinds = {"token_type_ids": torch.tensor(ids[None] % 2)} if ours.encoder.config.segment_types > 1 else {}
    wanted = theirs.eval()(torch.tensor(ids[None]), **kinds).logits[0, [2, 7]].detach().numpy()
    segments = {"segment_ids": tensor(ids % 2)} if kinds else {}
    got = ours.eval()(tensor(ids), offsets_of([23]), tensor(np.array([2, 7])), **segments).numpy()
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())
