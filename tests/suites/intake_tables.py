"""Drawn texts, tables, tags and click logs, each with its truth."""

from __future__ import annotations

import json
from collections.abc import Callable

from suites.ctr.datasets import ClickLog
from suites.ctr.inspection.guess import guess_schema
from suites.ctr.schema import schema_of
from suites.engine.config.tree.yaml_text import parse_text
from suites.nlp.datasets import CharTags, Texts
from tests.suites.intake_drawing import Draw, compare, parts

WORDS = ("good", "bad", "film", "été", "猫", "it's", "50%", "a;b", "x|y", "so-so", "(really)", "naïve", "1,5", "C#")


def sentence(d: Draw, at: int) -> str:
    """A text of several words, unique by its number."""
    return " ".join([*d.rng.choices(WORDS, k=d.rng.randrange(4, 9)), f"n{at}"])


def quoted(cell: str, mark: str, always: bool) -> str:
    """A cell as RFC 4180 writes it."""
    needs = always or any(c in cell for c in (mark, '"', "\n", "\r"))
    return '"' + cell.replace('"', '""') + '"' if needs else cell


def texts(d: Draw) -> Callable[[], None]:
    """Labelled texts as CSV, TSV or JSON lines."""
    kind = d.pick("csv", "tsv", "jsonl", "json", "semicolon")
    labels = d.pick(("pos", "neg"), ("1", "0"), ("très bien", "mal"), ("1.0", "2.0", "3.0"))
    rows = [(sentence(d, at), labels[at % len(labels)]) for at in range(d.rng.randrange(20, 40))]
    if kind.startswith("json"):
        ascii_ = bool(d.pick(True, False))
        objects = [json.dumps({"text": a, "label": b}, ensure_ascii=ascii_) for a, b in rows]
        if kind == "jsonl":
            d.text("a.jsonl", "\n".join(objects))
        else:
            d.text("a.json", "[" + ",\n".join(objects) + "]")
        path = "a.jsonl" if kind == "jsonl" else "a.json"
    else:
        path = tables(d, kind, rows)
    whole = str(d.root / path)

    def read() -> None:
        sets = parts(lambda part: Texts(whole, part, max_skipped=0))
        compare(sorted((e.text, e.label) for one in sets for e in one.examples), sorted(rows), "rows")

    return read


def tables(d: Draw, kind: str, rows: list[tuple[str, str]]) -> str:
    """Writes rows as a table; returns its name."""
    mark = {"csv": ",", "tsv": "\t", "semicolon": ";"}[kind]
    always = bool(d.pick(False, True))
    index, header = d.pick(False, True), d.pick(True, False)
    names = [d.pick("text", "Review", "sentence"), d.pick("label", "Sentiment")]
    multiline = kind != "tsv" and d.chance(0.2, "ends of lines in cells")
    twice = header and d.chance(0.15, "repeated column")
    lost = d.chance(0.1, "missing label")
    d.wrong = d.wrong or lost
    lines = []
    for at, (text, label) in enumerate(rows):
        if multiline and at % 5 == 0:
            rows[at] = (text.replace(" ", "\n", 1), label)
        known = d.rng.choice(("", "NaN", "#N/A", "<NA>")) if lost and at == 3 else label
        cells = [quoted(rows[at][0], mark, always), quoted(known, mark, False), *(["x", str(at)] if twice else [])]
        lines.append(mark.join([*([str(at)] if index else []), *cells]))
    if header:
        first = [d.pick("", "Unnamed: 0")] if index else []
        lines.insert(0, mark.join([*first, *names, *(["note", "note"] if twice else [])]))
    if kind == "semicolon" and d.chance(0.4, "sep="):
        lines.insert(0, "sep=;")
    name = "a.tsv" if kind == "tsv" else "a.csv"
    d.text(name, "\n".join(lines) + d.pick("\n", "", "\n\n"))
    return name


def stray(d: Draw) -> Callable[[], None]:
    """A TSV as it stands, with quotes in its texts."""
    rows = [(sentence(d, at), "pos" if at % 2 else "neg") for at in range(24)]
    for at in d.rng.sample(range(24), 5):
        text, label = rows[at]
        rows[at] = (d.rng.choice((f'"{text}', f'{text}"', f'say "{text}', f'a "b" {text}')), label)
    d.text("a.tsv", "\n".join(["text\tlabel", *(f"{a}\t{b}" for a, b in rows)]))
    whole = str(d.root / "a.tsv")

    def read() -> None:
        sets = parts(lambda part: Texts(whole, part, max_skipped=0))
        compare(sorted((e.text, e.label) for one in sets for e in one.examples), sorted(rows), "rows")

    return read


def tags(d: Draw) -> Callable[[], None]:
    """CoNLL files of 2, 4 or 10 columns in four forms of tags."""
    form, columns = d.pick("BIO", "IOB1", "BIOES", "BILOU"), d.pick(2, 4, 10)
    mark = d.pick("\t", " ") if columns != 10 else "\t"
    lines: list[str] = ["-DOCSTART- -X- O O", ""] if columns == 4 and d.chance(0.4, "docstart") else []
    truth = []
    for _ in range(d.rng.randrange(8, 14)):
        words, spans = [], []
        while len(words) < 6:
            length = d.rng.choice((0, 0, 1, 2, 3))
            words += [d.rng.choice(("Ann", "saw", "Zoë", "#tag", "東京", "it's", "50%")) for _ in range(max(1, length))]
            spans.append((max(1, length), d.rng.choice(("PER", "LOC")) if length else None))
        written = list(tagged(spans, form))
        truth.append((tuple(words), tuple(tagged(spans, "BIOES" if form in ("BIOES", "BILOU") else "BIO"))))
        if columns == 10 and d.chance(0.3, "remarks"):
            lines.append("# text = some words")
        for at, (word, tag) in enumerate(zip(words, written, strict=True)):
            cells = {
                2: [word, tag],
                4: [word, "NNP", "I-NP" if at else "B-NP", tag],
                10: [str(at + 1), word, word.lower(), "NOUN", "NN", "_", str(at), "root", "_", tag],
            }[columns]
            lines.append(mark.join(cells))
        lines += [""] * d.rng.choice((1, 1, 2))
    d.text("a.conll", "\n".join(lines))

    def read() -> None:
        one = CharTags(str(d.root / "a.conll"), max_skipped=0)
        compare([(e.words, e.tags) for e in one.examples], truth, "sentences")

    return read


def tagged(spans: list[tuple[int, str | None]], form: str) -> list[str]:
    """Tags of spans in a form."""
    found: list[str] = []
    before = None
    for length, kind in spans:
        if kind is None:
            found += ["O"] * length
        elif form == "IOB1":
            found += [f"{'B' if before == kind else 'I'}-{kind}", *[f"I-{kind}"] * (length - 1)]
        elif form == "BIO":
            found += [f"B-{kind}", *[f"I-{kind}"] * (length - 1)]
        else:
            single, last = ("S", "E") if form == "BIOES" else ("U", "L")
            found += (
                [f"{single}-{kind}"] if length == 1 else [f"B-{kind}", *[f"I-{kind}"] * (length - 2), f"{last}-{kind}"]
            )
        before = kind
    return found


# How a price is written; the first half the time.
PRICES = (
    "{:.3f}".format,
    lambda price: f"{price:.3f}".replace(".", ",") + " €",
    lambda price: f"{price:.3f}%",
    lambda price: f"${price:.4f}",
    lambda price: f"{price:.4f}".replace(".", ","),
)


def clicks(d: Draw) -> Callable[[], None]:
    """A click log by its guessed schema."""
    mark = d.pick(",", "\t", ";", "|")
    missing = d.pick("", "NA", "NaN", "NULL", "#N/A", "n/a", "<NA>")
    index = d.pick(False, True)
    spaces = d.pick("", " ")
    rows = [
        (
            d.rng.randrange(2),
            f"u{d.rng.randrange(9)}",
            d.rng.choice(("été", "日本", "a b", "50%", "x")),
            d.rng.random() * 9,
        )
        for _ in range(80)
    ]
    lines, prices = [], []
    write = d.pick(*PRICES)
    for at, (click, user, word, price) in enumerate(rows):
        lost = at % 17 == 5
        prices.append(None if lost else round(price, 3))
        cells = [
            str(click),
            user,
            quoted(word, mark, bool(d.rng.random() < 0.2)),
            missing if lost else quoted(write(price), mark, False),
        ]
        lines.append((mark + spaces).join([*([str(at)] if index else []), *cells]))
    names = ["click", "member", "word", "price"]
    lines.insert(0, mark.join([*([d.pick("", "Unnamed: 0")] if index else []), *names]))
    if mark == ";" and d.chance(0.4, "sep="):
        lines.insert(0, "sep=;")
    d.text("log.csv", "\n".join(lines) + d.pick("\n", ""))
    path = d.root / "log.csv"

    def read() -> None:
        schema = schema_of(parse_text(guess_schema(path), "guessed").plain())
        compare(list(schema.labels), ["click"], "label")
        compare(sorted(schema.features), ["member", "price", "word"], "features")
        log = ClickLog(schema, str(path), [], max_skipped=0)
        compare(len(log.clicks), len(rows), "rows")
        compare(log.clicks.labels[:, 0].astype(int).tolist(), [row[0] for row in rows], "clicks")
        dense = log.clicks.dense[:, 0].tolist()
        for at, (value, known) in enumerate(zip(dense, prices, strict=True)):
            assert known is None or abs(value - known) < 1e-3, f"price of row {at}: read {value}, truth {known}"
        signs = {row[2]: set() for row in rows}
        place = schema.sparse().index("word")
        for at, row in enumerate(rows):
            signs[row[2]].add(int(log.clicks.sparse[at, place]))
        assert all(len(each) == 1 for each in signs.values()), f"a word has several signs: {signs}"
        assert len(set.union(*signs.values())) == len(signs), f"words share a sign: {signs}"

    return read
