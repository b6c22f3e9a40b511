"""`paddock train nlp/classify -o model.weights=hf:OWNER/NAME` from a local hub: what is printed, learnt and kept."""

import json

import numpy as np
import pytest

from framework import nn
from framework.errors import PaddockError
from framework.io import read_arrays, save_tensors
from framework.tensors import from_numpy
from suites import engine
from suites.engine import cli
from suites.engine.weights import rename
from suites.nlp.models.published import PublishedEncoder
from tests.suites.engine.weights.hub.played_hub import played_hub, use
from tests.suites.nlp.models.test_published import fields_of
from tests.suites.nlp.test_json_tokenizers import made

KINDS = {"bert": "word pieces", "roberta": "byte pairs", "xlm-roberta": "unigram"}


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with played_hub() as hub:
        use(hub, monkeypatch, tmp_path)
        yield hub


def checkpoint(folder, kind, tokenizer):
    """A folder as the hub has them: old names of norms, a prefix, another task's head, and a counter."""
    folder.mkdir()
    fields = {**fields_of(kind), "vocab_size": 300, "architectures": ["X"], "transformers_version": "4.1"}
    encoder = PublishedEncoder(fields)
    nn.init.initialize(encoder, seed=3)
    arrays = {f"{kind.split('-')[-1]}.{name}": a for name, a in rename(encoder, encoder.names_in("hf").sources).items()}
    if kind == "bert":
        arrays = {
            n.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): a for n, a in arrays.items()
        }
    arrays |= {"classifier.weight": np.ones((2, 16), np.float32), "cls.predictions.bias": np.ones(300, np.float32)}
    save_tensors(folder / "model.safetensors", {n: from_numpy(np.ascontiguousarray(a)) for n, a in arrays.items()})
    (folder / "config.json").write_text(json.dumps(fields))
    (folder / "tokenizer.json").write_text(made(tokenizer).to_str())


def reviews(folder):
    rows = [f"{'he he he' if k % 2 else 'a b b a'} {'a' * (k % 5)},{'good' if k % 2 else 'bad'}" for k in range(40)]
    (folder / "reviews.csv").write_text("\n".join(["text,label", *dict.fromkeys(rows)]) + "\n")


def paddock(*words):
    return cli.main([*words])


@pytest.mark.parametrize(("kind", "tokenizer"), KINDS.items())
def test_a_classifier_is_trained_from_the_hub_and_needs_it_no_more(hub, tmp_path, capsys, caplog, kind, tokenizer):
    checkpoint(tmp_path / "files", kind, tokenizer)
    hub.add_folder("owner/model", tmp_path / "files")
    reviews(tmp_path)
    words = [
        "nlp/classify",
        "-o",
        "data.root=reviews.csv",
        "-o",
        "model.weights=hf:owner/model",
        "-o",
        "runtime.epochs=1",
    ]
    words += ["-o", "data.max_length=16", "-o", "runtime.workers=0"]
    assert paddock("train", *words, "--name", "first") == 2
    assert "fetch it with `paddock zoo fetch hf:owner/model`, or add --fetch" in "".join(capsys.readouterr())
    assert not hub.asked, "nothing is asked unasked"

    assert paddock("train", *words, "--name", "first", "--fetch") == 0
    said = "".join(capsys.readouterr()) + caplog.text
    assert "licence apache-2.0" in said and "2 new: fc.weight, fc.bias" in said
    run = tmp_path / "runs" / "first"
    kept = (run / "config.yml").read_text()
    assert "PublishedEncoder" in kept and f"model_type: {kind}" in kept

    hub.states.clear()
    for path in sorted((tmp_path / "zoo").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    assert paddock("infer", str(run), "--text", "he he he") == 0
    assert "he he he ->" in capsys.readouterr().out
    assert paddock("eval", str(run)) == 0


def test_adapters_are_trained_merged_at_export_and_written_alone(tmp_path, capsys, caplog, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checkpoint(tmp_path / "files", "roberta", "byte pairs")
    reviews(tmp_path)
    words = ["nlp/classify", "-o", "data.root=reviews.csv", "-o", "model.weights=files", "-o", "runtime.epochs=1"]
    words += ["-o", "data.max_length=16", "-o", "runtime.workers=0"]
    lora = "rank: 2, targets: [attention], train: ['^fc']"
    assert paddock("train", *words, "-o", f"lora={{{lora}}}", "--name", "first") == 0
    assert paddock("infer", "runs/first", "--text", "he he he") == 0
    first = capsys.readouterr().out.splitlines()[-1]
    assert paddock("export", "runs/first", "--output", "exported") == 0
    assert not [n for n in read_arrays(tmp_path / "exported" / "weights.safetensors") if "lora" in n]
    assert paddock("infer", "exported", "--text", "he he he") == 0
    assert capsys.readouterr().out.splitlines()[-1] == first

    assert paddock("export", "runs/first", "--format", "peft", "--output", "adapter") == 0
    names = set(read_arrays(tmp_path / "adapter" / "adapter_model.safetensors"))
    layer = "base_model.model.roberta.encoder.layer.0.attention"
    assert {f"{layer}.self.query.lora_A.weight", f"{layer}.output.dense.lora_B.weight"} <= names
    assert {"base_model.model.classifier.weight", "base_model.model.classifier.bias"} <= names
    more = ["-o", f"lora={{{lora}, weights: adapter}}", "-o", "schedule.base_lr=1e-12", "-o", "runtime.ema=null"]
    assert paddock("train", *words, *more, "--name", "second") == 0
    assert "adapters of 6 layers and 2 other tensors from adapter" in "".join(capsys.readouterr()) + caplog.text
    one, two = (read_arrays(tmp_path / "runs" / n / "weights" / "last.safetensors") for n in ("first", "second"))
    for name in one:
        np.testing.assert_allclose(two[name], one[name], atol=1e-5, err_msg=name)


def whole(folder, architecture, kind="roberta", **more):
    """A checkpoint of a whole model: its head has weights of its own."""
    checkpoint(folder, kind, KINDS[kind])
    fields = json.loads((folder / "config.json").read_text())
    fields |= {"architectures": [architecture], "id2label": {"0": "bad", "1": "good", "2": "odd"}, **more}
    (folder / "config.json").write_text(json.dumps(fields))
    arrays = {n: a for n, a in read_arrays(folder / "model.safetensors").items() if not n.startswith("classifier")}
    rng = np.random.default_rng(5)
    shapes = {"classifier.dense": (16, 16), "classifier.out_proj": (3, 16)}
    if "Token" in architecture:
        shapes = {"classifier": (3, 16)}
    if "Question" in architecture:
        shapes = {"qa_outputs": (2, 16)}
    for name, shape in shapes.items():
        arrays[f"{name}.weight"] = rng.normal(size=shape).astype(np.float32)
        arrays[f"{name}.bias"] = rng.normal(size=shape[:1]).astype(np.float32)
    save_tensors(folder / "model.safetensors", {n: from_numpy(np.ascontiguousarray(a)) for n, a in arrays.items()})


def test_a_published_classifier_answers_by_its_name_with_its_classes(hub, tmp_path, capsys):
    whole(tmp_path / "files", "RobertaForSequenceClassification")
    hub.add_folder("owner/moods", tmp_path / "files")
    assert paddock("infer", "hf:owner/moods", "--text", "he he he", "--fetch") == 0
    assert capsys.readouterr().out.splitlines()[-1].split("->")[1].split()[0] in ("bad", "good", "odd")
    (found,) = engine.load("hf:owner/moods")("a b b a")
    assert "bad" in json.dumps(found.to_json())


@pytest.mark.parametrize(
    ("architecture", "words"),
    [("RobertaForTokenClassification", ["--text", "he he he"]), ("RobertaForQuestionAnswering", None)],
)
def test_published_taggers_and_readers_open_as_whole_models(hub, tmp_path, architecture, words):
    labels = {"0": "O", "1": "B-PER", "2": "I-PER"}
    whole(tmp_path / "files", architecture, id2label=labels)
    hub.add_folder("owner/words", tmp_path / "files")
    assert paddock("zoo", "fetch", "hf:owner/words") == 0
    model = engine.load("hf:owner/words")
    if words is not None:
        assert paddock("infer", "hf:owner/words", *words) == 0
    assert model.processor.classes == (list(labels.values()) if "Token" in architecture else [])


def masked(folder, **more):
    """A checkpoint of a RoBERTa with its head for hidden words."""
    checkpoint(folder, "roberta", KINDS["roberta"])
    fields = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**fields, "architectures": ["RobertaForMaskedLM"], **more}))
    tokenizer = made(KINDS["roberta"])
    tokenizer.add_special_tokens(["<mask>"])
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    arrays = {n: a for n, a in read_arrays(folder / "model.safetensors").items() if not n.startswith("c")}
    rng = np.random.default_rng(7)
    shapes = {"dense.weight": (16, 16), "dense.bias": (16,), "layer_norm.weight": (16,), "layer_norm.bias": (16,)}
    for name, shape in {**shapes, "bias": (300,)}.items():
        arrays[f"lm_head.{name}"] = rng.normal(size=shape).astype(np.float32)
    save_tensors(folder / "model.safetensors", {n: from_numpy(np.ascontiguousarray(a)) for n, a in arrays.items()})


def test_a_masked_language_model_fills_each_mask_by_its_name(hub, tmp_path, capsys):
    masked(tmp_path / "files")
    hub.add_folder("owner/words", tmp_path / "files")
    assert paddock("infer", "hf:owner/words", "--text", "he <mask> a <mask>", "--fetch") == 0
    assert "he <mask> a <mask> -> <mask>: " in capsys.readouterr().out
    model = engine.load("hf:owner/words")
    ((first, second),) = [found.to_json()["hidden"] for found in model("he <mask> a <mask>")]
    for place in (first, second):
        chances = [word["probability"] for word in place["words"]]
        assert len(chances) == 5 and chances == sorted(chances, reverse=True) and sum(chances) <= 1 + 1e-4
    with pytest.raises(PaddockError, match="'he a': has no <mask>, which stands for the word to guess"):
        model("he a")


def test_a_masked_model_whose_output_matrix_is_no_copy_of_its_words_is_refused(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path / "zoo"))
    masked(tmp_path / "files")
    path = tmp_path / "files" / "model.safetensors"
    arrays = read_arrays(path)
    (words,) = (array for name, array in arrays.items() if name.endswith("word_embeddings.weight"))
    for more, status in ((0.0, 0), (0.5, 2)):
        both = arrays | {"lm_head.decoder.weight": words + np.float32(more)}
        save_tensors(path, {n: from_numpy(np.ascontiguousarray(a)) for n, a in both.items()})
        assert paddock("infer", str(path.parent), "--text", "he <mask> a") == status
    assert "not known which is meant" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"tie_word_embeddings": False}, "only heads are read that share the word table"),
        ({"architectures": ["DebertaForMaskedLM"], "model_type": "deberta"}, "model_type is 'deberta'"),
    ],
)
def test_heads_for_hidden_words_that_are_others_are_refused(hub, tmp_path, more, said):
    masked(tmp_path / "files", **more)
    hub.add_folder("owner/words", tmp_path / "files")
    assert paddock("zoo", "fetch", "hf:owner/words") == 0
    with pytest.raises(PaddockError, match=said):
        engine.load("hf:owner/words")


@pytest.mark.parametrize(("pooling", "normalize"), [("mean", True), ("cls", False), ("max", False)])
def test_a_folder_of_sentence_transformers_gives_vectors_as_it_says(hub, tmp_path, capsys, pooling, normalize):
    masked(tmp_path / "files")  # what stands beside says more than the architecture, as in all-mpnet-base-v2
    modules = ["Transformer", "Pooling", *(["Normalize"] if normalize else [])]
    folders = {"Transformer": "", "Pooling": "1_Pooling", "Normalize": "2_Normalize"}
    listed = [{"type": f"sentence_transformers.models.{kind}", "path": folders[kind]} for kind in modules]
    (tmp_path / "files/modules.json").write_text(json.dumps(listed))
    (tmp_path / "files/1_Pooling").mkdir()
    name = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens"}[pooling]
    (tmp_path / "files/1_Pooling/config.json").write_text(json.dumps({f"pooling_mode_{name}": True}))
    (tmp_path / "files/sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 9}))
    hub.add_folder("owner/vectors", tmp_path / "files")
    assert paddock("infer", "hf:owner/vectors", "--text", "he a b", "--fetch") == 0
    assert "16 numbers" in capsys.readouterr().out
    model = engine.load("hf:owner/vectors")
    (found,) = model("he a b")
    vector = np.array(found.to_json()["vector"])

    encoder = PublishedEncoder(json.loads((tmp_path / "files/config.json").read_text()), summary="none").eval()
    from suites.engine.weights import load_pretrained

    load_pretrained(encoder, tmp_path / "files/model.safetensors")
    tokenizer = model.processor.sequencer.tokenizer
    (tokens,) = tokenizer.encode(["he a b"])
    ids = np.array([tokenizer.opening, *tokens.ids, tokenizer.closing])
    states = encoder(from_numpy(ids), from_numpy(np.array([0, len(ids)])))[0].numpy()
    wanted = {"mean": states.mean(axis=0), "cls": states[0], "max": states.max(axis=0)}[pooling]
    wanted = wanted / np.linalg.norm(wanted) if normalize else wanted
    np.testing.assert_allclose(vector, wanted, rtol=1e-4, atol=1e-5)
    assert model.processor.sequencer.max_length == 9


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"architectures": ["RobertaForMultipleChoice"]}, "as whole models those are read that end in"),
        ({"architectures": None}, "architectures is None"),
        ({"id2label": {"0": "a", "2": "b"}}, "id2label must name the classes 0, 1, 2"),
        ({"problem_type": "multi_label_classification"}, "only one class a text is read"),
        ({"id2label": {"0": "a", "1": "b"}}, "2 of another shape"),
    ],
)
def test_a_whole_model_that_is_not_read_says_why(hub, tmp_path, change, said):
    whole(tmp_path / "files", "RobertaForSequenceClassification", **change)
    hub.add_folder("owner/moods", tmp_path / "files")
    assert paddock("zoo", "fetch", "hf:owner/moods") == 0
    with pytest.raises(PaddockError, match=said):
        engine.load("hf:owner/moods")
