"""The contracts stay slim: what single suites offer is a protocol, offered whole and with its own signature."""

import inspect

import pytest

from suites.engine.contract import fitting, resources, step
from suites.engine.contract.capabilities import processors, tasks
from suites.engine.contract.processor import Processor, ServedProcessor
from suites.engine.contract.task import Task
from suites.nlp.processor import TextProcessor
from suites.ocr.processor import DirectionProcessor, LineProcessor, PageProcessor
from suites.video.sequence_processor import SequenceProcessor
from tests.shipped import task_classes

TASKS = task_classes()
PROCESSORS = {
    *(task.processor_class for task in TASKS),
    TextProcessor,
    SequenceProcessor,
    PageProcessor,
    LineProcessor,
    DirectionProcessor,
}


def protocols(*modules):
    found = {each for module in modules for each in vars(module).values() if getattr(each, "_is_runtime_protocol", 0)}
    return sorted(found, key=lambda each: each.__name__)


def methods(found):
    return [name for name in vars(found) if not name.startswith("_") and callable(getattr(found, name))]


def parameters(found, method):
    return list(inspect.signature(getattr(found, method)).parameters)


@pytest.mark.parametrize("contract", [Task, Processor, ServedProcessor])
def test_a_contract_has_at_most_twelve_public_methods(contract):
    assert 5 <= len(methods(contract)) <= 12


OFFERS = [
    *((protocol, TASKS) for protocol in protocols(tasks, resources, step)),
    *((protocol, PROCESSORS) for protocol in protocols(processors)),
    *((protocol, [*TASKS, *PROCESSORS]) for protocol in protocols(fitting)),
]


@pytest.mark.parametrize(("protocol", "classes"), OFFERS, ids=[protocol.__name__ for protocol, _ in OFFERS])
def test_a_protocol_is_offered_whole_with_its_own_signature_by_some_suite(protocol, classes):
    """`isinstance` looks at names alone: a method that is missing or takes something else would say nothing."""
    names, somebody = methods(protocol), False
    for found in classes:
        present = [name for name in names if hasattr(found, name)]
        assert present in ([], names), f"{found.__name__} has {present} of {names}"
        somebody |= bool(present)
        for name in present:
            assert parameters(found, name) == parameters(protocol, name), f"{found.__name__}.{name}"
    assert somebody, f"no suite offers {protocol.__name__}"


def test_the_engine_has_a_dozen_protocols_or_more():
    assert len(OFFERS) >= 12
