"""The demo trains, publishes and serves at once, shows its figures, says which part died, and leaves no process."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from framework.errors import AttributeValueError, ConfigError, DataError
from suites.ctr.demo.plan import Plan
from suites.ctr.demo.show import show
from suites.ctr.demo.sources import Drawn, Replayed

SOON = 90.0  # seconds; some suffice where nothing else runs


class Demo:
    """The command, with small spans and frequent publications."""

    def __init__(self, folder):
        pytest.importorskip("fastapi", reason="the extra serve is not installed")
        self.folder = folder
        words = f"--port 0 --seconds {SOON} --rows 1024 --every 0.25 --publish 0.4 --folder {folder}".split()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "suites.ctr.demo", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.host = re.search(r"http://(\S+);", self.process.stdout.readline())[1]

    def get(self, path):
        connection = http.client.HTTPConnection(self.host, timeout=10)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def wait(self, enough):
        """Points of figures, once `enough` of them."""
        until = time.monotonic() + SOON
        while time.monotonic() < until:
            points = json.loads(self.get("/figures")[1])["points"]
            if enough(points):
                return points
            time.sleep(0.2)
        raise AssertionError(f"not within {SOON} s: {points[-1]}")

    def end(self):
        """Status and what was said, after the process's end."""
        out, err = self.process.communicate(timeout=SOON)
        return self.process.returncode, out, err

    def children(self):
        """Numbers of its child processes by name."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().decode().split("\0")
            except OSError:  # it has just ended
                continue
            if str(self.folder) in words and "suites.ctr.demo.children" in words:
                found[words[words.index(str(self.folder)) - 1]] = int(path.parent.name)
        return found


@pytest.fixture
def demo(tmp_path):
    started = Demo(tmp_path / "demo")
    yield started
    started.process.kill()
    started.process.wait()


def versions(points):
    return [p["version"] for p in points if p["version"]]


def served(points):
    return len(set(versions(points))) > 2 and points[-1].get("served_auc") is not None


def test_figures_appear_versions_advance_and_ctrl_c_leaves_no_process(demo):
    points = demo.wait(served)
    last = points[-1]
    assert set(demo.children()) == {"log", "training", "serving"}
    for name in ("auc", "table", "stale", "behind", "trained", "lookups", "requests", "p50", "p99"):
        assert last[name] is not None and last[name] >= 0, name
    assert last["table"] > 1000 and last["p99"] >= last["p50"] > 0 and last["lookups"] > 0 and last["failed"] == 0
    assert min(p["stale"] for p in points if p["version"]) < 5
    status, page = demo.get("/")
    assert (
        status == 200 and "<svg" not in page and not re.search(r'(src|href)="(?!data:)', page)
    )  # nothing from outside
    assert demo.get("/nothing")[0] == 404
    demo.process.send_signal(signal.SIGINT)
    status, _, err = demo.end()
    assert status == 130 and "Traceback" not in err
    assert not demo.children()
    assert len(json.loads((demo.folder / "figures.json").read_text())["points"]) >= len(points)


def test_a_part_that_dies_is_named_and_takes_the_others_along(demo):
    demo.wait(lambda points: versions(points) != [])
    os.kill(demo.children()["training"], signal.SIGKILL)
    status, _, err = demo.end()
    assert status == 2 and "training ended with signal SIGKILL; the end of" in err and "training.log" in err
    assert not demo.children()


def test_children_end_with_a_command_that_is_killed(demo):
    demo.wait(lambda points: points[-1:] and points[-1]["table"])
    demo.process.kill()
    until = time.monotonic() + 30
    while demo.children() and time.monotonic() < until:
        time.sleep(0.1)
    assert not demo.children()


@pytest.mark.slow
def test_the_page_in_a_real_browser(demo, tmp_path):
    browser = shutil.which(os.environ.get("CHROMIUM", "chromium"))
    if browser is None:
        pytest.skip("the package chromium is not installed")
    demo.wait(served)
    words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000", "--dump-dom"]
    done = subprocess.run(
        [browser, *words, f"--user-data-dir={tmp_path / 'browser'}", f"http://{demo.host}/"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    dom = done.stdout
    assert "drawn log; trains, publishes and serves" in dom, done.stderr
    assert re.search(r'<code id="version">[0-9a-f]{32}<', dom)
    shown = re.findall(r'<span class="now (\w+)"[^>]*>([^<]*)<', dom)
    assert len(shown) == 10 and all(re.match(r"[\d.,]+", text) for _, text in shown), shown
    drawn = re.findall(r'<path d="(M[^"]+)" stroke="#(?:1667c1|d2691e)"', dom)
    assert len(drawn) == 10 and all("NaN" not in path for path in drawn)


def test_a_drawn_span_depends_on_its_number_and_holds_back_what_is_asked():
    one, other = Drawn().part(3, 1024, 50), Drawn().part(3, 1024, 50)
    assert one == other != Drawn().part(4, 1024, 50)
    assert one.text.count(b"\n") == 1024 and len(one.asked) == len(one.labels) == 50
    assert set(one.asked[0]) == {f"f{i}" for i in range(8)} and set(one.labels) == {0, 1}
    whole = Drawn().part(3, 1074, 0).text.splitlines()
    assert [int(line[:1]) for line in whole[1024:]] == one.labels
    with pytest.raises(DataError, match="65536 rows a span"):
        Drawn().part(0, 65536, 1)


def test_a_real_piece_comes_again_with_values_that_change(tmp_path):
    (tmp_path / "criteo_small").mkdir()
    with zipfile.ZipFile(tmp_path / "criteo_small" / "criteo_small.zip", "w") as archive:
        for name, letter in (("train.tsv", "a"), ("dev.tsv", "b")):
            rows = [[str(i % 2), *["7"] * 13, *[f"{letter}{i}"] * 25, ""] for i in range(40)]
            archive.writestr(name, "".join("\t".join(row) + "\n" for row in rows))
    source = Replayed("criteo", tmp_path, drift=0.1)
    early, later = (source.part(number, 512, 30) for number in (0, 5))
    assert early.text.count(b"\n") == 512 and b"~" not in early.text and b"b" not in early.text
    cells = [cell for line in later.text.decode().splitlines() for cell in line.split("\t")[14:39]]
    assert 0.4 < sum(cell.endswith("~1") for cell in cells) / len(cells) < 0.6  # half of them after 5 of 10 spans
    assert all(line.split(b"\t")[1] == b"7" and line.endswith(b"\t") for line in later.text.splitlines())
    row = early.asked[0]
    assert "label" not in row and row["C1"].startswith("b") and early.labels[0] == int(row["C1"][1:]) % 2


def test_what_cannot_be_done_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(AttributeValueError, match="rows is 1000; it must be a multiple of 512"):
        Plan("x", rows=1000)
    with pytest.raises(AttributeValueError, match="must be above 0"):
        Plan("x", publish=0)
    with pytest.raises(DataError, match=r"avazu_small\.zip: cannot be read .* use --log drawn"):
        show(Plan(str(tmp_path / "x"), log="avazu", data=str(tmp_path)), 1, 0, print)
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(ConfigError, match="holds something other than an earlier demo"):
        show(Plan(str(tmp_path)), 1, 0, print)
    assert (tmp_path / "mine").read_text() == "precious"
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConfigError, match="give another with --port"):
        show(Plan(str(tmp_path / "x")), 1, taken.getsockname()[1], print)
