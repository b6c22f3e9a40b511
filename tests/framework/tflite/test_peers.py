"""The same files in TensorFlow Lite's own runtime (LiteRT), with its reference kernels."""

import numpy as np
import pytest

from framework.tflite import Session, open_model
from tests.framework.tflite.cases import CASES, inputs_of
from tests.framework.tflite.models import small_eight, small_network
from tests.framework.tflite.test_eight import PUBLISHED, picture

pytestmark = pytest.mark.peers
SMALL = {"small": small_network(), "int8": small_eight(True), "uint8": small_eight(False)}


def theirs(file, given, kernels="BUILTIN_REF"):
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="the peer LiteRT is not installed")
    kind = getattr(litert.OpResolverType, kernels)
    interpreter = litert.Interpreter(model_content=file, experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    for detail, x in zip(interpreter.get_input_details(), given, strict=True):
        interpreter.set_tensor(detail["index"], x)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


@pytest.mark.parametrize("name", [*CASES, *SMALL])
def test_an_operator_gives_what_the_reference_does(name):
    file = SMALL[name] if name in SMALL else CASES[name][0]
    model = open_model(file)
    given = inputs_of(model)
    # Not all operators have a reference kernel; those of float32 differ in the last bits alone.
    kernels = "BUILTIN_REF" if name in SMALL else "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
    for got, wanted in zip(Session(model).run(given), theirs(file, given, kernels), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_file_gives_the_integers_of_the_reference(name, shared_data):
    path = shared_data(f"weights/coral/{name}.tflite")
    model = open_model(path)
    given = [picture(model)]
    (wanted,) = theirs(path.read_bytes(), given)
    np.testing.assert_array_equal(Session(model).run(given)[0], wanted)
