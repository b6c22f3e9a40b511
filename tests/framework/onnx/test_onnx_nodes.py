"""The ONNX project's own tests on Paddock's core: what passes must go on passing, what fails stands in one list."""

import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

from tests.framework.onnx import conformance


@pytest.fixture(scope="module")
def node_cases():
    return conformance.cases("node")


@pytest.fixture(scope="module")
def node_failures(node_cases):
    """name -> what went wrong, or None; all of them are run once."""
    return {case.name: conformance.failure(case) for case in node_cases}


def test_every_node_test_passes_but_those_listed_as_not_supported(node_failures):
    listed = conformance.not_supported()
    broken = {name: why for name, why in node_failures.items() if why is not None and name not in listed}
    assert not broken, "\n".join(f"{name}: {why[:500]}" for name, why in broken.items())


def test_the_list_of_what_is_not_supported_only_shrinks(node_failures):
    fixed = [name for name in conformance.not_supported() if name in node_failures and node_failures[name] is None]
    assert not fixed, f"these pass now; take them out of {conformance.NOT_SUPPORTED}: {sorted(fixed)}"


def test_the_report_in_the_documentation_is_up_to_date(node_cases, node_failures):
    document = conformance.DOCUMENT.read_text()
    expected = conformance.with_report(document, conformance.report(node_cases, node_failures))
    assert document == expected, "run python tools/onnx_report.py"


def test_most_node_tests_pass(node_failures):
    assert sum(why is None for why in node_failures.values()) >= 0.8 * len(node_failures)


@pytest.mark.parametrize("kind", ["simple", "pytorch-converted", "pytorch-operator"])
def test_every_model_that_onnx_brings_gives_the_stored_outputs(kind):
    found = {case.name: conformance.failure(case) for case in conformance.cases(kind)}
    assert found and not {name: why for name, why in found.items() if why is not None}
