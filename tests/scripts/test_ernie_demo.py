"""The demo of ERNIE reads names out of the newspaper's tags, and keeps what is tested apart from what is learned."""

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[2] / "scripts" / "ernie_demo"


@pytest.fixture(scope="module")
def demo():
    loader = SourceFileLoader("ernie_demo", str(PATH))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("ernie_demo", loader))
    sys.modules["ernie_demo"] = module
    sys.dont_write_bytecode, kept = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = kept
    yield module
    del sys.modules["ernie_demo"]


def test_family_and_given_name_are_one_person(demo):
    characters, tags = demo.tagged("江/nr 泽民/nr 在/p 香港/ns 李/nr 鹏/nr")
    assert "".join(characters) == "江泽民在香港李鹏"
    assert tags == ["B-PER", "I-PER", "I-PER", "O", "B-LOC", "I-LOC", "B-PER", "I-PER"]


def test_places_side_by_side_are_two(demo):
    assert demo.tagged("中国/ns 北京/ns")[1] == ["B-LOC", "I-LOC", "B-LOC", "I-LOC"]


def test_a_phrase_in_brackets_is_one_organisation_whatever_is_in_it(demo):
    characters, tags = demo.tagged("[香港/ns 电台/n]nt 说/v")
    assert characters == ["香", "港", "电", "台", "说"]
    assert tags == ["B-ORG", "I-ORG", "I-ORG", "I-ORG", "O"]


def test_words_without_a_tag_and_brackets_that_stay_open_are_no_names(demo):
    assert demo.tagged("江 [香港/ns 说/v") == (["江", "香", "港", "说"], ["O", "B-LOC", "I-LOC", "O"])
    assert demo.tagged("[北京/ns 队/n]nt [上海/ns 队/n]nt")[1] == ["B-ORG", "I-ORG", "I-ORG"] * 2


def test_a_phrase_that_is_no_name_keeps_the_names_in_it(demo):
    assert demo.tagged("[江/nr 泽民/nr 主席/n]nz 李/nr")[1] == ["B-PER", "I-PER", "I-PER", "O", "O", "B-PER"]
    assert demo.tagged("[香港/ns 同胞/n]nz 江/nr")[1] == ["B-LOC", "I-LOC", "O", "O", "B-PER"]


def test_the_vocabulary_begins_with_the_special_tokens_and_has_pieces_within_words(demo):
    found = demo.vocabulary("中中国国ABab 1 1 稀")
    assert found[:5] == ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"]
    assert {"中", "国", "a", "b", "1", "##a", "##b", "##1"} == set(found[5:])


def test_rows_are_split_without_overlap(demo, tmp_path):
    demo.write_parts(tmp_path, "h", [str(i) for i in range(10)], 5, 2)
    rows = [(tmp_path / f"{name}.tsv").read_text().splitlines() for name in ("train", "dev", "test")]
    assert rows == [["h", "0", "1", "2", "3", "4"], ["h", "5", "6"], ["h", "7", "8", "9"]]


def test_it_prints_its_options(demo, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["ernie_demo", "--help"])
    with pytest.raises(SystemExit):
        demo.main()
    assert "--seeds" in capsys.readouterr().out
