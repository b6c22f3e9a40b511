"""Published language models as whole models: a folder as transformers writes it, and texts that go on."""

import json
import math

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from framework.errors import CheckpointError
from suites import engine
from suites.engine import cli
from suites.engine.weights.published import whole_model
from suites.nlp.models.language_model import LanguageModel
from suites.nlp.models.language_names import described_language_model, names_of_language_model
from suites.nlp.tokenizers.json_files import published_tokenizer
from suites.nlp.writing import Search
from tests.suites.engine.weights.hub.played_hub import played_hub, use

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 300, "hidden_size": 16,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 64, "tie_word_embeddings": True, "rms_norm_eps": 1e-5, "hidden_act": "silu",
    "rope_theta": 10000.0, "bos_token_id": 0, "eos_token_id": 0, "torch_dtype": "float32",
}  # fmt: skip
GPT2 = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 300, "n_embd": 16, "n_layer": 2,
    "n_head": 4, "n_positions": 64, "activation_function": "gelu_new", "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with played_hub() as hub:
        use(hub, monkeypatch, tmp_path)
        yield hub


def checkpoint(folder, fields):
    """A folder with random weights under their names and a byte-level tokenizer."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(fields))
    model = LanguageModel(**described_language_model(fields, "config.json"))
    rng, tensors, own = np.random.default_rng(0), {}, model.state_dict()
    for name, source in names_of_language_model(own, 2).sources.items():
        shape = own[name].shape
        counts = [shape[0]]
        if len(source.names) == 3:
            counts = [16, (shape[0] - 16) // 2, (shape[0] - 16) // 2]
        for theirs, count in zip(source.names, counts, strict=True):
            values = rng.normal(size=(count, *shape[1:])).astype(np.float32) * 0.3
            tensors[theirs] = np.ascontiguousarray(values.T if source.axes else values)
    save_file(tensors, folder / "model.safetensors")
    engine = Tokenizer(models.BPE())
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    settings = {"special_tokens": ["<|endoftext|>"], "initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    trainer = trainers.BpeTrainer(vocab_size=300, show_progress=False, **settings)
    engine.train_from_iterator(["a small house and a small dog"], trainer)
    engine.save(str(folder / "tokenizer.json"))
    said = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "tokenizer_class": "GPT2Tokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    return folder


@pytest.mark.parametrize("fields", [LLAMA, GPT2], ids=["llama", "gpt2"])
def test_a_checkpoint_is_a_model_that_writes(hub, tmp_path, capsys, fields):
    hub.add_folder("owner/model", checkpoint(tmp_path / "theirs", fields))
    assert cli.main(["infer", "--fetch", "hf:owner/model", "--text", "a small"]) == 0
    told = capsys.readouterr().out
    (line,) = [line for line in told.splitlines() if line.startswith("a small -> ")]
    assert len(line) > len("a small -> ")
    model = engine.load("hf:owner/model")
    assert model("a small")[0].to_json()["text"] == model(["b", "a small"])[1].to_json()["text"]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"rope_parameters": {"rope_type": "llama3"}}, "rope_type llama3 lacks its factor"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type is 'dynamic'; computed are linear, llama3"),
        ({"rope_scaling": {"type": "yarn", "factor": 2.0, "mscale": 0.7}}, "mscale of rope_type yarn is 0.7"),
        ({"rope_scaling": {"type": "linear", "factor": 0.5}}, "factor is 0.5; it must be 1 or more"),
        ({"rope_scaling": {"type": "linear", "factor": "x"}}, "factor of rope_type linear is 'x'"),
        ({"rope_scaling": "linear"}, "rope_scaling is 'linear'"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types is"),
        (
            {"model_type": "mistral", "sliding_window": -3},
            "sliding_window is '-3'; it must be a whole number from 1 on",
        ),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ({"attention_bias": True}, "attention_bias is true"),
        ({"model_type": "gemma"}, "model_type is 'gemma'"),
        ({"num_hidden_layers": -2}, "num_hidden_layers is '-2'"),
        ({"logit_scale": 0.5}, "logit_scale is '0.5', and what it changes is not known"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"eos_token_id": -2}, "eos_token_id is -2, which is no token: it must be a whole number"),
        ({"eos_token_id": [0, "9"]}, r"eos_token_id is \[0, '9'\], which is no token"),
        ({"bos_token_id": "0"}, "bos_token_id is 0, which is no token"),
        ({"pad_token_id": 1.5}, "pad_token_id is 1.5, which is no token"),
    ],
)
def test_what_is_not_computed_is_refused(changes, match):
    with pytest.raises(CheckpointError, match=match):
        described_language_model({**LLAMA, **changes}, "config.json")


QWEN2 = {**LLAMA, "model_type": "qwen2", "sliding_window": 8, "use_sliding_window": True, "max_window_layers": 1}
MISTRAL = {**LLAMA, "model_type": "mistral", "sliding_window": 8, "head_dim": 4}
ROPE = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8, "rope_theta": 1e4}
ODD = (None, -1, 0, 1.5, math.inf, math.nan, "x", "", [], [1], {}, {"a": 1}, True, False, 2**70, 10**9)
SIZES = {"hidden_size", "intermediate_size", "num_hidden_layers", "max_position_embeddings", "vocab_size", "head_dim",
         "n_embd", "n_inner", "n_layer", "n_positions"}  # fmt: skip


@pytest.mark.parametrize("fields", [LLAMA, GPT2, QWEN2, MISTRAL], ids=lambda fields: fields["model_type"])
def test_any_value_of_any_field_is_taken_or_refused_by_its_name(fields, tmp_path):
    where = str(checkpoint(tmp_path / "small", fields) / "config.json")
    more = {"rope_theta", "rope_scaling", "head_dim", "n_inner", "layer_types", "tie_word_embeddings", "rms_norm_eps"}
    for name in sorted({*fields, *more}):
        for value in ODD:
            try:
                found = described_language_model({**fields, name: value}, where)
            except CheckpointError as error:
                assert name in str(error) or "rope_type" in str(error) or value == 10**9, (name, value, str(error))
            else:
                assert not (value == 10**9 and name in SIZES and name in fields), name
                assert 1 < found.get("theta", 1e4) < math.inf
    for name in ROPE:
        for value in ODD:
            try:
                scaling = described_language_model({**LLAMA, "rope_scaling": {**ROPE, name: value}}, "c")["scaling"]
            except CheckpointError:
                continue
            assert scaling is None or np.isfinite(scaling.rates(np.ones(4), 1e4, 8)).all()


def test_windows_are_those_that_transformers_would_take():
    left = {**{k: v for k, v in QWEN2.items() if k != "sliding_window"}}
    assert described_language_model(left, "c")["window"] == 4096
    assert described_language_model({**left, "sliding_window": None}, "c")["window"] is None
    assert described_language_model({**MISTRAL, "use_sliding_window": False}, "c")["window"] == 8
    assert described_language_model({**LLAMA, "sliding_window": 8}, "c")["window"] is None
    with pytest.raises(CheckpointError, match="use_sliding_window is 'True', and what it changes is not known"):
        described_language_model({**LLAMA, "sliding_window": 8, "use_sliding_window": True}, "c")


def test_a_token_beyond_the_vocabulary_is_told_as_transformers_writes_some_for_networks_of_any_size(caplog):
    described_language_model({**GPT2, "bos_token_id": 50256, "eos_token_id": [0, 300]}, "config.json")
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "config.json: bos_token_id is 50256, beyond its vocabulary of 300; the tokenizer's is used",
        "config.json: eos_token_id is 300, beyond its vocabulary of 300; the tokenizer's is used",
    ]


def test_a_file_of_first_gpt2_names_is_read(hub, tmp_path):
    folder = checkpoint(tmp_path / "theirs", GPT2)

    tensors = load_file(folder / "model.safetensors")
    save_file({name.removeprefix("transformer."): t for name, t in tensors.items()}, folder / "model.safetensors")
    hub.add_folder("owner/model", folder)
    assert cli.main(["infer", "--fetch", "hf:owner/model", "--text", "a"]) == 0


def test_an_output_matrix_beside_tied_word_vectors_has_to_equal_them(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path / "zoo"))
    folder = checkpoint(tmp_path / "theirs", LLAMA)
    tensors = load_file(folder / "model.safetensors")
    words = tensors["model.embed_tokens.weight"]
    half = (words.view(np.uint32) & 0xFFFF0000).view(np.float32)  # as bfloat16 keeps them
    save_file(tensors | {"lm_head.weight": half}, folder / "model.safetensors")
    assert cli.main(["infer", str(folder), "--text", "a small"]) == 0
    save_file(tensors | {"lm_head.weight": words[::-1].copy()}, folder / "model.safetensors")
    capsys.readouterr()
    assert cli.main(["infer", str(folder), "--text", "a small"]) == 2
    told = capsys.readouterr().err
    assert "not known which is meant" in told and "tie_word_embeddings: false): lm_head.weight (words.weight)" in told
    fields = LLAMA | {"tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(fields))
    assert cli.main(["infer", str(folder), "--text", "a small"]) == 0


def test_a_tokenizer_that_ends_no_text_is_refused(hub, tmp_path, capsys):
    folder = checkpoint(tmp_path / "theirs", LLAMA)
    (folder / "tokenizer_config.json").write_text("{}")
    hub.add_folder("owner/model", folder)
    assert cli.main(["infer", "--fetch", "hf:owner/model", "--text", "a"]) == 2
    assert "special tokens around a text" in capsys.readouterr().err


def test_an_end_of_texts_that_is_no_token_is_named(hub, tmp_path, capsys):
    folder = checkpoint(tmp_path / "theirs", LLAMA)
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<end>"}')
    hub.add_folder("owner/model", folder)
    assert cli.main(["infer", "--fetch", "hf:owner/model", "--text", "a"]) == 2
    assert "eos_token is said to be '<end>', which is no token" in capsys.readouterr().err


def asked_of(folder):
    """What a checkpoint asks of a search, in the config of the model made of it."""
    made = whole_model(str(folder))
    (problem,) = [each.partition("=")[2] for each in made.overrides if each.startswith("problem=")]
    return json.loads(problem)["$replace"].get("search", {})


@pytest.mark.parametrize(
    ("of_config", "of_generation", "ends"),
    [(5, None, [5]), ([5, 0], None, [5]), (0, None, None), (None, None, None), (5, 0, None), (0, [0, 7, 9], [7, 9]),
     (50256, [0, 9999], None)],
)  # fmt: skip
def test_texts_end_at_every_token_that_generation_config_or_else_config_names(tmp_path, of_config, of_generation, ends):
    folder = checkpoint(tmp_path / "theirs", LLAMA | {"eos_token_id": of_config, "pad_token_id": -1})
    if of_generation is not None:
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": of_generation}))
    assert asked_of(folder).get("stop_ids") == ends


@pytest.mark.parametrize(
    ("told", "search"),
    [
        ({}, {}),
        ({"temperature": 0.3, "transformers_version": "4.40"}, {}),  # of words that are drawn alone
        ({"do_sample": False, "num_beams": 3, "top_p": 0.5}, {"max_length": 200, "temperature": 0.0, "beam": 3}),
        ({"do_sample": True}, {"max_length": 200, "temperature": 1.0, "top_k": 50}),
        (
            {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 0, "max_new_tokens": 12},
            {"max_length": 12, "temperature": 0.6, "top_p": 0.9},
        ),
        (
            {"repetition_penalty": 1.1},
            {"max_length": 200, "temperature": 0.8, "top_p": 0.95, "repetition_penalty": 1.1},
        ),
    ],
)
def test_words_are_chosen_as_generation_config_says(tmp_path, told, search):
    folder = checkpoint(tmp_path / "theirs", LLAMA)
    (folder / "generation_config.json").write_text(json.dumps(told))
    assert asked_of(folder) == search
    Search(**search)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[1]", "holds a list"),
        ("{", "cannot be read as JSON"),
        ('{"do_sample": true, "temperature": "hot"}', "temperature is 'hot'; it must be a number"),
        ('{"do_sample": true, "temperature": -1}', "temperature is -1"),
        ('{"do_sample": true, "temperature": NaN}', "temperature is nan; it must be a number"),
        ('{"do_sample": true, "top_k": 1.5}', "top_k is 1.5; it must be a whole number"),
        ('{"max_new_tokens": 0}', "max_length 0"),
        ('{"eos_token_id": "2"}', "eos_token_id is 2, which is no token"),
    ],
)
def test_a_generation_config_that_is_none_is_refused(tmp_path, text, match):
    folder = checkpoint(tmp_path / "theirs", LLAMA)
    (folder / "generation_config.json").write_text(text)
    with pytest.raises(CheckpointError, match=match):
        whole_model(str(folder))


def test_what_of_a_generation_config_is_not_computed_is_told(tmp_path, caplog):
    folder = checkpoint(tmp_path / "theirs", LLAMA)
    told = {"no_repeat_ngram_size": 3, "typical_p": 1.0, "suppress_tokens": [5], "length_penalty": 2.0}
    (folder / "generation_config.json").write_text(json.dumps(told))
    whole_model(str(folder))
    assert "asks for no_repeat_ngram_size 3, suppress_tokens [5], which is not computed here" in caplog.text


def test_a_text_ends_where_generation_config_says(monkeypatch, tmp_path):
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path / "zoo"))
    folder = checkpoint(tmp_path / "theirs", LLAMA)
    (folder / "generation_config.json").write_text(json.dumps({"do_sample": False}))
    whole = engine.load(folder)("a small")[0].to_json()
    assert not whole["complete"]
    first = published_tokenizer(str(folder)).encode([whole["text"]])[0].ids.tolist()[2]
    (folder / "generation_config.json").write_text(json.dumps({"do_sample": False, "eos_token_id": [0, first]}))
    cut = engine.load(folder)("a small")[0].to_json()
    assert cut["complete"] and whole["text"].startswith(cut["text"]) and len(cut["text"]) < len(whole["text"])


def test_a_prompt_of_which_a_part_is_not_read_is_told(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path / "zoo"))
    folder = checkpoint(tmp_path / "theirs", LLAMA)
    for text, is_told in (("a small", False), ("a " * 100, True)):
        assert cli.main(["infer", str(folder), "--text", text]) == 0
        assert ("a part of it was not read" in capsys.readouterr().out) is is_told


def test_a_folder_of_a_checkpoint_is_opened_as_it_lies_there(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path / "zoo"))
    folder = checkpoint(tmp_path / "wörter und mehr", LLAMA)
    assert cli.main(["infer", str(folder), "--text", "a small"]) == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith("a small -> ") and line.strip() != "a small ->"
    assert engine.load(folder)("a small")[0].to_json()["text"]


def test_a_folder_whose_weights_have_changed_is_read_again(monkeypatch, tmp_path):
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path / "zoo"))
    folder = checkpoint(tmp_path / "theirs", LLAMA)
    before = engine.load(folder)("a small")[0].to_json()["text"]
    weights = folder / "model.safetensors"
    save_file({name: np.zeros_like(array) for name, array in load_file(weights).items()}, weights)
    assert engine.load(folder)("a small")[0].to_json()["text"] != before
    assert len(list((tmp_path / "zoo" / "folders").glob("*/run_*"))) == 1, "the older run is removed"


def test_a_folder_of_another_network_says_what_it_is(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path / "zoo"))
    folder = checkpoint(tmp_path / "theirs", LLAMA)
    (folder / "config.json").write_text(json.dumps({**LLAMA, "architectures": ["LlamaModel"]}))
    assert cli.main(["infer", str(folder), "--text", "a"]) == 2
    assert "architectures is ['LlamaModel']" in capsys.readouterr().err


def shared(fields, *, added):
    """Lets two tokens of a tokenizer.json have one number."""
    vocabulary = fields["model"]["vocab"]
    if added:
        fields["added_tokens"].append({**fields["added_tokens"][0], "content": "<x>", "id": vocabulary["a"]})
    else:
        vocabulary["b"] = vocabulary["a"]


@pytest.mark.parametrize("added", [False, True])
def test_a_tokenizer_with_a_number_twice_is_refused(tmp_path, added):
    folder = checkpoint(tmp_path / "theirs", LLAMA)
    fields = json.loads((folder / "tokenizer.json").read_text())
    shared(fields, added=added)
    (folder / "tokenizer.json").write_text(json.dumps(fields))
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: .*number"):
        published_tokenizer(folder)


def test_weights_of_whole_numbers_without_their_scales_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path / "zoo"))
    weights = checkpoint(tmp_path / "theirs", LLAMA) / "model.safetensors"
    save_file({name: (100 * array).astype(np.int8) for name, array in load_file(weights).items()}, weights)
    with pytest.raises(CheckpointError, match="11 of whole numbers, as a file in 8 or 4 bits has them"):
        engine.load(weights.parent)


def test_a_damaged_file_is_named_once(monkeypatch, tmp_path):
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path / "zoo"))
    weights = checkpoint(tmp_path / "theirs", LLAMA) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="damaged or not a safetensors file") as error:
        engine.load(weights.parent)
    assert str(error.value).count(str(weights)) == 1


@pytest.mark.parametrize("single", ["$A <|endoftext|>", "<|endoftext|> $A <|endoftext|>"])
def test_a_tokenizer_that_ends_every_text_is_told_as_that(tmp_path, single):
    folder = checkpoint(tmp_path / "theirs", LLAMA)
    made = Tokenizer.from_file(str(folder / "tokenizer.json"))
    made.post_processor = processors.TemplateProcessing(single, special_tokens=[("<|endoftext|>", 0)])
    made.save(str(folder / "tokenizer.json"))
    with pytest.raises(CheckpointError, match=r"puts its eos_token, '<.endoftext.>', behind every text"):
        published_tokenizer(folder)
