"""Which tests may be skipped: a pytest plug-in that makes every other skip a failure; see allowed_skips.txt."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("allowed_skips.txt")


def pytest_addoption(parser):
    parser.addoption("--in-ci", action="store_true", help="allow only the skips that are allowed everywhere")


def allowed_skips(in_ci):
    """The patterns of reasons in the file."""
    found, section = [], ""
    for line in FILE.read_text().splitlines():
        text = line.partition("#")[0].strip()
        if text.startswith("["):
            section = text
        elif text and not (in_ci and section != "[everywhere]"):
            found.append(text)
    return found


def judge(report, in_ci):
    """Turn the report of a skip that is not allowed into a failure."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    place, line, said = report.longrepr
    reason = said.removeprefix("Skipped: ")
    if not any(fnmatch.fnmatchcase(reason, pattern) for pattern in allowed_skips(in_ci)):
        report.outcome = "failed"
        report.longrepr = f"{place}:{line}: skipped ({reason}), which {FILE.name} does not allow here"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    judge(report, item.config.getoption("--in-ci"))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    judge(report, collector.config.getoption("--in-ci"))
    return report
