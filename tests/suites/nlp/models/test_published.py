"""The encoder that a config.json describes: what is refused, and that it is one function however it is run."""

import json

import numpy as np
import pytest

from framework import nn, program, tensor
from framework.errors import AttributeValueError, CheckpointError
from suites.engine.weights import rename
from suites.nlp.models.bert import Bert
from suites.nlp.models.heads import SequenceClassifier
from suites.nlp.models.published import PublishedEncoder, published_encoder
from suites.nlp.models.published_config import KINDS, describe, encoder_config

SIZES = {
    "vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 40,
}  # fmt: skip
DEBERTA = {
    "relative_attention": True, "position_buckets": 8, "pos_att_type": ["c2p", "p2c"], "share_att_key": True,
    "norm_rel_ebd": "layer_norm", "position_biased_input": False, "conv_kernel_size": 3,
}  # fmt: skip
MORE = {
    "electra": {"embedding_size": 8}, "albert": {"embedding_size": 8}, "deberta-v2": DEBERTA,
    "modernbert": {"local_attention": 4}, "ernie": {"use_task_id": True},
}  # fmt: skip


def fields_of(kind):
    if kind == "distilbert":
        return {"model_type": kind, "vocab_size": 50, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}
    return {"model_type": kind, **SIZES, **MORE.get(kind, {})}


def drawn(kind, **more):
    encoder = PublishedEncoder({**fields_of(kind), **more})
    nn.init.initialize(encoder, seed=0)
    return encoder.eval()


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_of_a_batch_do_not_see_each_other_and_a_program_computes_the_same(kind):
    encoder, ids, offsets = drawn(kind), np.arange(9), np.array([0, 5, 9])
    together = encoder(tensor(ids), tensor(offsets))
    for b in range(2):
        part = ids[offsets[b] : offsets[b + 1]]
        alone = encoder(tensor(part), tensor([0, len(part)]))
        np.testing.assert_allclose(alone[0].numpy(), together[0].numpy()[offsets[b] : offsets[b + 1]], atol=1e-6)
        np.testing.assert_allclose(alone[1].numpy()[0], together[1].numpy()[b], atol=1e-6)
    traced = program(lambda i, o: encoder(i, o))(tensor(ids), tensor(offsets))
    for mine, other in zip(traced, together, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_every_tensor_has_a_name_and_every_name_is_a_tensors(kind):
    encoder = drawn(kind)
    sources = encoder.names_in("hf").sources
    assert set(sources) == set(encoder.state_dict())
    theirs = [name for source in sources.values() for name in source.names]
    assert len(theirs) == len(set(theirs)) == len(rename(encoder, sources))


def test_a_bert_computes_what_the_preset_class_computes():
    encoder = drawn("bert")
    other = Bert(vocab_size=50, hidden_size=16, layers=3, heads=2, ffn_size=24, max_positions=40)
    other.load_state_dict(dict(encoder.state_dict().items()))
    other.eval()
    ids, offsets = tensor(np.arange(9)), tensor(np.array([0, 5, 9]))
    for mine, theirs in zip(encoder(ids, offsets), other(ids, offsets), strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), atol=1e-6)


def test_layers_that_share_their_weights_are_counted_once():
    shared, apart = drawn("albert"), drawn("albert", num_hidden_groups=3)
    assert sum(".up.weight" in name for name in shared.state_dict()) == 1
    assert sum(".up.weight" in name for name in apart.state_dict()) == 3
    assert len(shared.states(tensor([1]), tensor([0, 1]))) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "berd"}, r"model_type is 'berd'.*did you mean 'bert'"),
        ({"model_type": None}, "model_type is 'None'"),
        ({"hidden_act": "quick_gelu"}, "hidden_act is 'quick_gelu'; it must be one of"),
        ({"vocab_size": None}, "vocab_size is missing"),
        ({"hidden_size": "16"}, "hidden_size is '16'; it must be a whole number"),
        ({"num_attention_heads": 3}, "3 attention heads do not divide a width of 16"),
        ({"position_embedding_type": "relative_key"}, "only 'absolute' is computed"),
        ({"is_decoder": True}, "is_decoder is True; only False is computed"),
        ({"layer_norm_position": "pre"}, "layer_norm_position is 'pre', and what it changes is not known here"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps is 'nan'; it must be a number"),
        ({"num_hidden_layers": 1 << 40}, "num_hidden_layers is"),
    ],
)
def test_what_is_not_computed_is_refused_by_its_name(change, message):
    with pytest.raises(CheckpointError, match=message):
        encoder_config({**fields_of("bert"), **change}, "x/config.json")


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("deberta-v2", {"pos_att_type": "p2p"}, "pos_att_type is 'p2p'; known are c2p and p2c"),
        ("deberta-v2", {"norm_rel_ebd": "rms"}, "norm_rel_ebd is 'rms'"),
        ("deberta-v2", {"relative_attention": False}, "relative_attention is False; only True is computed"),
        ("deberta-v2", {"position_biased_input": True}, "position_biased_input is True"),
        ("deberta-v2", {"conv_kernel_size": 4}, "it must be odd"),
        ("deberta-v2", {"attention_head_size": 4}, "attention_head_size is 4; only 8 is computed"),
        ("modernbert", {"layer_types": ["full_attention"]}, "layer_types must have one of"),
        (
            "modernbert",
            {"rope_parameters": {"full_attention": {"rope_theta": 1.0, "rope_type": "yarn"}}},
            "only rope_theta",
        ),
        ("modernbert", {"embedding_dropout": 0.5}, "embedding_dropout is 0.5"),
        ("mpnet", {"relative_attention_num_buckets": 16}, "only 32 is computed"),
        ("albert", {"num_memory_blocks": 2}, "num_memory_blocks is 2; only 0 is computed"),
        ("albert", {"num_hidden_groups": 9}, "more than the 3 layers"),
        ("roberta", {"max_position_embeddings": 2}, "leaves no place for a token"),
    ],
)
def test_what_a_family_has_otherwise_is_refused(kind, change, message):
    with pytest.raises(CheckpointError, match=message):
        encoder_config({**fields_of(kind), **change})


def test_a_description_keeps_the_fields_that_count():
    fields = {**fields_of("bert"), "id2label": {"0": "a"}, "transformers_version": "5", "pad_token_id": 0}
    found = describe(fields, "config.json", "encoder", "x")
    assert found["type"] == "PublishedEncoder" and found["fields"] == fields_of("bert")
    with pytest.raises(CheckpointError, match="describes an encoder of texts, which is no backbone"):
        describe(fields, "config.json", "backbone", "x")


def test_an_encoder_by_its_folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(fields_of("distilbert")))
    assert published_encoder(str(tmp_path)).config.layers == 2
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(CheckpointError, match="it must be a JSON object"):
        published_encoder(str(tmp_path))


def test_weights_of_a_preset_are_named_elsewhere():
    with pytest.raises(AttributeValueError, match=r"those of a Bert are named in runtime\.weights"):
        SequenceClassifier(Bert("bert_tiny", vocab_size=10), 2, weights="minilm_l6")


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_that_no_file_could_fill_is_refused_before_it_is_made(kind, tmp_path):
    layers = "n_layers" if kind == "distilbert" else "num_hidden_layers"
    for huge in ({"vocab_size": 2**31 - 1, "embedding_size": 2**20} if kind == "albert" else {"vocab_size": 2**31 - 1},
                 {layers: 2**31 - 1}):  # fmt: skip
        fields = {**fields_of(kind), **huge} | ({} if kind == "distilbert" else {"hidden_size": 4096})
        with pytest.raises(CheckpointError, match=r"has too many bytes, \d+; 68719476736 are allowed|at most 4096 are"):
            PublishedEncoder(fields)
    (tmp_path / "model.safetensors").write_bytes(b"x" * 1000)
    (tmp_path / "config.json").write_text(json.dumps({**fields_of(kind), "vocab_size": 50_000_000}))
    with pytest.raises(CheckpointError, match="the weights beside it have 1000; one of them is of another network"):
        published_encoder(str(tmp_path))
