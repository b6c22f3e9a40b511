"""A run keeps every figure and shows itself: one page, no network, every word escaped, other runs beside it."""

import html
import json
import os
import re
import shutil
import subprocess
from collections import Counter

import cv2
import numpy as np
import pytest

from framework.errors import CheckpointError, DataError
from suites.engine.cli import report
from suites.engine.reporting import Bars, Case, Curves, Matrix, Tally
from suites.engine.reporting.cases import draw_cases
from suites.engine.reporting.lines import append, read_lines, withdraw
from suites.engine.reporting.page import write_page
from suites.engine.reporting.plots import from_plain, svg, to_plain
from suites.engine.reporting.tally import size_of_bin, write_tally
from suites.engine.train.training import evaluate_weights, train
from suites.vision.pictures.images import encode_image, read_image
from tests.suites.segmentation.test_task import CONFIG, config_file, root  # noqa: F401  (fixtures)

pytestmark = pytest.mark.pages


@pytest.fixture(scope="module")
def trained(root, tmp_path_factory):  # noqa: F811
    """A run of a few steps, which no test may change."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "config.yml").write_text(CONFIG.replace("ROOT", str(root)))
    settings = ["runtime.steps=6", "runtime.log_every=2", "runtime.evaluation.every=3", "runtime.evaluation.unit=steps"]
    train(folder / "config.yml", settings, runs=folder, name="first")
    return folder / "first"


@pytest.fixture
def run(trained, tmp_path):
    """A copy of it."""
    return shutil.copytree(trained, tmp_path / "first")


def test_every_logged_step_and_evaluation_has_a_line(run):
    lines = read_lines(run / "metrics.jsonl")
    assert [line["step"] for line in lines if "loss" in line] == [2, 4, 6]
    assert [line["step"] for line in lines if "figures" in line] == [3, 6]
    last = json.loads((run / "metrics.json").read_text())
    assert [line for line in lines if "figures" in line][-1]["figures"]["mIoU"] == last["mIoU"]
    step = lines[0]
    assert step["loss"] == pytest.approx(sum(step["losses"].values())) and step["seconds"] >= step["wait"] >= 0


def test_a_page_stands_alone_and_holds_curves_pictures_and_config(run):
    text = (run / "report.html").read_text()
    assert len(text) < 4 << 20
    for word in ("<h1>first</h1>", "mIoU", "Pixels, % of each true class", "6 steps", "num_classes"):
        assert word in text, word
    assert text.count("<svg") >= 6 and text.count('src="data:image/jpeg;base64,') >= 2
    assert "<h2>Worst images</h2>" in text and re.search(r"<figcaption>[^<]*: mIoU 0\.\d+", text)
    outside = re.findall(r"(?:src|href)=\"(?!data:|#)[^\"]*", text)
    assert not outside and "<script" not in text and "default-src 'none'" in text


def test_runs_stand_beside_each_other(run, config_file, tmp_path, capsys):  # noqa: F811
    train(config_file, ["runtime.steps=2", "runtime.log_every=1"], runs=tmp_path, name="second & <b>")
    other = tmp_path / "second & <b>"
    assert report.main([str(run), str(other), "--output", str(tmp_path / "both.html")]) == 0
    text = (tmp_path / "both.html").read_text()
    assert "<h2>Beside each other</h2>" in text and "second &amp; &lt;b&gt;" in text and "<b>" not in text
    assert str(tmp_path / "both.html") in capsys.readouterr().out
    assert report.main([str(tmp_path / "nowhere")]) == 2
    assert "is no run" in capsys.readouterr().err


def test_figures_of_a_later_evaluation_are_shown_by_the_next_report(run):
    (run / "plots.json").unlink()
    evaluate_weights(run)
    assert json.loads((run / "plots.json").read_text())[""][0]["kind"] == "matrix"


def test_a_resumed_run_withdraws_what_was_written_beyond_its_checkpoint(tmp_path):
    path = tmp_path / "lines.jsonl"
    for step in (1, 2, 3, 4):
        append(path, {"step": step})
    with path.open("a") as file:
        file.write('{"step": 5, "lo')  # killed while it wrote
    assert [line["step"] for line in read_lines(path)] == [1, 2, 3, 4]
    withdraw(path, 2)
    append(path, {"step": 3, "again": True})
    assert read_lines(path) == [{"step": 1}, {"step": 2}, {"step": 3, "again": True}]


def test_a_resumed_runs_lines_are_those_of_one_that_was_not_stopped(config_file, tmp_path):  # noqa: F811
    settings = ["runtime.steps=4", "runtime.log_every=1", "runtime.checkpoint.every=2"]
    train(config_file, settings, runs=tmp_path, name="whole")
    train(config_file, settings, runs=tmp_path, name="cut")
    run = tmp_path / "cut"
    for path in (run / "weights").glob("*4*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    train(run, settings, resume=True)
    own, other = (read_lines(tmp_path / name / "metrics.jsonl") for name in ("whole", "cut"))
    assert [(line["step"], line.get("loss")) for line in own] == [(line["step"], line.get("loss")) for line in other]


_BARS = '{"": [{"kind": "bars", "title": 1, "x": "", "names": [], "counts": {}}]}'


@pytest.mark.parametrize(
    "spoil", ["{", "[]", '{"": [{"kind": "pie"}]}', '{"": [{"kind": "matrix"}]}', '{"": 7}', _BARS]
)
def test_damaged_plots_cost_their_part_of_the_page_and_say_so(run, spoil):
    (run / "plots.json").write_text(spoil)
    text = write_page([run], run / "page.html").read_text()
    assert len(re.findall(r'<p class="note">plots\.json[^<]*`paddock eval` writes it anew', text)) == 1
    assert "Worst images" in text and "Pixels, %" not in text


def test_every_damaged_or_huge_file_costs_its_part_and_says_so(run):
    (run / "data.json").write_text('{"eval": {"names": 3}}')
    (run / "metrics.json").write_bytes(b"\xff\x00{")
    with (run / "environment.json").open("wb") as file:
        file.truncate(20 << 20)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9, "loss": "<b>", "losses": [1], "lr": 1e999}\n{"step": 10, "figures": 3}\n')
        file.write("[" * 99_999)
    (run / "pictures/worst/cases.json").write_text('{"parts": [{"title": "x"}]}')
    (run / "pictures/zz.jpg").write_bytes(b"no picture")
    text = write_page([run], run / "page.html").read_text()
    notes = "\n".join(re.findall(r'<p class="note">([^<]*)', text))
    for word in ("data.json: &#x27;eval&#x27; is not shown", "metrics.json is damaged", "environment.json has 20 MiB",
                 "metrics.jsonl: 2 lines are damaged", "cases.json holds no cases", "zz.jpg is not shown"):  # fmt: skip
        assert word in notes, (word, notes)
    assert "Pixels, %" in text and "<b>" not in text


def test_pages_of_older_runs_lack_what_they_did_not_write(run):
    shutil.rmtree(run / "pictures/worst")
    (run / "pictures/worst").mkdir()
    picture = next((run / "pictures").glob("*.jpg"))
    shutil.copy(picture, run / "pictures/worst/00_a.jpg")
    (run / "pictures/worst/worst.json").write_text('{"00_a.jpg": "mIoU 0.1"}')
    for name in ("data.json", "plots.json", "metrics.jsonl"):
        (run / name).unlink()
    text = write_page([run], run / "page.html").read_text()
    assert "00_a.jpg: mIoU 0.1" in text and "<h2>Data" not in text and 'class="note"' not in text


def test_pictures_have_a_budget_and_stay_few(run):
    noise = np.random.default_rng(0).integers(0, 256, (1500, 1500, 3), np.uint8)
    for i in range(40):
        cv2.imwrite(str(run / f"pictures/noise{i:02}.jpg"), np.roll(noise, i, axis=0))
    wide = [{"name": f"w{i}", "picture": f"w{i}.jpg", "why": ""} for i in range(30)]
    for case in wide:
        cv2.imwrite(str(run / "pictures/worst" / case["picture"]), noise[:500])
    (run / "pictures/worst/cases.json").write_text(json.dumps({"parts": [{"title": "Wide", "cases": wide}] * 4}))
    text = write_page([run], run / "page.html").read_text()
    assert len(text) < 4 << 20 and "pictures are not shown, so that the page stays small" in text
    assert 10 <= text.count("<img") <= 5 * 12


def test_texts_of_cases_are_escaped_and_marked(run):
    text = '<script>alert(1)</script>" onload=x &amp; \x00\x1b'
    case = {"name": "<i>a:3", "why": "</p>b", "text": [[text, ""], ["wrong <u>", "wrong"], ["odd", '"><script>'], 7]}
    (run / "pictures/worst/cases.json").write_text(json.dumps({"parts": [{"title": "<s>T", "cases": [case]}]}))
    page = write_page([run], run / "page.html").read_text()
    assert "<script" not in page and "<u>" not in page and "<s>" not in page and "<i>" not in page
    assert '<mark class="wrong">wrong &lt;u&gt;</mark>' in page and "&lt;script&gt;alert(1)" in page
    assert "\x00" not in page and "\x1b" not in page


def test_cases_are_replaced_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    class Shows:
        def __init__(self, title):
            self.title = title

        def worst(self, count):
            return {self.title: [Case(i, f"why {i}") for i in range(5)]}

        def show_case(self, case, predict):
            if case.index == 1:
                raise DataError("gone")
            return f"s{case.index}.png", np.full((8, 8, 3), 40 * case.index + len(self.title), np.uint8)

        def processor(self):
            return self

        def picture(self, drawing, ending):
            return encode_image(drawing, ending)

    task = Shows("one")
    draw_cases(task, None, tmp_path, task, 3)
    before = json.loads((tmp_path / "cases.json").read_text())
    assert [case["why"] for case in before["parts"][0]["cases"]] == ["why 0", "why 2"]
    with monkeypatch.context() as patch:
        patch.setattr("suites.engine.reporting.cases.write_text", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            draw_cases(Shows("another"), None, tmp_path, Shows("another"), 4)
    assert json.loads((tmp_path / "cases.json").read_text()) == before
    assert all((tmp_path / case["picture"]).is_file() for case in before["parts"][0]["cases"])
    draw_cases(Shows("another"), None, tmp_path, Shows("another"), 5)
    after = json.loads((tmp_path / "cases.json").read_text())["parts"][0]["cases"]
    assert {path.name for path in tmp_path.glob("*.jpg")} == {case["picture"] for case in after} and len(after) == 4


def test_what_the_data_held_stands_beside_each_other_with_its_samples(run):
    held = json.loads((run / "data.json").read_text())
    train, tested = held["train"]["names"]["pixels by class"], held["eval"]["names"]["pixels by class"]
    assert train[0] > 0 and train[1] is False and sum(tested[2].values()) > 0
    tally = Tally()
    tally.skip("<a>.jpg", "damaged & gone", 3)
    for i in range(100):
        tally.skip(f"f{i}", "x" * 5000)
    tally.merge(held["eval"])
    assert tally.skipped == 103 and len(tally.reasons) == 50 and len(json.dumps(tally.state())) < 40_000
    write_tally(run, "eval", tally)
    text = write_page([run], run / "page.html").read_text()
    assert f"that were read, the {tested[0]} samples of eval that were read" in text and "of train" in text
    assert "<h3>Left out or changed of eval: 103, the first 25 reasons</h3>" in text and "&lt;a&gt;.jpg" in text


def test_tallies_of_parts_add_up_to_that_of_the_whole():
    sizes = np.random.default_rng(0).uniform(0, 5000, 100)
    whole, parts = Tally(), [Tally(), Tally()]
    whole.measure("side", sizes, 100)
    whole.add("class", {"a": 3, "b": 4}, 100)
    for part, own, name in zip(parts, (sizes[:30], sizes[30:]), "ab", strict=True):
        part.measure("side", own, len(own))
        part.add("class", {name: 3 + (name == "b")}, len(own))
    parts[0].merge(json.loads(json.dumps(parts[1].state())))
    assert parts[0].state() == whole.state()
    bins = {int(at): count for at, count in whole.sizes["side"].counts.items()}
    starts = [size_of_bin(at) for at in range(40)]
    expected = Counter(int(np.searchsorted(starts, max(v, 1.0), "right")) - 1 for v in sizes)
    assert bins == expected
    with pytest.raises(CheckpointError, match="holds no tally"):
        Tally().merge({"names": {"a": [1, True, {"x": "many"}]}, "sizes": {}, "skipped": 0, "reasons": []})


def test_a_run_that_logged_nothing_has_a_page_that_says_so(run, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    shutil.copy(run / "config.yml", empty)
    text = write_page([empty], empty / "report.html").read_text()
    assert "No step has been logged yet" in text and "Nothing has been evaluated yet" in text


def test_plots_are_the_same_bytes_and_come_back_from_plain_data():
    curves = Curves("a <b> $x$ & c", "x", "y", {"one": ([1, 2, 3], [1.0, None, 2.0]), "two": ([1], [5.0])})
    matrix = Matrix("m", ["cat & <dog>", "b"], [[3, 1], [0, 0]])
    bars = Bars("<b>", "<dog> &", ["1", "2"], {"train": [1, 3], "eval": [0, 0]})
    for plot in (curves, matrix, bars):
        again = from_plain(json.loads(json.dumps(to_plain(plot))))
        assert svg(again) == svg(plot)
        text = svg(plot)
        assert text.startswith("<svg") and "<b>" not in text and "<dog>" not in text and "&lt;" in text
    large = Matrix("m", [str(i) for i in range(100)], np.eye(100, dtype=int).tolist())
    assert len(svg(large)) < 400_000


_MEASURE = """<iframe id="f" src="page.html" style="border:0" width="WIDTH" height="3000"></iframe><p id="out"></p>
<script>addEventListener("load", () => { const d = f.contentDocument, w = f.contentWindow;
  const images = [...d.images];
  out.textContent = JSON.stringify({
    wide: d.documentElement.scrollWidth, width: w.innerWidth, images: images.length,
    broken: images.filter(i => !i.complete || !i.naturalWidth).length,
    narrow: [...d.querySelectorAll("figure")].filter(e => e.getBoundingClientRect().width < 100).length,
    outside: w.performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith("data:")),
    titles: [...d.querySelectorAll("h2")].map(e => e.textContent), tables: d.querySelectorAll("table").length,
    marks: [...d.querySelectorAll("mark")].map(e => w.getComputedStyle(e).backgroundColor),
    scripts: d.scripts.length }); });</script>"""


def _with_every_part(run):
    """A run whose page has all parts: pictures, a strip, marked texts, plots, counts, what was left out, a note."""
    strip = np.random.default_rng(0).integers(0, 256, (160, 1600, 3), np.uint8)
    cv2.imwrite(str(run / "pictures/worst/strip.jpg"), strip)
    long = "a" * 400 + " <script>document.title = 'x'</script> " + "word " * 100
    cases = [
        {"name": "n" * 200, "why": "w", "picture": "strip.jpg"},
        {"name": "t:1", "why": "y" * 300, "text": [[long, ""], ["bad", "wrong"], ["good", "right"]]},
    ]
    kept = json.loads((run / "pictures/worst/cases.json").read_text())
    kept["parts"].append({"title": "Most confident mistakes", "cases": cases})
    (run / "pictures/worst/cases.json").write_text(json.dumps(kept))
    tally = Tally()
    tally.add("objects", {f"class {'x' * 40} {i}": 10**9 + i for i in range(100)}, 5, whole=True)
    tally.measure("side", np.arange(1, 500), 5, whole=True)
    tally.skip("/a" * 120, "damaged " * 20, 3)
    write_tally(run, "eval more", tally)
    (run / "environment.json").write_text("{}" * (9 << 20))


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 1600])
def test_the_page_in_a_real_browser(run, tmp_path, width):
    browser = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    if browser is None:
        pytest.skip("the package chromium is not installed")
    _with_every_part(run)
    other = shutil.copytree(run, tmp_path / "other")
    write_page([run, other], tmp_path / "page.html")
    (tmp_path / "measure.html").write_text(_MEASURE.replace("WIDTH", str(width)))
    words = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
             "--enable-logging=stderr", f"--user-data-dir={tmp_path / 'b'}"]  # fmt: skip

    def look(*more, page):
        address = (tmp_path / page).resolve().as_uri()
        done = subprocess.run([*words, *more, address], capture_output=True, text=True, timeout=90)
        assert "CONSOLE" not in done.stderr, done.stderr
        return done.stdout

    found = look("--dump-dom", "--allow-file-access-from-files", "--window-size=1800,3200", page="measure.html")
    seen = json.loads(html.unescape(re.search(r'<p id="out">([^<]*)', found)[1]))
    assert seen["images"] >= 6 and not seen["broken"] and not seen["outside"] and not seen["scripts"]
    assert seen["wide"] <= seen["width"] == width  # nothing sticks out: wide tables scroll by themselves
    assert not seen["narrow"] and seen["tables"] >= 6 and len(set(seen["marks"])) == 2
    assert {"Beside each other", "Worst images of first", "Most confident mistakes of other", "Data of other"} <= set(
        seen["titles"]
    )
    picture = tmp_path / "shot.png"
    look(f"--window-size={width},2400", f"--screenshot={picture}", page="page.html")
    shot = read_image(picture)
    assert shot.shape[1] >= width and shot.std() > 5
