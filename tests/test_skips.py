"""A skip that allowed_skips.txt does not name is a failure, of a test and of a file alike; in CI every skip is one."""

from pathlib import Path

import pytest

TESTS = """
import pytest

def test_allowed():
    pytest.skip("the extra serve is not installed")

def test_forbidden():
    pytest.skip("I do not feel like it")

@pytest.mark.xfail
def test_known_to_fail():
    assert False
"""


@pytest.mark.parametrize(("words", "skipped", "failed"), [([], 1, 1), (["--in-ci"], 0, 2)])
def test_other_skips_fail(pytester, words, skipped, failed):
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_inprocess("-p", "tests.skips", *words)
    done.assert_outcomes(skipped=skipped, failed=failed, xfailed=1)
    done.stdout.fnmatch_lines(["*skipped (I do not feel like it), which * does not allow"])


def test_a_file_that_is_skipped_for_another_reason_is_an_error(pytester):
    pytester.makepyfile("import pytest\npytest.importorskip('no_such_package')")
    pytester.runpytest_inprocess("-p", "tests.skips").assert_outcomes(errors=1)


def test_data_sets_are_looked_for_in_one_place():
    """A test that reads PADDOCK_DATA by itself is skipped where the sets lie in `../shared/data`, as in CI."""
    reading = ('environ["PADDOCK_' + 'DATA"]', '"PADDOCK_' + 'DATA" not in', 'getenv("PADDOCK_' + 'DATA"')
    files = Path(__file__).parent.rglob("test_*.py")
    assert [str(path) for path in files if any(words in path.read_text() for words in reading)] == []
