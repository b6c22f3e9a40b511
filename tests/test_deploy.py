"""Files of deploy/ name options that `paddock serve` has, and the image has all packages that a server imports."""

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
IMPORTED = """
import sys
from suites.engine.registry import load_suites, suite_names
load_suites(suite_names())
import suites.engine.cli.serve, suites.engine.serving.web.server
import json
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_image_has_each_package_that_a_server_of_any_suite_imports():
    pytest.importorskip("fastapi", reason="the extra serve is not installed")
    done = subprocess.run([sys.executable, "-c", IMPORTED], cwd=ROOT, capture_output=True, text=True, check=True)
    owners = metadata.packages_distributions()
    found = {plain(owner) for module in json.loads(done.stdout.splitlines()[-1]) for owner in owners.get(module, ())}
    listed = re.findall(r"^([A-Za-z0-9_.-]+)==", (ROOT / "requirements" / "image.txt").read_text(), re.MULTILINE)
    assert {"numpy", "fastapi"} <= found
    assert found - {plain(name) for name in listed} - {"paddock-zoo", "setuptools"} == set()


def words_of_serve():
    manifest = next(yaml.safe_load_all((DEPLOY / "serve.yml").read_text()))
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    yield from container["args"]
    for name in ("Dockerfile", "paddock.service"):
        yield from re.findall(
            r"--[a-z][a-z-]+(?=[ \"])", re.search(r"(ENTRYPOINT|ExecStart).*", (DEPLOY / name).read_text())[0]
        )


def test_each_option_is_one_of_serve(capsys):
    from suites.engine.cli.serve import main

    with pytest.raises(SystemExit):
        main(["--help"], "paddock serve")
    known = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
    options = {word for word in words_of_serve() if word.startswith("--")}
    assert {"--host", "--port", "--token-file", "--drain"} <= options <= known


def test_probes_ask_what_the_server_answers():
    from suites.engine.serving import web

    routes = "".join(path.read_text() for path in Path(web.__file__).parent.glob("*.py"))
    for path in re.findall(r"path: (/v2\S+),", (DEPLOY / "serve.yml").read_text()):
        assert f'"{path}"' in routes or f'"{path.removeprefix("/v2")}"' in routes
