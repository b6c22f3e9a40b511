"""Checkpoints that transformers saves give its vectors and its tokens, or are refused by the name of what differs."""

import json

import numpy as np
import pytest

from framework import no_grad, tensor
from framework.errors import CheckpointError
from suites.nlp.embedder import open_encoder
from suites.nlp.tokenizers.folders import tokenizer_of

pytestmark = pytest.mark.peers

SIZES = {
    "vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 40,
}  # fmt: skip
EQUAL = [
    ("Bert", {}), ("Bert", {"type_vocab_size": 1}), ("Bert", {"layer_norm_eps": 0.1}), ("Bert", {"pad_token_id": 5}),
    *(("Bert", {"hidden_act": act}) for act in ("gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_python", "relu")),
    ("Roberta", {}), ("Roberta", {"pad_token_id": 0}), ("Roberta", {"pad_token_id": 3, "type_vocab_size": 1}),
    ("XLMRoberta", {}), ("Camembert", {}), ("Data2VecText", {}), ("Ernie", {}),
    ("Ernie", {"use_task_id": True, "task_type_vocab_size": 3}),
]  # fmt: skip
REFUSED = [
    ("Bert", {"is_decoder": True}, "is_decoder"), ("Bert", {"hidden_act": "silu"}, "hidden_act is 'silu'"),
    ("Bert", {"is_decoder": True, "add_cross_attention": True}, "is_decoder|add_cross_attention"),
    ("Bert", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
    ("Bert", {"hidden_act": "quick_gelu"}, "hidden_act"),
    ("Albert", {"embedding_size": 32}, "model_type is 'albert'"),
    ("Electra", {"embedding_size": 32}, "model_type is 'electra'"),
    ("DistilBert", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}, "model_type is 'distilbert'"),
    ("MPNet", {}, "model_type is 'mpnet'"), ("Deberta", {}, "model_type is 'deberta'"),
    ("DebertaV2", {}, "model_type is 'deberta-v2'"), ("RobertaPreLayerNorm", {}, "model_type is 'roberta-prelay"),
    ("MegatronBert", {}, "model_type is 'megatron-bert'"), ("RoFormer", {"embedding_size": 32}, "model_type is 'rof"),
    ("LayoutLM", {}, "model_type is 'layoutlm'"), ("XLM", {"emb_dim": 32, "n_layers": 1}, "model_type is 'xlm'"),
]  # fmt: skip


@pytest.fixture(scope="module")
def transformers():
    found = pytest.importorskip("transformers", reason="the peer transformers is not installed")
    found.logging.set_verbosity_error()
    found.logging.disable_progress_bar()
    return found


def saved(transformers, folder, kind, more, **arguments):
    """A drawn model of transformers, whose checkpoint lies in `folder`."""
    import torch

    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**{**SIZES, **more})
    model = getattr(transformers, f"{kind}Model")(config, **arguments).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    return model


def expect_equal(model, folder):
    import torch

    rng = np.random.default_rng(0)
    texts = [rng.integers(6, 60, length) for length in (7, 11)]
    with torch.no_grad():
        wanted = np.concatenate([model(torch.tensor(ids[None])).last_hidden_state[0].numpy() for ids in texts])
    with no_grad():
        offsets = tensor(np.array([0, 7, 18], np.int64))
        found = open_encoder(folder)(tensor(np.concatenate(texts)), offsets)[0].numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize(("kind", "more"), EQUAL, ids=str)
def test_vectors_are_those_of_transformers(transformers, tmp_path, kind, more):
    expect_equal(saved(transformers, tmp_path, kind, more), tmp_path)


def test_a_checkpoint_without_a_pooler_has_vectors_of_tokens(transformers, tmp_path):
    expect_equal(saved(transformers, tmp_path, "Bert", {}, add_pooling_layer=False), tmp_path)


@pytest.mark.parametrize(("kind", "more", "match"), REFUSED, ids=str)
def test_another_encoder_is_refused_by_name(transformers, tmp_path, kind, more, match):
    saved(transformers, tmp_path, kind, more)
    with pytest.raises(CheckpointError, match=match):
        open_encoder(tmp_path)


# -- tokenizers
WORDS = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "Hello", "wor", "##ld", "caf", "##e", "##é", "é", "e", "中",
    "国", "中国", "##国", ".", ",", "a", "##a", "b", "<unk>", "<pad>", "na", "##ive", "##ï", "##ve",
]  # fmt: skip
TEXTS = [
    "Hello world", "Café naïve e\u0301.", "中国", "hello [MASK] world", "a" * 120, "HELLO", "  a \u200b\u00a0 b",
    "[CLS] a", "<unk> a", "<new> hello", "ﬁ ß İ", "",
]  # fmt: skip
SAME = [
    {}, {"do_lower_case": False}, {"do_lower_case": False, "strip_accents": True}, {"strip_accents": False},
    {"tokenize_chinese_chars": False}, {"model_max_length": 5}, {"padding_side": "left", "truncation_side": "left"},
]  # fmt: skip
OTHER = [
    ({"unk_token": "<unk>"}, "unk_token"), ({"pad_token": "<pad>"}, "pad_token"),
    ({"do_basic_tokenize": False}, "do_basic_tokenize"), ({"never_split": ["hello"]}, "never_split"),
    ({"additional_special_tokens": ["<new>"]}, "'<new>'"), ({"wordpieces_prefix": "@@"}, "wordpieces_prefix"),
]  # fmt: skip


def tokenizer(transformers, folder, **options):
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    theirs = transformers.BertTokenizerFast(str(vocabulary), **options)
    theirs.save_pretrained(folder / "saved")
    return theirs, folder / "saved"


def expect_tokens(theirs, folder):
    wanted = [theirs(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    assert [tokens.ids.tolist() for tokens in tokenizer_of(folder).encode(TEXTS)] == wanted


@pytest.mark.parametrize("options", SAME, ids=str)
def test_tokens_are_those_of_transformers(transformers, tmp_path, options):
    expect_tokens(*tokenizer(transformers, tmp_path, **options))


@pytest.mark.parametrize(("options", "match"), OTHER, ids=str)
def test_another_tokenizer_is_refused_by_name(transformers, tmp_path, options, match):
    _, folder = tokenizer(transformers, tmp_path, **options)
    with pytest.raises(CheckpointError, match=match):
        tokenizer_of(folder)


@pytest.mark.parametrize("options", [{}, {"add_prefix_space": True}])
def test_byte_pairs_of_tokenizer_json_are_those_of_transformers(transformers, tmp_path, options):
    from tokenizers.pre_tokenizers import ByteLevel

    words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *sorted(ByteLevel.alphabet()), "he", "Ġa"]
    numbers, merges = {word: i for i, word in enumerate(words)}, [("h", "e"), ("Ġ", "a")]
    (tmp_path / "vocab.json").write_text(json.dumps(numbers))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    if int(transformers.__version__.split(".")[0]) < 5:
        files = (str(tmp_path / name) for name in ("vocab.json", "merges.txt"))
        theirs = transformers.RobertaTokenizerFast(*files, **options)
    else:
        theirs = transformers.RobertaTokenizer(vocab=numbers, merges=merges, **options)
    theirs.save_pretrained(tmp_path / "saved")
    expect_tokens(theirs, tmp_path / "saved")
