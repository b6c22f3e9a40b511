"""A run keeps what its files said: vocabularies, alphabets, words and schemas may be gone when it is opened again."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from framework.errors import ConfigError
from suites.engine.predict.inference import evaluate_export, export_run
from suites.engine.run.reopening import reopen
from suites.engine.train.training import evaluate_weights, train
from tests.configs.drawn import OWN_SCHEMA, draw
from tests.suites.nlp.test_continued import TEXTS

SMALL = ["model.shared=false", "model.width=16", "model.heads=2", "model.hidden=16", "model.encoder_layers=1",
         "model.decoder_layers=1", "problem.search.max_length=4"]  # fmt: skip


def translating():
    """Overrides to two vocabularies of two files."""
    from suites.nlp.tokenizers import SubwordTokenizer

    for name, texts in (("source", TEXTS), ("target", [*TEXTS[::-1], "more words"])):
        tokenizer = SubwordTokenizer(280)
        tokenizer.learn(texts)
        Path(f"{name}.json").write_text(tokenizer.written())
    both = {"tokenizer": "source", "target_tokenizer": "target"}
    made = {key: {"type": "SubwordTokenizer", "size": 280, "vocabulary": f"{file}.json"} for key, file in both.items()}
    return [f"data.{key}={json.dumps(value)}" for key, value in made.items()] + SMALL


def reading():
    """Overrides to an alphabet and a language of files."""
    Path("letters.txt").write_text("".join(f"{letter}\n" for letter in "A0123456789"))
    Path("texts.txt").write_text("A0\nA1\n")
    Path("words.txt").write_text("A\n")
    beam = {"texts": "texts.txt", "lexicon": "words.txt"}
    channels = "[8, 8, 8, 8, 8, 8, 8]"
    return ["model.alphabet=letters.txt", f"model.channels={channels}", "model.hidden=8",
            f"reading={json.dumps({'beam': beam, 'line_width': 64})}"]  # fmt: skip


def clicking():
    """Overrides to a schema of a file."""
    Path("own.yml").write_text(yaml.safe_dump(OWN_SCHEMA))
    return ["data.schema=own.yml"]


KINDS = {
    "nlp/transformer_multi30k_ende": (translating, ("source.json", "target.json")),
    "ocr/crnn_drawn": (reading, ("letters.txt", "texts.txt", "words.txt")),
    "ctr/clicks": (clicking, ("own.yml",)),
}
REFUSED = {
    "nlp/transformer_multi30k_ende": {
        "data.max_length=64": r"data\.max_length is 64 but was 128; the run keeps its own",
        "data.truncation=half": r"data\.truncation is half but was longest_first",
        "data.tokenizer.vocabulary=null": r"data\.tokenizer: the run keeps its own",
        "data.target_tokenizer=null": r"data\.target_tokenizer: it is another than the run's",
        "data.tokenizer.vocabulary=target.json": r"data\.tokenizer: it is another than the run's",
        "data.transforms=[{type: RemoveSpaces}]": r"data\.transforms: they are others than the run's",
    },
    "ocr/crnn_drawn": {"model.alphabet=digits": r"model\.alphabet: the classes of a trained network"},
    "ctr/clicks": {"data.schema={features: {user: {type: Sparse}}, labels: {click: {}}}": r"data\.schema: it declares"},
}


@pytest.fixture(params=KINDS)
def run(request, tmp_path, monkeypatch):
    """A trained run, the overrides it began with, and the files that are gone."""
    monkeypatch.chdir(tmp_path)
    name = request.param
    make, files = KINDS[name]
    overrides = [*draw(name), *make()]
    train(Path(name), overrides, name="mine")
    return Path("runs/mine"), name, overrides, files


def test_a_run_is_evaluated_exported_and_continued_without_its_files(run):
    folder, name, overrides, files = run
    figures = evaluate_weights(folder)
    for file in files:
        Path(file).unlink()
    assert evaluate_weights(folder) == figures
    moved = Path("elsewhere/run")
    shutil.copytree(folder, moved)
    export_run(moved, Path("exported"))
    exported = evaluate_export(moved, Path("exported"))
    assert exported == pytest.approx({name: figures[name] for name in exported}, abs=1e-3)
    train(folder, resume=True)
    train(Path(name), overrides, name="mine", resume=True)


def test_another_reading_than_a_model_was_trained_with_is_refused(run):
    folder, name, _, _ = run
    for override, message in REFUSED[name].items():
        with pytest.raises(ConfigError, match=message):
            reopen(folder, [override])


def test_files_that_say_the_same_may_be_named_anew(run):
    folder, name, _, files = run
    for file in files:
        Path(file).rename(f"new_{file}")
    again = {"nlp/transformer_multi30k_ende": "data.tokenizer.vocabulary=new_source.json",
             "ocr/crnn_drawn": "reading.beam={$replace: {lexicon: new_words.txt}}",
             "ctr/clicks": "data.schema=new_own.yml"}  # fmt: skip
    assert evaluate_weights(folder, [again[name]])
