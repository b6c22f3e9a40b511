"""What the kernels have for aarch64: the float tile keeps its sums in registers, and all parts equal plain loops."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[3] / "framework/native"
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
FLAGS = ["-std=c++20", "-O3", "-fsigned-char", "-fno-schedule-insns", "-static", "-pthread"]
WARNINGS = ["-Wall", "-Wextra", "-Werror"]

pytestmark = [
    pytest.mark.emulated,
    pytest.mark.skipif(not shutil.which(COMPILER), reason="no C++ compiler for aarch64 on this machine"),
]


SUMS = [
    *(
        f"cpu/{name}.cc"
        for name in ("quantized/conv_int8", "quantized/depthwise_int8", "quantized/winograd_int8", "gemm/int8_product")
    ),
    *(f"op/{name}.cc" for name in ("context", "half", "numbers", "op", "prepared", "record")),
    *(f"core/{name}.cc" for name in ("cores", "parallel", "storage", "subnormal")),
]


def compiled(path, contraction, sources):
    flags = [*FLAGS, f"-ffp-contract={contraction}", *WARNINGS, "-I", NATIVE]
    source = Path(__file__).with_name(f"neon_{path.name}.cc")
    subprocess.run([COMPILER, *flags, source, *(NATIVE / name for name in sources), "-o", path], check=True)
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("neon") / "parts", "fast", [])


@pytest.fixture(scope="module")
def sums(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("neon") / "sums", "off", SUMS)


def functions(program):
    """Name and instructions of each function: (address, mnemonic, operands)."""
    command = ["aarch64-linux-gnu-objdump", "-d", "-C", "--no-show-raw-insn", program]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for part in text.split("\n\n"):
        if head := re.match(r"[0-9a-f]+ <(.+)>:\n", part.lstrip()):
            rows = [line.split("\t") for line in part.split("\n") if re.match(r"\s*[0-9a-f]+:\t", line)]
            yield head[1], [(int(row[0].strip(" :"), 16), row[1].strip(), "".join(row[2:3])) for row in rows]


def loops(instructions):
    """The bodies of innermost loops, each up to the branch back to its start."""
    index = {address: i for i, (address, _, _) in enumerate(instructions)}
    spans = []
    for i, (_, mnemonic, operands) in enumerate(instructions):
        target = re.match(r"([0-9a-f]+) <", operands) if mnemonic.startswith("b.") else None
        start = index.get(int(target[1], 16), i + 1) if target else i + 1
        if start <= i:
            spans.append((start, i))
    inner = [a for a in spans if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in spans)]
    return [instructions[start : end + 1] for start, end in inner]


@pytest.mark.parametrize("tile", ["neon_tile_by_rows<5>", "neon_tile_by_rows<6>", "neon_tile_by_columns<6>"])
def test_the_float_tiles_loop_is_multiply_adds_on_registers(program, tile):
    found = [body for name, code in functions(program) if tile in name for body in loops(code)]
    body = max(found, key=len)
    adds = sum(mnemonic == "fmla" for _, mnemonic, _ in body)
    assert adds == 16 * int(tile[-2])  # four steps of a row times four vectors
    assert adds >= 0.8 * len(body), f"{adds} of {len(body)} instructions"
    assert not [row for row in body if re.search(r"\bsp\b", row[2])], "sums go through memory"


def runs_right(program, processor, dots):
    run = subprocess.run([EMULATOR, "-cpu", processor, program], capture_output=True, text=True, timeout=120)
    assert run.stdout.endswith(f"{dots} dot products; 0 wrong\n") and run.returncode == 0, run.stdout + run.stderr


@pytest.mark.skipif(not shutil.which(EMULATOR), reason="no emulator of aarch64 on this machine")
@pytest.mark.parametrize(("processor", "dots"), [("max", "with"), ("cortex-a57", "without")])
class TestUnderEmulation:
    def test_all_parts_equal_plain_loops(self, program, processor, dots):
        runs_right(program, processor, dots)

    def test_random_convolutions_and_products_on_whole_numbers_equal_plain_loops(self, sums, processor, dots):
        runs_right(sums, processor, dots)
