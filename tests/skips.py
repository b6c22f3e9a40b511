"""Which tests may be skipped: a pytest plug-in that makes every other skip a failure; see allowed_skips.txt."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("allowed_skips.txt")


def pytest_addoption(parser):
    parser.addoption("--in-ci", action="store_true", help="allow no skip")


def allowed_skips():
    """The patterns of reasons in the file."""
    lines = (line.partition("#")[0].strip() for line in FILE.read_text().splitlines())
    return [line for line in lines if line]


def judge(report, in_ci):
    """Turn the report of a skip that is not allowed into a failure."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    place, line, said = report.longrepr
    reason = said.removeprefix("Skipped: ")
    if in_ci or not any(fnmatch.fnmatchcase(reason, pattern) for pattern in allowed_skips()):
        report.outcome = "failed"
        who = "--in-ci" if in_ci else FILE.name
        report.longrepr = f"{place}:{line}: skipped ({reason}), which {who} does not allow"


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
