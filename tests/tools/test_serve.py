"""tools/serve.py as a process: it says where it serves, answers, and ends with the right status."""

import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra serve is not installed")

from suites.engine.cli.serve import _WRITING, options
from suites.engine.serving.client import Client
from tests.suites.engine.serving import toy
from tests.waiting import until
from tools import serve

ROOT = Path(__file__).parents[2]
MAIN = """
import signal, sys, tests.suites.engine.serving.toy
from tools import serve
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
sys.exit(serve.main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return toy.export(tmp_path_factory.mktemp("tool") / "words")


@pytest.fixture
def process(exported):
    words = [exported, "--port", "0", "--workers", "2", "--threads", "1", "--max-wait-ms", "1"]
    command = [sys.executable, "-c", MAIN, *map(str, words)]
    found = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield found
    found.kill()
    found.communicate()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_it_after_the_last_answer(process, number, status, tmp_path):
    line = process.stdout.readline()
    assert line.startswith("serving words at http://127.0.0.1:")
    url = line.split()[3]
    answers, held = [], toy.Hold(tmp_path)
    with Client(url, retries=0) as client:
        np.testing.assert_allclose(client.encode(["a b"])[0], toy.vector("a b"), rtol=1e-6)
        slow = threading.Thread(target=lambda: answers.append(client.score([held.text])))
        slow.start()
        until(held.begun)
        process.send_signal(number)
        held.release()
        slow.join(60)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, len(answers[0])) == (status, 1)
    assert "Traceback" not in errors


def test_help_tells_defaults_that_say_something_and_no_others():
    text = options("paddock serve").format_help()
    assert "(default: 8080)" in text and "(default: None)" not in text and "(default: [])" not in text


def test_the_documentation_names_what_is_there():
    pages = ("serving.md", "serving_models.md")
    text = "".join((ROOT / "docs" / "howto" / page).read_text() for page in pages)
    known = {word for action in options()._actions for word in action.option_strings}
    known |= {"--output", "--alone", "--layer", "--pooling", "--normalize", "--max-length"}  # of paddock embedder
    known |= {"--cacert", "--minutes", "--limit", "--format"}  # of others, or of all commands
    known |= {"--rounds", "--new-tokens", "--seconds"}  # of benchmarks
    assert set(re.findall(r"--[a-z][a-z-]+", text)) <= known


def test_options_of_writing_are_all_refused_for_other_models():
    group = next(group for group in options()._action_groups if "written" in (group.title or ""))
    assert {action.dest for action in group._group_actions} == set(_WRITING)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere: there is no such folder, and no published weights have that name"),
        (["/tmp"], "/tmp: neither a run (config.yml) nor an exported model"),
        (["--max-items", "9999"], "raise max_queue or lower max_items"),
        (["--max-tokens", "0"], "max_cost is 0"),
        (["--host", "256.1.1.1"], "error: "),
        (["--token-file", "/nowhere"], "/nowhere: the token cannot be read"),
        (["--token-file", __file__], "a token is one word of ASCII"),
        (["words="], "words=: it is NAME=FOLDER"),
        (["a/b=nowhere"], "a/b=nowhere: it is NAME=FOLDER, and a name has none of / @ ,"),
        (["b=nowhere"], "nowhere: there is no such folder"),
        (["words=."], "'words' is the name of two models"),
        (["b=x@0.5,y"], "b=x@0.5,y: it is NAME=FOLDER@SHARE,FOLDER@SHARE"),
        (["b=x@0.5,y@0.4"], "b: its shares are 0.5 + 0.4; together they must be 1"),
        (["b=x/m@0.5,y/m@0.5"], "b: two of its folders have one name (m, m)"),
        (["x@0.5,y@0.5"], "x@0.5,y@0.5: models that share requests need a name"),
        (["b=x", "--name", "c"], "--name, --weights and --with are of one model"),
        (["b=x", "--with", "c"], "--name, --weights and --with are of one model"),
        (["one=x", "--name", "c"], "serve: one=x has a name, and --name says c; leave one of them out"),
        (["--memory-mb", "0.001"], "words@1: needs 0.0 MB (weights of 0.0 MB, by its files); of the 0.0 MB"),
        (["--memory-mb", "-1"], "--memory-mb is -1; it is above 0"),
        (["--eight-bits", "--cache-mb", "9"], "serve: --cache-mb, --eight-bits: of models that write texts, which "),
    ],
)
def test_what_cannot_be_served_is_one_line(exported, capsys, words, message):
    model = [] if words[0] in ("nowhere", "/tmp", "one=x") else [str(exported)]
    assert serve.main([*model, *words, "--port", "0"]) == 2
    error = capsys.readouterr().err
    assert message in error and error.startswith("error: ") and error.count("\n") == 1


def test_models_are_served_by_name_with_shares_and_versions(exported, tmp_path):
    for number in (1, 2):
        toy.export(tmp_path / "many" / str(number))
    shared = f"shared={toy.export(tmp_path / 'old')}@0.9,{toy.export(tmp_path / 'new')}@0.1"
    words = [exported, f"other={exported}", f"many={tmp_path / 'many'}", shared, "--port", "0", "--threads", "1"]
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("serving words, other, many, shared at http://127.0.0.1:")
        with Client(line.split(" at ")[1].split()[0], retries=0) as client:
            index = client.request("POST", "/v2/repository/index", {})
            found = [f"{row['name']}@{row['version']}" for row in index]
            assert found == ["words@1", "other@1", "many@2", "shared@old", "shared@new"]
            answer = client.request("POST", "/v1/scores", {"input": ["a"], "model": "many"})
            assert answer["model"] == "many@2"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
