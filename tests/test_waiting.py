"""A test that waits for another thread or process ends, and by its name: one that hangs costs a whole run of CI."""

import ast
from pathlib import Path

import pytest

from tests.waiting import until

ROOT = Path(__file__).resolve().parent
FILES = sorted(ROOT.rglob("*.py"))
OWN = {"suites/engine/failing.py", "suites/engine/killing.py"}  # programs of their own


def endless(tree):
    """Lines of loops that do nothing but sleep until a condition holds, and never ask for the time."""
    for node in ast.walk(tree):
        if isinstance(node, ast.While) and not any(isinstance(n, ast.Compare) and _is_timed(n) for n in ast.walk(node)):
            calls = [s.value for s in node.body if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call)]
            if len(calls) == len(node.body) and all(ast.unparse(c.func).endswith("sleep") for c in calls):
                yield node.lineno


def _is_timed(node):
    return "monotonic()" in ast.unparse(node)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_loop_of_a_test_polls_without_an_end(path):
    found = list(endless(ast.parse(path.read_text())))
    assert not found, f"{path.name}, lines {found}: use tests.waiting.until"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_test_forks_the_process_that_it_runs_in(path):
    """Threads of other tests, JAX's among them, may hold what the child waits for: it forks a process of its own."""
    calls = [ast.unparse(n) for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    found = [call for call in calls if call.startswith("os.fork(") or call.endswith("get_context('fork')")]
    assert not found or str(path.relative_to(ROOT)) in OWN, f"{path.name}: {found}"


def test_the_rule_finds_a_loop_without_an_end():
    endless_loop = "while not path.exists():\n    time.sleep(0.1)"
    timed = "while busy() and time.monotonic() < end:\n    time.sleep(0.1)"
    working = "while not done.is_set():\n    ask()\n    time.sleep(0.1)"
    assert [list(endless(ast.parse(text))) for text in (endless_loop, timed, working)] == [[1], [], []]


def test_waiting_in_vain_ends():
    until(lambda: True, 0)
    with pytest.raises(AssertionError, match=r"waited 0\.02 s in vain"):
        until(lambda: False, 0.02)
