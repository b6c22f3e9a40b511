"""Drawn texts, and their writers for data sets of texts: labelled, tagged, asked about, parallel and running ones."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

Arguments = Mapping[str, Any]
COUNT = 4  # samples of a part
_TEXT = "这 部 电 影 很 好 看 我 不 喜 欢 它 good film with a bad end one two three"
WORDS = _TEXT.split()
LINES = [f"a small dog and {n} green houses stand there" for n in range(24)]
OTHERS = [f"ein kleiner Hund und {n} grüne Häuser stehen da" for n in range(24)]


def rng_of(*words: object) -> np.random.Generator:
    """A generator for drawings of this name."""
    return np.random.default_rng(zlib.crc32(repr(words).encode()))


def write(path: str | Path, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


def put(path: str, text: str) -> None:
    """Write a text file, also one inside of a zip."""
    archive, ending, inside = path.partition(".zip/")
    if not ending:
        write(path, text)
        return
    Path(archive).parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(f"{archive}.zip", "a") as file:
        if inside not in file.namelist():
            file.writestr(inside, text)


def lines(path: str | Path, found: list[str]) -> None:
    write(path, "".join(f"{line}\n" for line in found))


def words_of(number: int, count: int = 24) -> list[str]:
    return [WORDS[i] for i in rng_of("words", number).integers(0, len(WORDS), count)]


def tsv(arguments: Arguments, classes: int) -> None:
    columns = arguments.get("columns") or ["label", arguments.get("text", "text_a")]
    label, text = arguments.get("label", "label"), arguments.get("text", "text_a")
    pair, group = arguments.get("pair"), arguments.get("group")
    classes = 2 if group else classes
    rows = [{label: str(number % classes), text: " ".join(words_of(number))} for number in range(5 * classes)]
    if group:  # four rows of each question, half of them right
        cells = [(str(at // 4), " ".join(words_of(at // 4)), " ".join(words_of(100 + at))) for at in range(len(rows))]
        rows = [row | dict(zip((group, text, pair), own, strict=True)) for row, own in zip(rows, cells, strict=True)]
    elif pair:
        rows = [row | {pair: " ".join(words_of(100 + number))} for number, row in enumerate(rows)]
    if not arguments.get("columns"):
        columns = [*columns, *(name for name in (pair, group) if name)]
    header = [] if arguments.get("columns") else ["\t".join(columns)]
    found = header + ["\t".join(row.get(column, "x") for column in columns) for row in rows]
    put(arguments["path"], "".join(f"{line}\n" for line in found))


def json_lines(arguments: Arguments, classes: int) -> None:
    rows = []
    classes = classes or 2
    for number in range(5 * classes):
        text = {arguments["text"]: " ".join(words_of(number)), arguments["pair"]: " ".join(words_of(100 + number))}
        rows.append(json.dumps({**text, "label": f"class{number % classes}"}, ensure_ascii=False))
    lines(arguments["path"], rows)


def texts(arguments: Arguments, classes: int) -> None:
    rows = [f"class{number % classes},{' '.join(words_of(number))}" for number in range(20 * classes)]
    lines(arguments["root"], ["label,text", *rows])


def char_tags(arguments: Arguments, classes: int) -> None:
    found = []
    for number in range(COUNT):
        found += [*(f"{word} {tag}" for word, tag in zip("王先生是经理了", TAGS, strict=True)), *["好 O"] * number, ""]
    lines(arguments["path"], found)


TAGS = ("B-NAME", "M-NAME", "E-NAME", "O", "B-TITLE", "E-TITLE", "O")


def tagged_tsv(arguments: Arguments, classes: int) -> None:
    columns, rows = arguments.get("columns") or ["text_a", "label"], []
    for number in range(COUNT):
        words = [*"王生在北京大学", *"好" * number]
        tags = ["B-PER", "I-PER", "O", "B-LOC", "I-LOC", "B-ORG", "I-ORG", *"O" * number]
        cells = {"text_a": "\x02".join(words), "label": "\x02".join(tags)}
        rows.append("\t".join(cells.get(column, "x") for column in columns))
    lines(arguments["path"], rows if arguments.get("columns") else ["\t".join(columns), *rows])


def squad(arguments: Arguments, classes: int) -> None:
    found = []
    for number in range(20):
        words = words_of(number)
        answer = {"text": words[3], "answer_start": len(" ".join(words[:3])) + 1}
        asked = {"id": str(number), "question": words[0], "answers": [answer]}
        found.append({"context": " ".join(words), "qas": [asked]})
    write(arguments["path"], json.dumps({"data": [{"paragraphs": found}]}))


def documents(arguments: Arguments, classes: int) -> None:
    plain, cut = [], []
    for number in range(100):
        for sentence in range(3):
            words = words_of(3 * number + sentence)
            plain.append(" ".join(words))
            cut.append(" ".join(f"{word}/n" for word in words))
        plain.append("")
        cut.append("")
    lines(arguments["path"], plain)
    lines(arguments["words"], cut)


def parallel(arguments: Arguments, classes: int) -> None:
    """Two files of lines."""
    put(arguments["path"], "\n".join(LINES) + "\n")
    put(arguments["other"], "\n".join(OTHERS) + "\n")


def dialogues(arguments: Arguments, classes: int) -> None:
    """Conversations of two turns, each with a right and a wrong answer."""
    rows = []
    for number in range(12):
        turns = [" ".join(words_of(number)), " ".join(words_of(50 + number))]
        rows += ["\t".join([str(label), *turns, " ".join(words_of(100 + number + label))]) for label in (1, 0)]
    lines(arguments["path"], rows)


def knowledge_dialogues(arguments: Arguments, classes: int) -> None:
    """Conversations with their goals and facts, a JSON object a line."""
    rows = []
    for number in range(12):
        a, b = words_of(number)[:2]
        row = {"goal": [["START", a, b]], "knowledge": [[a, "is", b]], "conversation": list(LINES[:3])}
        rows.append(json.dumps(row, ensure_ascii=False))
    lines(arguments["path"], rows)


def prose(arguments: Arguments, classes: int) -> None:
    """A file of running text."""
    put(arguments["path"], "\n".join(LINES * 4) + "\n")
