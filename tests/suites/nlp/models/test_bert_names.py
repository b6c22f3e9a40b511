"""Checkpoints of other frameworks: every family of names, every tensor accounted for, real weights."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import framework
from framework import nn
from framework.errors import CheckpointError
from framework.io import load_tensors, save_tensors
from suites.engine.weights import rename
from suites.nlp.models.bert import Bert
from suites.nlp.models.bert_names import FAMILIES, load_bert, names_of, save_hugging_face
from suites.nlp.models.heads import Pretraining, SequenceClassifier, SpanPredictor, TokenClassifier
from tests.suites.nlp.models.ragged import Batch

SIZES = {"vocab_size": 11, "hidden_size": 6, "layers": 2, "heads": 2, "ffn_size": 10, "max_positions": 8}
MODELS = {
    "encoder": lambda bert: bert,
    "classes": lambda bert: SequenceClassifier(bert, 3),
    "tags": lambda bert: TokenClassifier(bert, 4),
    "spans": SpanPredictor,
    "pretraining": Pretraining,
}


def _model(kind="encoder", seed=0, **changes):
    model = MODELS[kind](Bert(**{**SIZES, **changes}))
    nn.init.initialize(model, seed)
    rng = np.random.default_rng(seed)
    for t in model.state_dict().values():  # biases and norms too
        t.set(framework.tensor(rng.standard_normal(t.shape).astype(np.float32)))
    return model


def _same(a, b, names=None):
    own, other = a.state_dict(), b.state_dict()
    return all((own[n].numpy() == other[n].numpy()).all() for n in names or own)


def _saved(folder: Path, arrays) -> Path:
    path = folder / "model.safetensors"
    save_tensors(path, {name: framework.tensor(np.ascontiguousarray(a)) for name, a in arrays.items()})
    return path


@pytest.mark.parametrize("prefix", ["", "bert.", "ernie."])
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_names_of_every_family_lead_there_and_back(family, kind, prefix, tmp_path):
    model, other = _model(kind, task_types=3), _model(kind, seed=1, task_types=3)
    arrays = rename(model, names_of(model, family))
    encoder = names_of(model.encoder if kind != "encoder" else model, family).values()
    inside = {name for source in encoder for name in source.names}
    path = tmp_path / "model_state.pdparams"
    path.write_bytes(pickle.dumps({(prefix if n in inside else "") + n: a for n, a in arrays.items()}, 4))
    report = load_bert(other, path)
    assert _same(model, other) and len(report.loaded) == len(model.state_dict()) and not report.new


def test_names_and_directions_are_those_that_the_frameworks_use():
    model = _model("classes")
    weight = model.encoder.layers[1].attention.qkv.weight.numpy()
    for family, names in {
        "hf": ("encoder.layer.1.attention.self.key.weight", False),
        "paddlenlp": ("encoder.layers.1.self_attn.k_proj.weight", True),
        "ernie_dygraph": ("encoder_stack.block.1.attn.k.weight", True),
        "ernie_static": ("encoder_layer_1_multi_head_att_key_fc.w_0", True),
    }.items():
        theirs = rename(model, names_of(model, family))[names[0]]
        np.testing.assert_array_equal(theirs.T if names[1] else theirs, weight[6:12])


def _hugging_face(model):
    return rename(model, names_of(model, "hf"))


def test_what_stands_for_nothing_is_left_out_and_old_spellings_are_read(tmp_path):
    model, other = _model("pretraining"), _model("pretraining", seed=1)
    arrays = {
        "bert." + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        if not name.startswith("cls")
        else name: a
        for name, a in _hugging_face(model).items()
    }
    arrays["bert.embeddings.position_ids"] = np.arange(8)[None]
    arrays["cls.predictions.decoder.weight"] = arrays["bert.embeddings.word_embeddings.weight"]
    report = load_bert(other, _saved(tmp_path, arrays))
    assert _same(model, other)
    assert report.unused == ["embeddings.position_ids", "cls.predictions.decoder.weight"]
    arrays["cls.predictions.decoder.weight"] = arrays["cls.predictions.decoder.weight"] + 0.1
    with pytest.raises(CheckpointError, match=r"of another content .*decoder\.weight \(encoder\.embeddings\.word"):
        load_bert(other, _saved(tmp_path, arrays))
    load_bert(other.encoder, _saved(tmp_path, arrays))  # which has no output matrix


def test_a_head_is_new_only_when_that_is_said(tmp_path):
    pretrained, model = _model("pretraining"), _model("classes", seed=1)
    path = _saved(tmp_path, _hugging_face(pretrained))
    before = {n: t.numpy().copy() for n, t in model.state_dict().items()}
    with pytest.raises(CheckpointError, match=r"2 missing: fc.weight \(from classifier.weight\), fc.bias") as caught:
        load_bert(model, path)
    assert "7 unexpected: cls.predictions.bias" in str(caught.value)
    assert all((model.state_dict()[n].numpy() == a).all() for n, a in before.items())  # nothing was changed
    report = load_bert(model, path, new_head=True)
    assert report.new == ["fc.weight", "fc.bias"] and len(report.unused) == 7
    assert _same(model.encoder, pretrained.encoder) and (model.fc.weight.numpy() == before["fc.weight"]).all()


def test_a_head_of_another_task_does_not_come_in_by_its_name(tmp_path):
    tags, model = _model("tags"), SequenceClassifier(Bert(**SIZES), 4)
    nn.init.initialize(model, 1)
    before = model.fc.weight.numpy().copy()
    load_bert(model, _saved(tmp_path, _hugging_face(tags)), new_head=True)
    assert (model.fc.weight.numpy() == before).all()


def test_everything_that_does_not_fit_is_listed(tmp_path):
    arrays = _hugging_face(_model())
    arrays["encoder.layer.0.output.dense.bias"] = np.zeros(7, np.float32)
    del arrays["encoder.layer.1.attention.self.key.bias"]
    del arrays["pooler.dense.weight"]
    arrays["encoder.layer.2.output.dense.bias"] = np.zeros(6, np.float32)
    path = _saved(tmp_path, arrays)
    with pytest.raises(CheckpointError) as caught:
        load_bert(_model(), path)
    text = str(caught.value)
    assert text.startswith(f"{path}: it does not fit this Bert; 2 missing: layers.1.attention.qkv.bias (from encoder.")
    assert "pooler.weight (from pooler.dense.weight)" in text
    assert "1 unexpected: encoder.layer.2.output.dense.bias" in text
    assert "layers.0.down.bias [6] from encoder.layer.0.output.dense.bias [7]" in text
    with pytest.raises(CheckpointError, match=r"1 missing: layers\.1"):
        load_bert(_model(), path, new=["pooler"])


def test_a_task_table_is_not_dropped_in_silence(tmp_path):
    path = _saved(tmp_path, _hugging_face(_model(task_types=3)))
    with pytest.raises(CheckpointError, match=r"1 unexpected: embeddings\.task_type_embeddings\.weight"):
        load_bert(_model(), path)


def test_roberta_heads_are_read(tmp_path):
    model, other = _model("classes", segment_types=1), _model("classes", seed=1, segment_types=1)
    arrays = _hugging_face(model)
    renamed = {"pooler.dense": "classifier.dense", "classifier": "classifier.out_proj"}
    theirs = {}
    for name, array in arrays.items():
        base, _, ending = name.rpartition(".")
        whole = f"{renamed[base]}.{ending}" if base in renamed else f"roberta.{name}"
        theirs[whole] = array
    load_bert(other, _saved(tmp_path, theirs))
    assert _same(model, other)


def test_another_model_is_refused(tmp_path):
    path = _saved(tmp_path, {"transformer.wte.weight": np.zeros(3, np.float32)})
    with pytest.raises(CheckpointError, match=r"no BERT, ERNIE or RoBERTa .* it begins with transformer\.wte\.weight"):
        load_bert(_model(), path)
    with pytest.raises(CheckpointError, match="only models on a Bert have names elsewhere"):
        names_of(nn.Linear(2, 2))


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_saved_for_hugging_face_comes_back(kind, tmp_path):
    model = _model(kind, task_types=2)
    save_hugging_face(model, tmp_path)
    other = MODELS[kind](Bert(folder=str(tmp_path)))
    assert other.state_dict().keys() == model.state_dict().keys()
    load_bert(other, tmp_path)
    assert _same(model, other)
    fields = json.loads((tmp_path / "config.json").read_text())
    assert fields["architectures"][0].startswith("Ernie") and fields["model_type"] == "ernie"
    names = load_tensors(tmp_path / "model.safetensors")
    assert ("ernie.embeddings.LayerNorm.weight" in names) == (kind != "encoder")


def test_a_roberta_with_a_head_is_not_written(tmp_path):
    model = _model("classes", preset="roberta_base")
    with pytest.raises(CheckpointError, match="save its encoder"):
        save_hugging_face(model, tmp_path)
    save_hugging_face(model.encoder, tmp_path)
    assert Bert(folder=str(tmp_path)).config == model.encoder.config


# -- real weights
@pytest.fixture(scope="module")
def real(minilm):
    """MiniLM with its weights, and the report of loading them."""
    model = Bert(folder=str(minilm)).eval()
    return model, load_bert(model, minilm)


def test_minilm_gives_what_hugging_face_gives(real):
    """The reference is transformers 4.46 on PyTorch 2.13, padded, of random tokens: data/minilm_reference.npz.

    It has every fourth element of each token's vector, and the pooled vectors.
    """
    expected = np.load(Path(__file__).parent / "data" / "minilm_reference.npz")
    model, report = real
    assert len(report.loaded) == 79 and report.unused == ["embeddings.position_ids"] and not report.new
    ids, offsets, segments = (expected[key].astype(np.int64) for key in ("ids", "offsets", "segment_ids"))
    sequence, pooled = model(framework.tensor(ids), framework.tensor(offsets), framework.tensor(segments))
    np.testing.assert_allclose(sequence.numpy()[:, ::4], expected["sequence"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(pooled.numpy(), expected["pooled"], rtol=0, atol=1e-5)


def test_minilm_gives_the_same_ragged_and_padded(real):
    model, _ = real
    batch = Batch([9, 30, 2, 17], words=30522)
    sequence, _ = model(batch.ids, batch.offsets, batch.segment_ids)
    padded, _ = model.padded(batch.padded, batch.mask, batch.padded_segments)
    rows = padded.numpy()[batch.mask.numpy()]
    # 1e-6 of the largest element, which is about 5; sums of 1,536 products differ in their order only.
    np.testing.assert_allclose(sequence.numpy(), rows, rtol=0, atol=1e-6 * np.abs(rows).max())
