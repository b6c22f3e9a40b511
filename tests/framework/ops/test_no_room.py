"""A result that does not fit into memory is one error that names the operator, the result and its size."""

import resource
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import framework
from framework import from_numpy, ops
from framework.errors import DeviceMemoryError

WIDE = 1 << 20


@pytest.fixture(autouse=True)
def bounded():
    """64 GB of addresses at most, so that no system that promises more than it has is brought down."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (64 << 30 if hard == resource.RLIM_INFINITY else min(64 << 30, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("broadcast_to", lambda row, column: ops.broadcast_to(row, shape=(WIDE, WIDE))),
        ("add", lambda row, column: row + column),
        ("matmul", lambda row, column: ops.matmul(column, row)),
        ("broadcast_to", lambda row, column: framework.zeros(WIDE, WIDE)),
    ],
)
def test_an_operator_whose_result_is_too_large_says_what_and_how_large(name, make):
    row, column = (from_numpy(np.ones(shape, np.float32)) for shape in ((1, WIDE), (WIDE, 1)))
    with pytest.raises(DeviceMemoryError, match=rf"^{name}: .*\[1048576, 1048576\], 4,096.0 GB; "):
        make(row, column)


def test_a_program_that_is_too_large_says_so_too():
    row, column = (from_numpy(np.ones(shape, np.float32)) for shape in ((1, WIDE), (WIDE, 1)))
    with pytest.raises(DeviceMemoryError, match="no memory"):
        framework.program(lambda a, b: ops.sum(ops.exp(a + b) * (a - b)))(row, column)


def test_memory_that_the_shell_bounds_gives_the_same_error():
    script = """
        import numpy as np, resource
        from framework import from_numpy, ops
        x = from_numpy(np.ones((1, 1), np.float32))
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))
        ops.broadcast_to(x, shape=(1 << 15, 1 << 15))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith(
        "framework.errors.DeviceMemoryError: broadcast_to: no memory for its result, float32 [32768, 32768], 4.0 GB"
    )
