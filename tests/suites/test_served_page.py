"""The page where a person tries models: it loads nothing, runs no text as code, and draws what every suite draws."""

import base64
import json
import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from suites.detection.processor import DetectionProcessor
from suites.engine.predict.bare import BareTensors
from suites.engine.predict.inference import Model
from suites.engine.predict.items import predict_items
from suites.engine.serving.models import Offer, Share
from suites.engine.serving.service import Settings
from suites.engine.serving.versions import Source
from suites.engine.serving.web.page import html
from suites.vision.augmentation.transforms import Normalize, ResizeKeepRatio
from suites.vision.pictures.images import decode_image, encode_image
from tests.browser import browser
from tests.suites.detection.test_views import bright
from tests.suites.engine.serving import toy
from tests.suites.engine.serving.web.test_server import ask, problem
from tests.suites.test_served_alike import labels, pictures, segmenter

EVIL = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>'"
SPOTS = DetectionProcessor([ResizeKeepRatio(96, 160), Normalize()], (EVIL,), 0.1, 32)
PARTS = segmenter(None)


def picture_model(processor, network):
    return Model(processor, ("images",), network, lambda: network)


def named(name, *models):
    shares = [Share(Source.of_model(model), 1 / len(models)) for model in models]
    for share, label in zip(shares, "ab" if len(models) > 1 else [""], strict=False):
        share.source.label = label
    return Offer(name, tuple(shares))


@pytest.fixture
def offers(tmp_path):
    words = toy.model(tmp_path / "words")
    return [
        named(f"spots {EVIL}", picture_model(SPOTS, bright)),
        named("parts", picture_model(PARTS, labels)),
        named("words", words, words),
        named("bare", Model(BareTensors("some.onnx"), ("x",), lambda arrays: arrays, lambda: None)),
    ]


@pytest.mark.parametrize(("processor", "network"), [(SPOTS, bright), (PARTS, labels)])
@pytest.mark.parametrize("readers", [0, 2])
def test_a_picture_comes_back_as_infer_draws_it(processor, network, readers):
    (item,) = pictures()[:1]
    (result,) = predict_items(processor, ("images",), network, [item])
    value = base64.b64encode(encode_image(item)).decode()
    with toy.running(picture_model(processor, network), Settings(readers=readers)) as server:
        row = json.loads(ask(server, "/v1/scores", {"input": value, "draw": True})[2])["data"][0]
        assert "drawing" not in json.loads(ask(server, "/v1/scores", {"input": value})[2])["data"][0]
        status, error = problem(server, "/v1/scores", {"input": [value, "no picture"], "draw": True})
    assert row["result"] == processor.served(result) and row["drawing"]["type"] == "image/jpeg"
    drawn = decode_image(base64.b64decode(row["drawing"]["data"]), "drawn")
    expected = processor.draw(item, result)
    assert drawn.shape == expected.shape
    assert np.abs(drawn.astype(int) - expected).mean() < 6  # JPEG's loss
    assert status == 400 and error.startswith("item 1: ")


def test_a_text_comes_back_as_infer_tells_it(tmp_path):
    with toy.running(toy.model(tmp_path)) as server:
        rows = json.loads(ask(server, "/v1/scores", {"input": ["a b", EVIL], "draw": True})[2])["data"]
    for row, text in zip(rows, ["a b", EVIL], strict=True):
        assert row["drawing"] == {"type": "text/plain", "data": f"{text}: {row['result']['label']}"}


def test_the_page_loads_nothing_and_its_policy_allows_its_own_script_and_style_alone(offers):
    with toy.running(offers) as server:
        status, headers, data = ask(server, "/")
        described = json.loads(ask(server, "/page/models")[2])
    text, policy = html()
    assert status == 200 and data.decode() == text and headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Content-Security-Policy"] == policy
    assert "unsafe" not in policy and policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "frame-ancestors 'none'" in policy and headers["X-Content-Type-Options"] == "nosniff"
    assert not re.findall(r"(?:https?:)?//[a-z]", text.replace("// ", ""))  # no address of another server
    assert not re.search(r"\s(?:on[a-z]+|style)=", text.split("<script>")[0])  # which the policy would stop
    assert len(text) < 40_000
    assert [row["name"] for row in described] == [f"spots {EVIL}", "parts", "words", "bare"]
    assert EVIL not in text and described[2]["versions"] == ["a", "b"] and described[3]["bare"] == []
    assert ".jpg" in described[0]["files"] and described[2]["example"] == "an example"


def test_the_script_makes_html_of_no_text():
    script = html()[0].split("<script>")[1]
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|setAttribute\(\"on", script
    )


def test_every_field_of_the_page_has_a_label_and_every_part_a_name():
    text = html()[0]
    for field in re.findall(r'<(?:input|select|textarea) id="([^"]+)"', text):
        assert f'for="{field}"' in text
    for name in re.findall(r'aria-(?:labelledby|controls)="([^"]+)"', text):
        assert f'id="{name}"' in text
    assert '<html lang="en">' in text and 'role="alert"' in text and "aria-live" in text


def test_a_guarded_page_is_open_and_tells_nothing_before_the_token_is_shown(offers):
    with toy.running(offers, token="secret") as server:
        assert ask(server, "/")[0] == 200
        assert ask(server, "/page/models")[0] == 401
        assert ask(server, "/page/models", headers={"Authorization": "Bearer secret"})[0] == 200


@pytest.fixture(scope="module")
def window():
    with browser() as found:
        yield found


def opened(window, server, width, model):
    window.open(f"{server.url}/", width, 900)
    window.until(lambda: window.text("#state") == "4 models")
    pick(window, model)


def pick(window, model):
    script = "const s = document.getElementById('model'); s.value = arguments[0]; s.dispatchEvent(new Event('change'));"
    window.run(script, model)


def answered(window):
    return window.until(lambda: "answered in" in window.text("#state") and window.text("#answers"))


def fits(window, width):
    return window.run("return document.documentElement.scrollWidth") <= width


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 1600])
def test_a_person_drops_a_picture_and_sees_it_drawn(offers, window, tmp_path, width):
    file = tmp_path / "<b>evil<b> & ' picture.png"
    file.write_bytes(encode_image(pictures()[0]))
    with toy.running(offers) as server:
        for model in (f"spots {EVIL}", "parts"):
            opened(window, server, width, model)
            window.type("#file", str(file))
            assert file.name in answered(window)
            size = window.run(
                "const i = document.querySelector('#answers img'); return [i.naturalWidth, i.width, i.alt]"
            )
            assert size[0] >= 96 and 0 < size[1] <= width and file.name in size[2]
            assert fits(window, width)
            for tab, words in (("curl", "base64 -w0"), ("python", "urllib.request"), ("javascript", "await fetch(")):
                window.click(f"#tab-{tab}")
                assert words in window.text("#code")
                if tab != "javascript":
                    shell = ["bash", "-c"] if tab == "curl" else [sys.executable, "-c"]
                    done = subprocess.run([*shell, window.text("#code")], cwd=tmp_path, capture_output=True, check=True)
                    assert (b'"data":[' if tab == "curl" else b"'data': [") in done.stdout, done
        assert window.run("return document.title") == "Paddock" and window.log() == []
        assert window.run("return document.querySelectorAll('article img, article script, article b').length") == 1
        loaded = window.run("return performance.getEntriesByType('resource').map((each) => each.name)")
        assert loaded and all(name.startswith((server.url, "data:")) for name in loaded)


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 1600])
def test_a_person_types_a_text_or_drops_texts_and_reads_the_answers(offers, window, tmp_path, width):
    lines = tmp_path / "lines.txt"
    lines.write_text("one\n\ntwo words\n")
    with toy.running(offers) as server:
        opened(window, server, width, "words")
        window.run("document.getElementById('text').value = ''")
        window.type("#text", EVIL)
        window.click("#ask")
        assert EVIL in answered(window)
        window.type("#file", str(lines))
        window.until(lambda: "lines.txt, 2" in window.text("#answers"))
        assert "two words: " in window.text("#answers") and fits(window, width)
        window.run("const v = document.getElementById('version'); v.value = 'b'; v.dispatchEvent(new Event('change'))")
        window.click("#ask")
        window.until(lambda: window.text("#state").startswith("words@b answered"))
        code = window.text("#code")
        done = subprocess.run(["bash", "-c", code], capture_output=True, check=True)
        assert json.loads(done.stdout)["model"] == "words@b"
        window.run("document.getElementById('text').value = ''")
        window.click("#ask")
        window.until(lambda: "the text is empty" in window.text("#problem"))
        pick(window, "bare")
        assert "/v2/models/bare" in window.text("#takes")
        assert window.run("return document.title") == "Paddock"


@pytest.mark.slow
def test_the_page_asks_for_the_token_and_can_be_used_by_keyboard(offers, window):
    with toy.running(offers, token="secret") as server:
        window.open(f"{server.url}/", 1600, 900)
        window.until(lambda: "wants its token" in window.text("#state"))
        window.type("#token", "secret\ue007")  # and Enter
        window.until(lambda: window.text("#state") == "4 models")
        pick(window, "words")
        window.type("#text", " more\ue009\ue007")  # Ctrl and Enter
        assert "an example more" in answered(window)
        assert "Bearer TOKEN" in window.text("#code") and "secret" not in window.text("#code")
        window.run("document.getElementById('tab-curl').focus()")
        window.type("#tab-curl", "\ue014")  # to the right
        assert window.run("return document.activeElement.id") == "tab-python" and "urllib" in window.text("#code")
