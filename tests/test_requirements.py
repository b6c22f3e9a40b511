"""requirements/ holds exact versions with digests, of all that pyproject.toml names, and nothing of one machine."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, GROUPS = PYPROJECT["project"], PYPROJECT["dependency-groups"]
EXTRAS = PROJECT["optional-dependencies"]
TESTED = ("serve", "logs", "retrieval", "seal", "translation", "onnx", "video", "xla", "pdf")  # extras that CI installs
WANTED = {
    "run": PROJECT["dependencies"],
    "serve": PROJECT["dependencies"] + EXTRAS["serve"],
    "build": PYPROJECT["build-system"]["requires"] + GROUPS["build"],
    "test": [
        *PROJECT["dependencies"],
        *(r for extra in TESTED for r in EXTRAS[extra]),
        *(r for group in GROUPS.values() for r in group),
    ],
    "source": ["jieba"],
    "lowest": [
        *PROJECT["dependencies"],
        *(r for extra in TESTED for r in EXTRAS[extra]),
        *GROUPS["test"],
    ],
}


def of_linux(requirements):
    """Those that Linux needs, which the locks are for."""
    read = [(each, Requirement(each).marker) for each in requirements]
    return [each for each, marker in read if marker is None or marker.evaluate({"sys_platform": "linux"})]


def name_of(requirement):
    return re.sub(r"[_.]", "-", re.match(r"[\w.-]+", requirement).group().lower())


def locked(name):
    """The lines of a lock, those broken by a backslash in one."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text().replace("\\\n", " ")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


@pytest.mark.parametrize("name", WANTED)
def test_every_requirement_is_locked_with_digests_and_no_place_is_named(name):
    lines = locked(name)
    assert all(re.match(r"[\w.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", line) for line in lines)
    assert not re.search(r"://|file:|--(extra-)?index|--find-links", "\n".join(lines))
    assert {name_of(requirement) for requirement in of_linux(WANTED[name])} <= {name_of(line) for line in lines}


def test_the_runtime_and_the_build_are_the_tests_versions():
    def versions(name):
        return {line.partition(" ")[0] for line in locked(name)}

    assert versions("run") | versions("build") | versions("serve") <= versions("test")


def test_what_pyproject_allows_at_least_is_what_the_lowest_versions_are():
    lowest = dict(line.partition(" ")[0].split("==") for line in locked("lowest"))
    for requirement in of_linux([*PROJECT["dependencies"], *(r for extra in TESTED for r in EXTRAS[extra])]):
        bound = requirement.partition(";")[0].partition(">=")[2].split(".")
        found = lowest[name_of(requirement)].split(".")
        assert found[: len(bound)] == bound or found > bound, requirement
