"""The code of the kernels: no vector is made bytes lane by lane, which took half of a small 8-bit layer's time."""

import platform
import re
import shutil
import subprocess
from bisect import bisect

import pytest

from framework.extend import library_dir

TAKEN, PUT = (
    re.compile(r"v?pextr[bwd]\s"),
    re.compile(r"shl\s+\$0x8,"),
)  # a lane out of a register, a byte beside others
FEW = 4  # of each that stand together where a vector of eight lanes is taken apart


def taken_apart(code):
    """Places in the instructions of a library where bytes are put side by side from lanes that were taken out."""
    lines = [line.split("\t")[1] for line in code.split("\n") if line.count("\t") >= 1]
    put = [at for at, line in enumerate(lines) if PUT.match(line)]
    taken = [at for at, line in enumerate(lines) if TAKEN.match(line)]
    near = [(a, b) for a, b in zip(put, put[FEW:], strict=False) if b - a <= 6 * FEW]
    return [a for a, b in near if bisect(taken, b) - bisect(taken, a - 10 * FEW) >= FEW]


@pytest.mark.skipif(platform.machine() != "x86_64" or not shutil.which("objdump"), reason="needs x86-64 and objdump")
@pytest.mark.parametrize("isa", ["avx2", "avx512", "baseline"])
def test_no_kernel_takes_a_vector_apart_to_make_it_bytes(isa):
    command = ["objdump", "-d", "--no-show-raw-insn", library_dir() / f"libpaddock_cpu_{isa}.so"]
    assert taken_apart(subprocess.run(command, capture_output=True, text=True, check=True).stdout) == []


def test_a_vector_that_is_taken_apart_is_found():
    out = [f"  1:\tvpextrd $0x{k},%xmm0,%e{r}x" for k, r in ((1, "a"), (2, "b"), (3, "c"), (1, "d"))]
    together = ["  2:\tshl    $0x8,%rax", "  3:\tor     %rbx,%rax"] * 6
    assert (
        taken_apart("\n".join(out + together))
        and not taken_apart("\n".join(out))
        and not taken_apart("\n".join(together))
    )
