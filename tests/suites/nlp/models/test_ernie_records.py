"""Records of ERNIE: the presets that they name, and fetching weights and vocabulary from addresses of their own."""

import json
import pickle

import numpy as np
import pytest
import yaml

from framework import nn
from framework.errors import CheckpointError, ConfigError
from suites.engine.weights import rename
from suites.engine.weights.fetching import fetch
from suites.engine.weights.records import get_record, read_record, record_names
from suites.nlp.models.bert import Bert
from suites.nlp.models.bert_config import PRESETS
from suites.nlp.models.bert_names import load_bert, names_of
from suites.nlp.models.heads import SequenceClassifier

ERNIE = [name for name in record_names() if name.startswith("ernie")]
SIZES = {"vocab_size": 9, "hidden_size": 8, "layers": 2, "heads": 2, "ffn_size": 12, "max_positions": 16}


@pytest.mark.parametrize("name", ERNIE)
def test_a_record_names_a_preset_and_brings_the_vocabulary(name):
    record = get_record(name)
    preset, *changes = record.model.removeprefix("Bert preset ").split(", ")
    assert preset in PRESETS and changes in ([], ["task_types 0"])
    addresses = {file.name: record.address_of(file) for file in record.files}
    assert "vocab.txt" in addresses and next(iter(addresses)).endswith(".pdparams")
    assert all(url.startswith("https://bj.bcebos.com/paddlenlp/models/transformers/") for url in addresses.values())


def test_there_are_thirteen():
    assert len(ERNIE) == 13


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder and a zoo of its own, and a folder that plays the host."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PADDOCK_ZOO", str(tmp_path / "zoo"))
    (tmp_path / "host").mkdir()
    return tmp_path


def published(folder, prefix):
    """An ERNIE under PaddleNLP's names in a pickle, with a vocabulary as ERNIE 1.0 has it."""
    model = Bert(**SIZES)
    nn.init.initialize(model, seed=3)
    arrays = {f"{prefix}{name}": array for name, array in rename(model, names_of(model, "paddlenlp")).items()}
    (folder / "ernie.pdparams").write_bytes(pickle.dumps(arrays, 4))
    words = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "a", "b", "c", "d"]
    (folder / "v.txt").write_text("".join(f"{word}\t{number}\n" for number, word in enumerate(words)))
    return model


def record_of(place, **file):
    fields = {
        "what": "a small ERNIE", "model": "Bert", "scheme": "paddlenlp", "licence": "none",
        "archive": {"url": f"file://{place}/host/ernie.pdparams", "sha256": "", "bytes": None},
        "files": [{"name": "ernie.pdparams"}, {"name": "vocab.txt", "url": f"file://{place}/host/v.txt", **file}],
    }  # fmt: skip
    (place / "mine.yml").write_text(yaml.safe_dump(fields))
    return read_record(place / "mine.yml")


@pytest.mark.parametrize("prefix", ["ernie.", "ernie_gram."])
def test_both_files_come_are_pinned_and_fit(place, prefix):
    model, lines = published(place / "host", prefix), []
    record = record_of(place)
    weights, vocabulary = fetch(record, say=lines.append)
    assert vocabulary.name == "vocab.txt" and vocabulary.read_bytes() == (place / "host/v.txt").read_bytes()
    pins = json.loads((place / "zoo.lock").read_text())["sha256"]
    assert set(pins) == {f"file://{place}/host/ernie.pdparams", f"file://{place}/host/v.txt"}
    other = SequenceClassifier(Bert(**SIZES), 3)
    load_bert(other, weights, new_head=True)
    for name, tensor in model.state_dict().items():
        np.testing.assert_array_equal(other.encoder.state_dict()[name].numpy(), tensor.numpy())

    vocabulary.write_bytes(b"[PAD]\t0\n")
    with pytest.raises(CheckpointError, match=r"vocab.txt has the digest .*, not "):
        fetch(record)


def test_a_mirror_has_both_under_the_names_of_their_addresses(place):
    published(place / "host", "ernie.")
    (place / "mirror").mkdir()
    for name in ("ernie.pdparams", "v.txt"):
        (place / "host" / name).rename(place / "mirror" / name)
    assert len(fetch(record_of(place), source=f"file://{place}/mirror")) == 2


@pytest.mark.parametrize(
    ("file", "said"),
    [({"inside": "x"}, "it is an address, without inside"), ({"url": None}, "'ernie.pdparams' needs `inside`")],
)
def test_files_that_are_neither_are_refused(place, file, said):
    with pytest.raises(ConfigError, match=said):
        record_of(place, **file)
