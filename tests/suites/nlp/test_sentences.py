"""What sentence-transformers keeps beside an encoder decides a text's vector, or is refused by name."""

import json

import numpy as np
import pytest

from framework.errors import CheckpointError
from suites.engine.predict.inference import open_model
from suites.engine.serving.pooling import normalized, pool
from suites.nlp.sentences import EVERY, Sentences, sentences_of
from tests.suites.nlp.test_embedder import checkpoint as checkpoint  # a fixture
from tools import embedder

MODULES = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
MEAN = {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}


def written(folder, modules=MODULES, pooling=MEAN, length=None, about=None):
    folder.mkdir(exist_ok=True, parents=True)
    listed = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(modules)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    for name, fields in (("sentence_bert_config.json", length), ("config_sentence_transformers.json", about)):
        if fields is not None:
            (folder / name).write_text(json.dumps(fields))
    return folder


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({}, Sentences("mean", True, EVERY)),
        ({"modules": MODULES[:2]}, Sentences("mean", False, EVERY)),
        ({"pooling": {"pooling_mode_cls_token": True, "include_prompt": True}}, Sentences("cls", True, EVERY)),
        ({"pooling": {"pooling_mode_max_tokens": True}}, Sentences("max", True, EVERY)),
        ({"pooling": {"pooling_mode_lasttoken": True}}, Sentences("last", True, EVERY)),
        ({"pooling": {"pooling_mode": "max"}}, Sentences("max", True, EVERY)),
        ({"length": {"max_seq_length": 128, "do_lower_case": False}}, Sentences("mean", True, 128)),
        ({"length": {"max_seq_length": None, "do_lower_case": True}}, Sentences("mean", True, EVERY)),
        ({"about": {"prompts": {"query": "q: "}, "default_prompt_name": None}}, Sentences("mean", True, EVERY)),
        ({"about": {"__version__": {"pytorch": "2"}, "similarity_fn_name": "cosine"}}, Sentences("mean", True, EVERY)),
    ],
)
def test_the_files_say_pooling_length_and_normalisation(tmp_path, change, wanted):
    assert sentences_of(written(tmp_path / "s", **change)) == wanted


@pytest.mark.parametrize(("said", "wanted"), [(12, 12), (10**30, 10**30), (None, EVERY), ("x", EVERY)])
def test_without_a_length_of_its_own_the_tokenizers_counts(tmp_path, said, wanted):
    folder = written(tmp_path / "s", length={"max_seq_length": None})
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": said}))
    assert sentences_of(folder).max_length == wanted


def test_a_folder_without_such_files_says_nothing(tmp_path):
    assert sentences_of(tmp_path) == Sentences(None, False, None)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            {"pooling": {"pooling_mode_mean_sqrt_len_tokens": True}},
            "pooled by pooling_mode_mean_sqrt_len",
        ),
        ({"pooling": {"pooling_mode_weightedmean_tokens": True}}, "pooled by pooling_mode_weightedmean_tokens"),
        ({"pooling": {"pooling_mode": "weightedmean"}}, "pooled by weightedmean"),
        ({"pooling": {**MEAN, "pooling_mode_max_tokens": True}}, "mean_tokens and pooling_mode_max_tokens|max.* and"),
        ({"pooling": {}}, "pooled by nothing"),
        ({"pooling": {**MEAN, "layers": [1]}}, r"layers is '\[1\]', and what it changes is not known"),
        ({"modules": [*MODULES[:2], ("Dense", "2_Dense")]}, "goes through Transformer, Pooling, Dense; only"),
        ({"modules": [("CLIPModel", "")]}, "goes through CLIPModel"),
        ({"modules": [("Transformer", ""), ("Pooling", "../x")]}, "leads out of the folder"),
        (
            {"about": {"prompts": {"q": "query: "}, "default_prompt_name": "q"}},
            "default_prompt_name is .q., a text",
        ),
        ({"about": {"truncate_dim": 64}}, "truncate_dim is '64'"),
        ({"length": {"max_seq_length": 0}}, "max_seq_length is 0"),
        ({"length": {"max_seq_length": True}}, "max_seq_length is True"),
        ({"length": {"model_args": {"x": 1}}}, "model_args is"),
    ],
)
def test_what_is_not_computed_is_refused_by_name(tmp_path, change, match):
    with pytest.raises(CheckpointError, match=match):
        sentences_of(written(tmp_path / "s", **change))


def test_texts_that_are_made_lower_case_before_a_cased_tokenizer_are_refused(tmp_path):
    folder = written(tmp_path / "s", length={"do_lower_case": True})
    with pytest.raises(CheckpointError, match="do_lower_case is true and the tokenizer's is not"):
        sentences_of(folder, lower_case=False)


@pytest.mark.parametrize("damage", ["", "{", "[1]", "3", '{"a": 1}'])
def test_damaged_modules_are_one_error(tmp_path, damage):
    folder = written(tmp_path / "s")
    (folder / "modules.json").write_text(damage)
    with pytest.raises(CheckpointError, match=r"modules\.json: "):
        sentences_of(folder)


def test_the_exported_model_gives_the_vectors_that_the_files_say(checkpoint, tmp_path, capsys):
    import shutil

    folder = tmp_path / "checkpoint"
    shutil.copytree(checkpoint, folder)
    written(folder, pooling={"pooling_mode_max_tokens": True}, length={"max_seq_length": 8})
    assert embedder.main([str(folder), "--output", str(tmp_path / "out")]) == 0
    assert "vectors by max" in capsys.readouterr().out
    model = open_model(tmp_path / "out")
    batch = model.processor.prepare([model.processor.from_json(text) for text in ("a b c d e f g h a", "a")])
    assert np.diff(batch["offsets"]).tolist() == [8, 3]
    outputs = model.predict({name: batch[name] for name in model.inputs})
    wanted = normalized(pool(outputs["vectors"], batch["offsets"], "max"))
    np.testing.assert_allclose(model.processor.embeddings(outputs, batch, "max"), wanted, atol=1e-6)
    assert embedder.main([str(folder), "--output", str(tmp_path / "own"), "--pooling", "cls", "--max-length", "9"]) == 0
    assert "vectors by cls" in capsys.readouterr().out
