"""Vectors of texts and rerankers from a config: trained, evaluated, exported, indexed; and what is wrong with data."""

import json
import re

import numpy as np
import pytest

from framework.errors import AttributeValueError, CheckpointError, ConfigError, DataError
from suites.engine.config.building import build_task, read_config
from suites.engine.predict.gallery import Embedder, build_gallery, find_alike, open_gallery
from suites.engine.predict.inference import export_run, infer_files, open_model
from suites.engine.predict.items import predict_items
from suites.engine.train.training import evaluate_weights, train

CONFIG = """
suite: nlp
model: MODEL
data:
  tokenizer: {type: WordTokenizer, max_size: 60}
  train: {dataset: DATASET, batch_size: 16}
  eval: {dataset: DATASET, batch_size: 7}
problem: PROBLEM
optimizer: {type: AdamW}
schedule: {type: Constant, base_lr: 1e-2}
runtime: {steps: 60, workers: 0, evaluation: {every: 0, pictures: 0}}
"""
ENCODER = "{type: Bert, vocab_size: 60, hidden_size: 16, layers: 1, heads: 2, ffn_size: 32, max_positions: 128}"
VECTORS = f"{{type: TextVectors, encoder: {ENCODER}}}"
SCORER = f"{{type: SequenceClassifier, encoder: {ENCODER}, num_classes: 1, pooling: mean, dropout: 0.0}}"
TOPICS = [[f"{topic}{i}" for i in range(6)] for topic in "abcd"]


def text_of(rng, topic):
    return " ".join(rng.choice(TOPICS[topic], 3, replace=False))


def write(folder, count=120):
    """Rows of two texts: of one topic (label fits) or of two (label not), the query's number, and a wrong text."""
    rng, rows = np.random.default_rng(0), ["query\tfirst\tsecond\tlabel\twrong"]
    for number in range(count // 4):
        topic = number % 4
        first = text_of(rng, topic)
        for place in range(4):
            other = topic if place == 0 else (topic + place) % 4
            label = "fits" if place == 0 else "not"
            rows.append(f"q{number}\t{first}\t{text_of(rng, other)}\t{label}\t{text_of(rng, (topic + 1) % 4)}")
    (folder / "t.tsv").write_text("\n".join(rows) + "\n")
    return f"{{type: Tsv, path: {folder}/t.tsv, text: first, pair: second, group: query}}"


def config(folder, model, problem, dataset=None):
    text = CONFIG.replace("MODEL", model).replace("PROBLEM", problem)
    (folder / "c.yml").write_text(text.replace("DATASET", dataset or write(folder)))
    return folder / "c.yml"


def run(folder, model, problem, dataset=None, name="run"):
    """Trains, and gives the figures."""
    train(config(folder, model, problem, dataset), runs=folder, name=name)
    return evaluate_weights(folder / name)


@pytest.mark.parametrize(
    "loss",
    [
        "loss: {type: InBatchNegatives, temperature: 0.1, symmetric: true}, positive: [fits], hard: 2, judged: groups",
        "loss: {type: Matryoshka, loss: {type: InBatchNegatives}, widths: [4, 8]}, positive: [fits], judged: groups",
        "loss: {type: CoSENT}, scores: {fits: 1.0, not: 0.2}, judged: groups, main: mrr",
    ],
)
def test_vectors_bring_texts_of_one_topic_together(tmp_path, loss):
    problem = f"{{type: SentenceVectors, {loss}}}"
    if "CoSENT" in loss:  # gains of 0.2 fit a little, so all rows fit: what is judged are the scores
        problem = problem.replace("judged: groups, main: mrr", "judged: scores")
    figures = run(tmp_path, VECTORS, problem)
    assert figures["spearman" if "CoSENT" in loss else "map"] > (0.7 if "CoSENT" in loss else 0.95)
    if "Matryoshka" in loss:
        assert figures["map/4"] > 0.8 and figures["map/8"] > 0.9


def test_a_run_of_vectors_is_exported_indexed_and_asked_without_its_data(tmp_path):
    problem = "{type: SentenceVectors, positive: [fits], judged: corpus, hard: 1}"
    figures = run(tmp_path, VECTORS, problem)
    assert figures["queries"] == 30 and figures["ndcg@10"] > 0.3
    report = export_run(tmp_path / "run", tmp_path / "export")
    assert report.largest_difference < 1e-5 and not report.fixed_shapes
    (tmp_path / "t.tsv").unlink()
    (tmp_path / "texts.txt").write_text("a0 a1 a2\nb0 b1 b2\nc0 c1 c2\n")
    for source in ("run", "export"):
        model = open_model(tmp_path / source)
        (answer,) = predict_items(model.processor, model.inputs, model.predict, [model.processor.from_json("a3 a4")])
        assert len(answer["vector"]) == 16 and np.linalg.norm(answer["vector"]) == pytest.approx(1, abs=1e-5)
        embedder = Embedder(tmp_path / source, texts=False)
        assert build_gallery(embedder, [str(tmp_path / "texts.txt")], tmp_path / f"gallery_{source}")[0] == 3
        gallery = open_gallery(tmp_path / f"gallery_{source}", embedder)
        ((_, found),) = find_alike(gallery, embedder, ["b4 b5"], 1, [])
        assert found[0].name.endswith(":2")
    assert len(infer_files(open_model(tmp_path / "export"), ["a0", "b0 b1"], None).lines) == 2


@pytest.mark.parametrize("loss", ["{type: Listwise}", "{type: Hinge, margin: 1.0}", "{type: Pointwise}"])
def test_a_reranker_puts_the_text_that_fits_first(tmp_path, loss):
    figures = run(tmp_path, SCORER, f"{{type: Reranking, positive: [fits], loss: {loss}, hard: 2}}")
    assert figures["queries"] == 30 and figures["mrr"] > 0.6  # by chance 0.52
    export_run(tmp_path / "run", tmp_path / "export")
    (tmp_path / "t.tsv").unlink()
    for source in ("run", "export"):
        done = infer_files(open_model(tmp_path / source), ["a0 a1 a2\ta3 a4 a5"], None)
        assert re.fullmatch(r"a0 a1 a2 \| a3 a4 a5 -> -?\d+\.\d{3}", done.lines[0])


def test_simnet_is_trained_pairwise(tmp_path):
    model = "{type: SimNet, vocab_size: 60, num_classes: 1, score: cosine, width: 16, hidden: 16}"
    figures = run(tmp_path, model, "{type: Reranking, positive: [fits], loss: {type: Hinge, margin: 0.5}, hard: 2}")
    assert figures["map"] > 0.9


def test_triples_come_from_columns_and_from_lists(tmp_path):
    dataset = write(tmp_path)[:-1]
    triples = dataset.replace("group: query", "label: null, negatives: [wrong]") + "}"
    rows = [line.split("\t") for line in (tmp_path / "t.tsv").read_text().splitlines()[1:]]
    fitting = [row for row in rows if row[3] == "fits"]
    (tmp_path / "t.tsv").write_text("\n".join(["query\tfirst\tsecond\tlabel\twrong", *map("\t".join, fitting)]) + "\n")
    problem = "{type: SentenceVectors, hard: 1}"
    task = build_task(read_config(config(tmp_path, VECTORS, problem, triples)))
    batch = next(iter(task.train_loader(seed=0, workers=0)))
    assert len(batch["offsets"]) == 3 * len(batch["groups"]) + 1 and (batch["others"] >= 0).all()
    lines = [json.dumps({"a": r[1], "b": r[2], "no": [r[4], "d0 d1", ""]}) for r in fitting]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    listed = f"{{type: JsonLines, path: {tmp_path}/t.jsonl, text: a, pair: b, label: null, negatives: [no]}}"
    task = build_task(read_config(config(tmp_path, VECTORS, problem.replace("1", "3"), listed)))
    batch = next(iter(task.train_loader(seed=0, workers=0)))
    assert (batch["others"][:, 2] == -1).all() and (batch["others"][:, :2] >= 0).all()  # the empty text is none


def test_a_student_learns_a_teachers_vectors_and_margins(tmp_path):
    run(tmp_path, VECTORS, "{type: SentenceVectors, positive: [fits], judged: groups}", name="vectors")
    run(tmp_path, SCORER, "{type: Reranking, positive: [fits], hard: 2}", name="scores")
    common = "{type: SentenceVectors, positive: [fits], judged: groups, "
    taught = f"{common}loss: {{type: TeacherVectors, teacher: {tmp_path}/vectors}}}}"
    assert run(tmp_path, VECTORS, taught, name="student")["map"] > 0.9
    margins = f"{common}hard: 2, loss: {{type: MarginError, teacher: {tmp_path}/scores}}}}"
    task = build_task(read_config(config(tmp_path, VECTORS, margins)))
    batch = next(iter(task.train_loader(seed=0, workers=0)))
    assert batch["taught"].shape == (16, 3)
    # The teacher's score of a pair is that of the same texts asked alone.
    teacher = open_model(tmp_path / "scores")
    text = (tmp_path / "t.tsv").read_text().splitlines()[int(batch["example"][0]) + 1].split("\t")
    item = teacher.processor.from_json(text[1:3])
    (alone,) = predict_items(teacher.processor, teacher.inputs, teacher.predict, [item])
    assert batch["taught"][0, 0] == pytest.approx(alone["score"], abs=2e-5)  # results are rounded to 5 places
    wide = VECTORS.replace("hidden_size: 16", "hidden_size: 32")
    with pytest.raises(ConfigError, match="vectors of 16 numbers but the model of 32"):
        run(tmp_path, wide, taught, name="wide")
    wrong = taught.replace(f"{tmp_path}/vectors", f"{tmp_path}/scores")
    with pytest.raises(ConfigError, match="gives no vectors of single texts"):
        build_task(read_config(config(tmp_path, VECTORS, wrong))).train_loader(seed=0, workers=0)
    gone = taught.replace("/vectors", "/nothing")
    with pytest.raises(CheckpointError, match=r"problem.loss.teacher: .*nothing does not exist"):
        build_task(read_config(config(tmp_path, VECTORS, gone))).train_loader(seed=0, workers=0)


HEAD = "query\tfirst\tsecond\tlabel\twrong\n"
BAD = [
    ("q\ta0\t \tfits\tb\n", "positive: [fits]", r"t.tsv:2: its second text is empty"),
    ("q\ta0\ta1\t7\tb\n", "judged: scores", r"t.tsv:2: score 7 is not from 0 to 1; set problem.highest"),
    ("q\ta0\ta1\tgood\tb\n", "judged: scores", r"t.tsv:2: label 'good' is no number; say in problem.positive"),
    ("q\ta0\ta1\tgood\tb\n", "scores: {bad: 0.5}", r"t.tsv:2: label 'good' is not in problem.scores, which has bad"),
    ("q\ta0\ta1\tgood\tb\n", "positive: [fits]", r"no row of the file is labelled fits"),
    ("q\ta0\ta1\tfits\tb\nq\ta0\ta2\tfits\tb\n", "positive: [fits], hard: 1", r"no row has a negative"),
    ("q\ta0\ta1\t0\tb\n", "judged: groups", r"no query has rows that fit and rows that do not"),
    ("q\ta0\ta1\t1\tb\nq\ta0\ta2\t\tb\n", "judged: groups", r"t.tsv:3: its label is empty, and other rows have one"),
    ("q\ta0\ta1\tfits\tb\nq\ta0\ta2\t\tb\n", "positive: [fits]", r"t.tsv:3: its label is empty"),
    ("q\ta0\ta1\t1\tb\nq\ta2\ta1\t1\tb\n", "judged: corpus", r"there is one second text, or none that fits"),
    ("q\ta0\ta1\t1\tb\nq\ta2\ta3\t1\tb\n", "loss: {type: CoSENT}", r"all rows have the score 1, so none is higher"),
    ("q\ta0\ta1\t1\tb\nq\ta2\ta3\t1\tb\n", "judged: scores", r"all rows have the score 1, so none is higher"),
]


@pytest.mark.parametrize(("row", "options", "message"), BAD)
def test_bad_rows_are_one_error_with_file_and_line(tmp_path, row, options, message):
    dataset = write(tmp_path)
    (tmp_path / "t.tsv").write_text(HEAD + row)
    task = build_task(read_config(config(tmp_path, VECTORS, f"{{type: SentenceVectors, {options}}}", dataset)))
    with pytest.raises(DataError, match=message):
        task.train_loader(seed=0, workers=0)


def test_a_reranker_that_cannot_be_judged_is_told_before_it_is_trained(tmp_path):
    rows = [json.dumps({"a": f"a{i}", "b": f"b{i}", "no": [f"c{i}"]}) for i in range(6)]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    dataset = f"{{type: JsonLines, path: {tmp_path}/t.jsonl, text: a, pair: b, label: null, negatives: [no]}}"
    with pytest.raises(DataError, match=r"nothing is to be ranked; .*`negatives` are for training alone"):
        run(tmp_path, SCORER, "{type: Reranking, hard: 1}", dataset)
    assert not list(tmp_path.glob("run/*.safetensors"))


def test_labels_of_a_reranker_may_be_worth_something_each(tmp_path):
    figures = run(tmp_path, SCORER, "{type: Reranking, scores: {fits: 1.0, not: 0.0}, hard: 2}")
    assert figures["queries"] == 30


@pytest.mark.parametrize(
    ("model", "problem", "texts", "message"),
    [
        (SCORER, "{type: Reranking, positive: [fits]}", ["a0", " "], "the second text is empty"),
        (SCORER, "{type: Reranking, positive: [fits]}", ["", "a0"], "the first text is empty"),
        (VECTORS, "{type: SentenceVectors, positive: [fits]}", "\t ", "the text is empty"),
    ],
)
def test_an_empty_text_gets_no_score_and_no_vector(tmp_path, model, problem, texts, message):
    processor = build_task(read_config(config(tmp_path, model, problem))).processor()
    line = texts if isinstance(texts, str) else "\t".join(texts)
    for ask, value in ((processor.from_json, texts), (processor.inputs(line)[0][1], None)):
        with pytest.raises(DataError, match=message):
            ask() if value is None else ask(value)


def test_single_texts_and_negatives_for_another_problem_are_errors(tmp_path):
    dataset = write(tmp_path)
    single = dataset.replace("pair: second, ", "").replace("group: query", "label: null")
    task = build_task(read_config(config(tmp_path, VECTORS, "{type: SentenceVectors}", single)))
    with pytest.raises(DataError, match=r"t.tsv:2: has one text; SentenceVectors needs pairs"):
        task.train_loader(seed=0, workers=0)
    given = dataset.replace("group: query", "negatives: [wrong]")
    other = "{type: Classification, pair: true}"
    task = build_task(read_config(config(tmp_path, SCORER.replace("num_classes: 1", "num_classes: 2"), other, given)))
    with pytest.raises(DataError, match="has negatives, which Classification does not take"):
        task.train_loader(seed=0, workers=0)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("{type: SentenceVectors, hard: 65}", "hard is 65; it must be from 0 to 64"),
        ("{type: SentenceVectors, hard: 1, loss: {type: CoSENT}}", "hard is 1; CoSENT takes 0"),
        ("{type: SentenceVectors, size: 0}", "size is 0"),
        ("{type: SentenceVectors, positive: [a], scores: {a: 1.0}}", "does nothing beside 'positive'"),
        ("{type: SentenceVectors, scores: {a: 2.0}}", "each must be from 0 to highest, 1"),
        ("{type: SentenceVectors, loss: {type: MarginError, teacher: x}}", "hard is 0; MarginError takes 1 or more"),
        ("{type: SentenceVectors, size: 17, positive: [fits]}", "size is 17 but the model's vectors have 16 numbers"),
        (
            "{type: SentenceVectors, positive: [fits],"
            " loss: {type: Matryoshka, loss: {type: InBatchNegatives}, widths: [32]}}",
            "a width of Matryoshka is 32 but",
        ),
        ("{type: Reranking, hard: 0}", "hard is 0; Listwise takes 1 or more"),
    ],
)
def test_senseless_options_of_problems_are_refused(tmp_path, problem, message):
    with pytest.raises((ConfigError, AttributeValueError), match=message):
        run(tmp_path, VECTORS, problem)


def test_a_reranker_needs_one_number_a_pair(tmp_path):
    two = SCORER.replace("num_classes: 1", "num_classes: 2")
    with pytest.raises(ConfigError, match="the model gives 2 numbers a pair; set its num_classes to 1"):
        run(tmp_path, two, "{type: Reranking, positive: [fits]}")


def test_batches_by_tokens_count_the_negatives(tmp_path):
    path = config(tmp_path, VECTORS, "{type: SentenceVectors, positive: [fits], hard: 2}")
    task = build_task(read_config(path, ["data.train.tokens=120"]))
    batches = list(task.train_loader(seed=0, workers=0))
    assert sum(len(batch["groups"]) for batch in batches) == 30
    assert max(len(batch["ids"]) for batch in batches) <= 120
