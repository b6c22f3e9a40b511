"""Operators of C++ libraries: compiled as a user does, loaded, used in every way, and refused when they do not fit."""

import contextlib
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import framework
from framework import _core, load_operators, ops, program
from framework.autograd.check import check_gradients
from framework.errors import (
    AttributeValueError,
    CheckpointError,
    DTypeError,
    GradientError,
    LibraryError,
    ShapeError,
)
from framework.extend.note import check_note
from framework.graph.files import save_program
from framework.ops import registry
from framework.predictor import Predictor
from tests.framework.extend.library import EXAMPLE, compile_library, text

X = np.array([-3.0, 0.5, 2.0])

# What a test can go wrong with; the values are read by no correct operator.
ODD = text(
    """
static void first(const KernelContext& c) { *c.out("y").data<float>() = *c.in("x").data<float>(); }
PADDOCK_OPERATOR(odd_no_gradient, "x, other? -> y") {
  op.doc("Its first element.").infer([](InferContext& c) { c.out("y", {}, c.in("x").dtype); }).cpu(first);
}
PADDOCK_OPERATOR(odd_forgets_outputs, "x -> y, z") {
  op.doc("Sets one output of two.").cpu(first);
  op.infer([](InferContext& c) { c.out("y", c.shape("x"), c.in("x").dtype); });
}
PADDOCK_OPERATOR(odd_negative, "x -> y") {
  op.doc("An impossible shape.").infer([](InferContext& c) { c.out("y", {-1}, DType::kF32); }).cpu(first);
}
PADDOCK_OPERATOR(odd_throws, "x -> y") {
  op.doc("Fails.").infer([](InferContext& c) { c.out("y", c.shape("x"), c.in("x").dtype); });
  op.cpu([](const KernelContext&) { throw std::runtime_error("out of paper"); });
}
PADDOCK_OPERATOR(odd_facts, "x -> y") {
  op.doc("x, with facts.").attr("mode", AttrType::kString, std::string("plain"), "How.").choices({"plain", "grand"});
  op.attr("axis", AttrType::kInt, int64_t{-1}, "An axis.").along("axis").half().narrows("x").recompute();
  op.flops([](const InferContext& c) { return 2 * c.result(0).numel(); });
  op.infer([](InferContext& c) { choice(c, "mode"); c.out("y", c.shape("x"), c.in("x").dtype); });
  op.cpu([](const KernelContext& c) {
    std::copy_n(c.in("x").data<float>(), c.out("y").numel(), c.out("y").data<float>());
  });
}
PADDOCK_OPERATOR(odd_hidden, "x -> y") {
  op.doc("Its first element.").internal().infer([](InferContext& c) { c.out("y", {}, c.in("x").dtype); }).cpu(first);
}
PADDOCK_OPERATOR(odd_many, "xs... -> y") {
  op.doc("The number of its inputs.").infer([](InferContext& c) { c.out("y", {}, DType::kI64); });
  op.cpu([](const KernelContext& c) { *c.out("y").data<int64_t>() = c.input_count(); });
}
"""
)


@pytest.fixture(scope="module", autouse=True)
def leaves_no_operator_behind():
    """What these tests load is unknown to all others."""
    before = dict(registry.CUSTOM)
    yield
    registry.CUSTOM.clear()
    registry.CUSTOM.update(before)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The example's library."""
    folder = tmp_path_factory.mktemp("example")
    return compile_library((EXAMPLE / "soft_clip.cc").read_text(), folder, "soft_clip")


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """Operators with mistakes that only show when they run."""
    return load_operators(compile_library(ODD, tmp_path_factory.mktemp("odd"), "odd"))


def soft_clip(x, limit=1.0):
    return framework.custom.soft_clip(x, limit=limit)


def test_the_example_runs(example, capsys):
    module = runpy.run_path(str(EXAMPLE / "soft_clip.py"))
    assert module["main"](str(example)) < 1e-6
    assert "predictor:" in capsys.readouterr().out


def test_it_computes_what_it_says_in_every_way_of_running(example):
    load_operators(example)
    expected = 2.0 * np.tanh(X / 2.0)
    for run in (soft_clip, program(soft_clip)):
        np.testing.assert_allclose(run(framework.tensor(X), 2.0).numpy(), expected, rtol=1e-15)
    assert load_operators(example).soft_clip(framework.tensor(X)).shape == (3,)  # loading again is free
    assert "limit * tanh" in framework.custom.soft_clip.__doc__ and "soft_clip" in dir(framework.custom)


def test_gradients_come_from_the_block_and_from_python(example):
    """The second order needs the rule that the example gives in Python."""
    load_operators(example)
    if registry.CUSTOM["soft_clip_grad"].own_rule is None:
        runpy.run_path(str(EXAMPLE / "soft_clip.py"))["main"](str(example))
    check_gradients(lambda x: soft_clip(x, 1.5), [X], order=2)
    with pytest.raises(AttributeValueError, match="soft_clip has a gradient already"):
        framework.operator_gradient("soft_clip", x=lambda dy: dy)


def test_a_block_declares_facts_and_what_it_leaves_out_is_safe(odd):
    info, plain = registry.CUSTOM["odd_facts"], registry.CUSTOM["odd_many"]
    assert (info.precision, info.recompute, info.along, info.heavy) == ("half", ("odd_facts", ("x",)), "axis", True)
    assert (plain.precision, plain.recompute, plain.along, plain.heavy) == ("float32", None, "", False)
    assert info.choices("mode") == ("plain", "grand")
    x = framework.tensor(X.astype(np.float32))
    assert info.flops([(x.shape, x.dtype)], info.attr_values({})) == 6
    with pytest.raises(AttributeValueError, match="odd_facts: mode is 'small'; takes 'plain', 'grand'"):
        odd.odd_facts(x, mode="small")
    with framework.autocast("bfloat16"):
        assert odd.odd_facts(x).dtype == "bfloat16" and odd.odd_many([ops.cast(x, dtype="bfloat16")]).item() == 1


def test_an_internal_operator_is_left_out_of_the_functions(odd):
    assert not hasattr(odd, "odd_hidden") and "odd_hidden" not in dir(framework.custom)
    assert registry.CUSTOM["odd_hidden"].internal and not registry.CUSTOM["odd_many"].internal


def test_shape_rules_and_attributes_are_checked(example):
    load_operators(example)
    with pytest.raises(DTypeError, match="soft_clip: x is int64 but must be float32 or float64"):
        soft_clip(framework.tensor([1]))
    with pytest.raises(AttributeValueError, match="soft_clip: limit is -1 but must be above 0"):
        soft_clip(framework.tensor(X), -1.0)
    with pytest.raises(AttributeValueError, match="soft_clip: limit takes a number, not 'a'"):
        soft_clip(framework.tensor(X), "a")


def test_a_saved_program_needs_the_library_and_says_so(example, tmp_path):
    load_operators(example)
    with framework.no_grad():
        compiled = program(lambda x: soft_clip(x * 2.0, 3.0)).program_for(X)
    save_program(compiled.program, tmp_path)
    np.testing.assert_allclose(Predictor(tmp_path).run([X])[0], 3.0 * np.tanh(X * 2 / 3), rtol=1e-15)
    hidden = registry.CUSTOM.pop("soft_clip")
    try:
        with pytest.raises(
            CheckpointError, match=r"'soft_clip' is of the library 'libsoft_clip.so', which is not loaded"
        ):
            Predictor(tmp_path)
    finally:
        registry.CUSTOM["soft_clip"] = hidden


def test_a_profile_shows_it(example):
    load_operators(example)
    with framework.Profile() as p:
        soft_clip(framework.tensor(X))
    assert "soft_clip" in str(p.table())


def test_mistakes_that_show_when_it_runs_are_errors(odd):
    x = framework.tensor([1.0, 2.0], requires_grad=True)
    assert odd.odd_many([x, x, x]).item() == 3
    for run in (lambda f: f, program):
        with pytest.raises(Exception, match="odd_forgets_outputs: its shape rule gave 1 outputs; its signature has 2"):
            run(odd.odd_forgets_outputs)(x)
        with pytest.raises(ShapeError, match=r"odd_negative: its output would have shape \[-1\]"):
            run(odd.odd_negative)(x)
        with pytest.raises(RuntimeError, match="out of paper"):
            run(odd.odd_throws)(x)
    with pytest.raises(AttributeValueError, match="odd_no_gradient: input 'x' is missing"):
        odd.odd_no_gradient(None)
    with pytest.raises(GradientError, match=r"odd_no_gradient: it has no gradient; .* framework.operator_gradient"):
        odd.odd_no_gradient(x).backward()


@pytest.mark.parametrize(
    ("name", "formulas", "message"),
    [
        ("nothing", {}, "no loaded library has an operator 'nothing'"),
        ("odd_no_gradient", {"z": lambda dy: dy}, "odd_no_gradient: 'z' is not an input; there are x, other"),
        ("odd_no_gradient", {"x": lambda dz: dz}, "'dz' is not what a formula may read; there are x, other, y, dy"),
    ],
)
def test_a_wrong_gradient_in_python_is_refused(odd, name, formulas, message):
    with pytest.raises(AttributeValueError, match=message):
        framework.operator_gradient(name, **formulas)


RULE = ".infer([](InferContext& c) { c.out(0, {}, DType::kF32); })"
KERNEL = ".cpu([](const KernelContext&) {})"
COMPLETE = f'op.doc("A."){RULE}{KERNEL};'
WRONG = {  # name: signature, body of the block, what is said about it
    "no_rule": ("x -> y", f'op.doc("A."){KERNEL};', "no_rule' has no shape rule; call infer"),
    "no_kernel": ("x -> y", f'op.doc("A."){RULE};', "no_kernel' has no kernel; call cpu"),
    "no_doc": ("x -> y", f"op{RULE}{KERNEL};", "no_doc' has no documentation"),
    "no_arrow": ("x, y", COMPLETE, r"no_arrow: its signature 'x, y' has no '->'"),
    "no_output": ("x -> ", COMPLETE, "no_output' has no output"),
    "twice": ("x, x -> y", COMPLETE, "twice' has two arguments called 'x'"),
    "middle": ("x..., z -> y", COMPLETE, r"middle' has 'x...' before its last"),
    "bad_word": ("x) or exit( -> y", COMPLETE, "called 'x. or exit.'; use letters"),
    "bad-name": ("x -> y", COMPLETE, "bad-name' needs a name of letters"),
    "keyword": ("lambda -> y", COMPLETE, "keyword: 'lambda' is a word of Python's"),
    "bad_default": (
        "x -> y",
        f'op.doc("A.").attr("n", AttrType::kInt, 1.5, "N."){RULE}{KERNEL};',
        "bad_default' has an attribute 'n' whose default is of another type",
    ),
    "relu": ("x -> y", COMPLETE, "'relu' has the name of an operator of the core"),
    "no_grad_op": (
        "x -> y",
        f'op.doc("A."){RULE}{KERNEL}.gradient("nothing_grad");',
        "its gradient operator 'nothing_grad' does not exist",
    ),
    "bad_grad_op": (
        "x -> y",
        f'op.doc("A."){RULE}{KERNEL}.gradient("matmul");',
        "matmul: 'a' is not an argument of bad_grad_op, or d<output>",
    ),
    "chained": (
        "x -> y",
        f'op.doc("A.").elementwise(){RULE}{KERNEL};',
        r"chained' is declared elementwise\(\) or spread\(\)",
    ),
    "ended": (
        "x, w, bias?, residual? -> y",
        f'op.doc("A.").attr("activation", AttrType::kString, std::string("none"), "End.").epilogue(){RULE}{KERNEL};',
        r"ended' is declared epilogue\(\)",
    ),
    "no_axis": (
        "x -> y",
        f'op.doc("A.").along("axis"){RULE}{KERNEL};',
        "no_axis' works along 'axis', which is no attr",
    ),
    "no_again": (
        "x -> y",
        f'op.doc("A.").recompute("nothing", "x"){RULE}{KERNEL};',
        "no_again: recompute names the operator 'nothing', which does not exist",
    ),
    "throws": ("x -> y", 'throw std::runtime_error("not today");', "not today"),
}
NAME, SIGNATURE, CHOICE = "name_to_be_replaced_", "x -> signature_to_be_replaced_", "choice:0"


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """One operator that can be wrong in every way: its texts are replaced in the file, which spares compiling."""
    cases = "".join(f"case '{chr(97 + i)}': {{ {body} break; }}\n" for i, (_, body, _) in enumerate(WRONG.values()))
    source = text(
        "#include <stdexcept>",
        f'static const volatile char chosen[] = "{CHOICE}";',
        f"static void define(OpDef& op) {{ switch (chosen[7]) {{ {cases} }} }}",
        f'PADDOCK_OPERATOR(never, "x -> y") {{ {COMPLETE} }}',
        f'static const OperatorEntry entry{{"{NAME}", "{SIGNATURE}", define, nullptr}};',
        "static const bool linked = (::paddock::detail::operator_entries() = &entry, true);",
    )
    return compile_library(source, tmp_path_factory.mktemp("wrong"), "wrong", "-Wno-unused")


@pytest.mark.parametrize("name", WRONG)
def test_an_incomplete_library_is_refused_and_leaves_nothing_behind(wrong, tmp_path, name):
    signature, _, message = WRONG[name]
    data = wrong.read_bytes()
    choice = CHOICE[:-1] + chr(97 + list(WRONG).index(name))
    for old, new in ((NAME, name), (SIGNATURE, signature), (CHOICE, choice)):
        assert data.count(old.encode()) == 1
        data = data.replace(old.encode(), new.encode().ljust(len(old), b"\0"))
    library = tmp_path / "libwrong.so"
    library.write_bytes(data)
    before = dict(registry.CUSTOM)
    with pytest.raises(LibraryError, match=message):
        load_operators(library)
    assert before == registry.CUSTOM


def test_a_library_built_against_other_headers_is_refused_before_its_code_runs(example, tmp_path):
    data = example.read_bytes()
    digest = _core.abi()["headers"].encode()
    assert digest in data
    library = tmp_path / "libold.so"
    library.write_bytes(data.replace(digest, b"0123456789abcdef"))
    with pytest.raises(
        LibraryError, match=r"built against the headers of paddock .*0123456789abcdef.*compile it again"
    ):
        load_operators(library)


def test_files_that_are_no_library_of_ours_are_refused(example, tmp_path):
    cut, empty, noise = tmp_path / "cut.so", tmp_path / "empty.so", tmp_path / "noise.so"
    data = example.read_bytes()
    empty.write_bytes(b"")
    noise.write_bytes(b"\x7fELF\x02\x01" + bytes(range(256)) * 8)
    with pytest.raises(LibraryError, match="is no shared library"):
        load_operators(empty)
    with pytest.raises(LibraryError, match=r"is damaged|is cut off"):
        load_operators(noise)
    with pytest.raises(LibraryError, match="cannot be read"):
        load_operators(tmp_path / "missing.so")
    for size in range(0, len(data), len(data) // 37):
        cut.write_bytes(data[:size])
        with pytest.raises(LibraryError, match=r"is no shared library|is damaged|is cut off"):
            load_operators(cut)
    with pytest.raises(LibraryError, match=r"is no library of operators; one includes paddock/operator.h"):
        load_operators(_core.__file__)


def test_damaged_bytes_in_the_tables_never_crash_the_reader(example, tmp_path):
    """The note is read before anything runs; what the linker then sees is the user's own file."""
    rng = np.random.default_rng(0)
    data = bytearray(example.read_bytes())
    for _ in range(200):
        changed = bytearray(data)
        for at in rng.integers(0, 800, size=4):
            changed[at] = rng.integers(0, 256)
        (tmp_path / "changed.so").write_bytes(changed)
        with contextlib.suppress(LibraryError):
            check_note(tmp_path / "changed.so")


def test_an_unknown_name_is_named():
    with pytest.raises(
        AttributeError, match=r"there is no operator 'nothing'; loaded are .*call framework.load_operators"
    ):
        framework.custom.nothing  # noqa: B018


def test_the_cmake_package_builds_a_library(tmp_path):
    cmake = shutil.which("cmake", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if cmake is None:
        pytest.skip("no CMake on this machine")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(mine LANGUAGES CXX)\nfind_package(paddock REQUIRED)\n"
        "add_library(mine MODULE mine.cc)\ntarget_link_libraries(mine PRIVATE paddock::paddock)\n"
    )
    body = f'op.doc("A."){RULE}{KERNEL};'
    (tmp_path / "mine.cc").write_text(text(f'PADDOCK_OPERATOR(by_cmake, "x -> y") {{ {body} }}'))
    package = subprocess.run(
        [sys.executable, "-m", "framework.extend", "--cmake"],
        cwd=EXAMPLE.parents[1],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    for command in ([cmake, "-S", ".", "-B", "build", f"-Dpaddock_DIR={package}"], [cmake, "--build", "build"]):
        made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert made.returncode == 0, made.stdout + made.stderr
    assert load_operators(tmp_path / "build" / "libmine.so").by_cmake(ops.full(shape=[2], value=1.0)).shape == ()
