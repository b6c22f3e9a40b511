"""A checkpoint to a served model of vectors: the server's vectors are the encoder's, whatever shares their batch."""

import json

import numpy as np
import pytest

from framework.errors import CheckpointError, ConfigError, NotSupportedError
from framework.nn import init
from suites.engine.evaluation import predict_items
from suites.engine.inference import open_model
from suites.engine.serving.pooling import normalized
from suites.nlp.embedder import export_embedder
from suites.nlp.models.bert import Bert
from suites.nlp.models.bert_names import save_hugging_face
from suites.nlp.problems import Vectors
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
    pytest.importorskip("fastapi", reason="serving needs: pip install 'paddock[serve]'")
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
    assert "vectors by mean of texts up to 32 tokens" in capsys.readouterr().out
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
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json: cannot be read"):
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
