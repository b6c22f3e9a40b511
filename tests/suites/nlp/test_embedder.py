"""A checkpoint or a run to a served model of vectors: they are the encoder's, whatever shares their batch."""

import json

import numpy as np
import pytest

from framework import from_numpy, no_grad
from framework.errors import AttributeValueError, CheckpointError, ConfigError, NotSupportedError
from framework.nn import init
from suites.engine.predict.inference import open_model, open_run
from suites.engine.predict.items import predict_items
from suites.engine.serving.pooling import normalized
from suites.engine.train.training import train
from suites.nlp.embedder import export_embedder, export_run_embedder
from suites.nlp.models.bert import Bert
from suites.nlp.models.bert_names import save_hugging_face
from suites.nlp.problems import Tagging, Vectors
from tools import embedder, infer

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "##a", "##b"]
TEXTS = ["a", "b c d", "h " * 40, "", "ab \ud800 ☃"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    bert = Bert(vocab_size=len(VOCABULARY), hidden_size=16, layers=2, heads=2, ffn_size=32, max_positions=64)
    init.initialize(bert, 0)
    save_hugging_face(bert, folder)
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    return folder


@pytest.fixture(scope="module")
def model(checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    export_embedder(checkpoint, folder, max_length=32)
    return open_model(folder)


def vectors(model, texts, pooling="mean"):
    processor = model.processor
    batch = processor.prepare([processor.from_json(text) for text in texts])
    outputs = model.predict({name: batch[name] for name in model.inputs})
    return processor.embeddings(outputs, batch, pooling), outputs["vectors"]


def test_a_text_has_the_same_vector_alone_and_in_company(model):
    together, _ = vectors(model, TEXTS)
    assert together.shape == (5, 16)
    for text, vector in zip(TEXTS, together, strict=True):
        alone, tokens = vectors(model, [text])
        np.testing.assert_allclose(alone[0], vector, atol=1e-6)
        np.testing.assert_allclose(tokens.mean(axis=0), vector, atol=1e-6)


def test_a_long_text_is_cut_and_says_so(model):
    processor = model.processor
    short, long = (processor.from_json(text) for text in TEXTS[1:3])
    assert (processor.cost(short), processor.cost(long)) == (5, 32)
    assert not processor.truncated(short) and processor.truncated(long)


def test_results_are_vectors_by_the_models_pooling(checkpoint, tmp_path):
    export_embedder(checkpoint, tmp_path, max_length=32, pooling="cls", normalize=True)
    model = open_model(tmp_path)
    items = [model.processor.from_json(text) for text in TEXTS]
    found = predict_items(model.processor, model.inputs, model.predict, items)
    expected = normalized(vectors(model, TEXTS, "cls")[0])
    np.testing.assert_allclose([row["vector"] for row in found], expected, atol=1e-6)
    assert model.processor.poolings[0] == "cls" and len(model.processor.poolings) == 5


def test_it_is_served(model):
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from suites.engine.serving.client import Client, ServerError
    from suites.engine.serving.service import Settings
    from tests.suites.engine.serving.toy import running

    texts = [TEXTS[i % 3] for i in range(50)]
    with running(model, Settings(name="bert", workers=2)) as server, Client(server.url) as client:
        found = client.encode(texts, batch_size=7, pooling="max")
        with pytest.raises(ServerError, match=r"item 0: takes a text, got \['a', 'b'\]"):
            client.encode([["a", "b"]])
        hostile = {"ids": [1, 99], "segment_ids": [0, 0], "offsets": [0, 2]}
        for change in (
            {},
            {"ids": [1, 2], "offsets": [0, 9]},
            {"ids": [1, 2], "offsets": [0, -1, 2]},
            {"offsets": [1, 0]},
        ):
            inputs = [
                {"name": name, "shape": [len(data)], "datatype": "INT64", "data": data}
                for name, data in {**hostile, **change}.items()
            ]
            with pytest.raises(ServerError) as caught:
                client.request("POST", "/v2/models/bert/infer", {"inputs": inputs})
            assert caught.value.status == 400
        assert len(client.encode(["a"])) == 1
    np.testing.assert_allclose(found, vectors(model, texts, "max")[0], atol=1e-6)


def test_the_tools_make_it_and_write_vectors(checkpoint, tmp_path, capsys):
    assert embedder.main([str(checkpoint), "--output", str(tmp_path / "m"), "--max-length", "32"]) == 0
    assert "vectors by mean of what" in capsys.readouterr().out
    assert infer.main([str(tmp_path / "m"), "b c d", "--output", str(tmp_path / "out")]) == 0
    (found,) = json.loads((tmp_path / "out" / "predictions.json").read_text()).values()
    assert len(found["vector"]) == 16
    assert "b c d -> [" in capsys.readouterr().out


def test_what_cannot_be_exported_is_one_error(checkpoint, tmp_path):
    with pytest.raises(CheckpointError, match="has positions for 64 tokens; max_length is 65"):
        export_embedder(checkpoint, tmp_path, max_length=65)
    with pytest.raises(ConfigError, match="pooling is 'median'; takes mean, cls"):
        export_embedder(checkpoint, tmp_path, pooling="median", max_length=32)
    (tmp_path / "tokenizer_config.json").write_text("[")
    for file in checkpoint.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json: it cannot be read as JSON"):
        export_embedder(tmp_path, tmp_path / "out", max_length=32)


def test_vectors_are_not_trained_or_measured():
    problem = Vectors()
    assert problem.classes(None) == []
    with pytest.raises(NotSupportedError, match="cannot be trained"):
        problem.losses(None, {})
    with pytest.raises(NotSupportedError, match="cannot be evaluated"):
        problem.metric(None, [])


def test_minilm_finds_the_paraphrase(minilm, tmp_path):
    export_embedder(minilm, tmp_path)
    texts = ["A man is eating food.", "A man eats something.", "The stock market fell sharply today."]
    found = normalized(vectors(open_model(tmp_path), texts)[0])
    like, unlike = found[0] @ found[1], found[0] @ found[2]
    assert like > 0.6 and unlike < 0.2


ENCODER = "{type: Bert, vocab_size: 15, hidden_size: 16, layers: 2, heads: 2, ffn_size: 32, max_positions: 40}"
RUN = """
suite: nlp
model: MODEL
data:
  tokenizer: {type: BertTokenizer, vocabulary: ROOT/vocab.txt}
  max_length: 16
  num_classes: 2
  train: {dataset: {type: Tsv, path: ROOT/rows.tsv, PAIR}}
  eval: {dataset: {type: Tsv, path: ROOT/rows.tsv, PAIR}}
problem: PROBLEM
optimizer: {type: AdamW}
schedule: {type: Constant, base_lr: 1e-3}
runtime: {steps: 2, workers: 0, evaluation: {every: 0, pictures: 0}}
"""


def trained(folder, model="{type: SequenceClassifier, encoder: ENCODER, CLASSES}", pair=False):
    """A run on a few texts or pairs."""
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    rows = [f"{i % 2}\ta b c\tc {'d' * (i % 3 + 1)}" for i in range(40)]
    (folder / "rows.tsv").write_text("\n".join(["label\ttext_a\ttext_b", *rows]) + "\n")
    problem = f"{{type: Classification, pair: {str(pair).lower()}}}"
    words = {
        "MODEL": model,
        "PAIR": "pair: text_b" if pair else "label: label",
        "PROBLEM": problem,
        "ROOT": str(folder),
    }
    words |= {"ENCODER": ENCODER, "CLASSES": 'num_classes: "${data.num_classes}"'}
    text = RUN
    for word, value in words.items():
        text = text.replace(word, value)
    (folder / "c.yml").write_text(text)
    train(folder / "c.yml", runs=folder, name="run")
    return folder / "run"


@pytest.mark.parametrize("pair", [False, True])
def test_a_trained_model_gives_vectors_and_scores_from_one_pass(pair, tmp_path):
    run = trained(tmp_path, pair=pair)
    export_run_embedder(run, tmp_path / "both", pooling="max")
    both, plain = open_model(tmp_path / "both"), open_model(run)
    items = [["a b", "c"], ["h", "a a d"]] if pair else ["a b", "c d e f"]
    found, tokens = vectors(both, items, "mean")
    task = open_run(run)
    batch = both.processor.prepare([both.processor.from_json(item) for item in items])
    inputs = {name: from_numpy(batch[name]) for name in ("ids", "offsets", "segment_ids")}
    with no_grad():
        want = task.model.encoder(**inputs)[0].numpy()
    np.testing.assert_allclose(tokens, want, rtol=0, atol=1e-6)
    assert found.shape == (2, 16) and both.processor.poolings[0] == "max"
    results = [
        predict_items(m.processor, m.inputs, m.predict, [m.processor.from_json(i) for i in items])
        for m in (both, plain)
    ]
    assert [r["class"] for r in results[0]] == [r["class"] for r in results[1]]
    assert results[0][0]["scores"] == pytest.approx(results[1][0]["scores"], abs=1e-5)
    assert (tmp_path / "both" / "program.json").read_text().count("ragged_self_attention") == 2  # the layers run once
    export_run_embedder(run, tmp_path / "alone", alone=True)
    single, _ = vectors(open_model(tmp_path / "alone"), ["a b", "c"])
    assert single.shape == (2, 16)


def test_a_layer_below_the_last_can_be_taken(checkpoint, tmp_path):
    run = trained(tmp_path)
    for layer in (1, 2):
        export_run_embedder(run, tmp_path / str(layer), layer=layer)
    export_run_embedder(run, tmp_path / "last")
    tokens = {name: vectors(open_model(tmp_path / name), ["a b c"])[1] for name in ("1", "2", "last")}
    np.testing.assert_allclose(tokens["2"], tokens["last"], rtol=0, atol=1e-6)
    assert np.abs(tokens["1"] - tokens["last"]).max() > 0.01
    with pytest.raises(AttributeValueError, match="there is no layer 3; takes 1 to 2"):
        export_run_embedder(run, tmp_path / "3", layer=3)
    export_embedder(checkpoint, tmp_path / "checkpoint", max_length=32, layer=1)
    assert vectors(open_model(tmp_path / "checkpoint"), ["a b c"])[1].shape == (5, 16)


def test_a_run_s_vectors_and_scores_are_served_together(tmp_path):
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    from suites.engine.serving.client import Client
    from suites.engine.serving.service import Settings
    from tests.suites.engine.serving.toy import running

    assert embedder.main([str(trained(tmp_path, pair=True)), "--output", str(tmp_path / "m")]) == 0
    model = open_model(tmp_path / "m")
    pairs = [["a b", "c"], ["h", "a a d"]]
    with running(model, Settings(name="pairs", workers=1)) as server, Client(server.url) as client:
        assert client.encode(pairs).shape == (2, 16) and len(client.score(pairs)) == 2
        np.testing.assert_allclose(client.encode(pairs, pooling="cls"), vectors(model, pairs, "cls")[0], atol=1e-6)


def test_recurrent_models_have_vectors_and_bags_have_none(tmp_path):
    model = "{type: RecurrentClassifier, vocab_size: 15, CLASSES, width: 8, hidden: 6}"
    export_run_embedder(trained(tmp_path, model), tmp_path / "m")
    assert vectors(open_model(tmp_path / "m"), ["a b"])[0].shape == (1, 12)
    bag = tmp_path / "bag"
    bag.mkdir()
    run = trained(bag, "{type: BagOfWords, vocab_size: 15, CLASSES, width: 8}")
    with pytest.raises(NotSupportedError, match="BagOfWords: gives no vectors of tokens"):
        export_run_embedder(run, tmp_path / "none")
    with pytest.raises(AttributeValueError, match="of is Tagging; takes Classification or Regression"):
        Vectors(of=Tagging())
