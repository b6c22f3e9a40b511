"""Operators from C++ libraries that the user compiled against the installed headers.

Loading a library runs its code. It happens at the user's own call only: no file that we read names a library that gets
loaded. Before any of the code runs, the library's note says whether it was built against these very headers.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from framework import _core
from framework.autograd.rule_table import Rule
from framework.errors import AttributeValueError, LibraryError, PaddockError
from framework.extend.note import check_note
from framework.ops import dispatch, registry
from framework.ops.registry import OpInfo

_loaded: dict[Path, list[OpInfo]] = {}  # a process opens a library once


def include_dir() -> Path:
    """The folder for the compiler's -I; `paddock/operator.h` is the header to include."""
    return _package() / "include"


def library_dir() -> Path:
    """The folder for the linker's -L; link with -lpaddock."""
    return _package() / "lib"


def compile_flags() -> list[str]:
    """What a C++ compiler needs to make a library of operators."""
    abi = _core.abi()["standard_library"]
    cxx11 = [] if abi > 1 else [f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    return ["-std=c++20", "-O2", "-fPIC", "-shared", *cxx11, f"-I{include_dir()}", f"-L{library_dir()}", "-lpaddock"]


def load_operators(path: Path | str) -> SimpleNamespace:
    """Loads a library of operators, which runs its code: load only what you trust as much as your own program.

    Its operators are then functions of `framework.custom`, for eager use, in Programs and in Programs read from files.

    Returns:
        The library's functions by name, but for those of operators that are declared `internal()`.

    Raises:
        LibraryError: the file is no library of operators, was built against other headers, lacks something, or has a
            name that is taken. Nothing is left behind then.
    """
    file = Path(path).resolve()
    if file not in _loaded:
        check_note(file)
        try:
            natives = _core.load_library(str(file))
        except PaddockError as e:
            hint = "; link it with -lpaddock (python -m framework.extend prints all flags)"
            raise LibraryError(f"{file}: {e}{hint if 'undefined symbol' in str(e) else ''}") from None
        infos = [OpInfo(native, library=str(file)) for native in natives]
        _check_names(file, infos)
        _check_facts(file, infos)
        for info in infos:
            info.own_rule = _native_rule(file, info, {i.name: i for i in infos})
        registry.CUSTOM.update({info.name: info for info in infos})
        _loaded[file] = infos
    return SimpleNamespace(**{info.name: function_of(info.name) for info in _loaded[file] if not info.internal})


def function_of(name: str) -> Callable[..., Any]:
    """The function of a loaded operator.

    Raises:
        AttributeValueError: no library that was loaded has it.
    """
    info = registry.CUSTOM.get(name)
    if info is None:
        raise AttributeValueError(
            f"framework.custom: there is no operator '{name}'; loaded are {', '.join(registry.CUSTOM) or 'none'}; call "
            "framework.load_operators first"
        )
    return dispatch.make_function(info, "framework.custom")


def operator_gradient(name: str, **formulas: Callable[..., Any]) -> None:
    """Gives a loaded operator a gradient: one formula for each input that has one.

    A formula's parameters say what it reads: `dy` for the gradient of output `y`, or the name of an input, output or
    attribute. Made of operators, so it can be differentiated again.

    >>> operator_gradient("scaled_square", x=lambda dy, x, scale: 2.0 * scale * x * dy)

    Raises:
        AttributeValueError: there is no such operator or input, or it has a gradient already.
    """
    info = registry.CUSTOM.get(name)
    if info is None:
        raise AttributeValueError(f"operator_gradient: no loaded library has an operator '{name}'")
    if info.own_rule is not None:
        raise AttributeValueError(f"operator_gradient: {name} has a gradient already")
    rule = Rule()
    for input_name, formula in formulas.items():
        _expect_known(name, [input_name], [a["name"] for a in info.inputs], "an input")
        rule.add((input_name,), formula)
    _expect_known(
        name, sorted(rule.names), _readable(info) + [a["name"] for a in info.attrs], "what a formula may read"
    )
    info.own_rule, info.retention = rule, None


def _package() -> Path:
    return Path(_core.__file__).parent


def _expect_known(who: str, names: Sequence[str], known: Sequence[str], what: str) -> None:
    for name in names:
        if name not in known:
            raise AttributeValueError(f"{who}: '{name}' is not {what}; there are {', '.join(known)}")


def _readable(info: OpInfo) -> list[str]:
    """Names that a gradient may read besides attributes."""
    outputs = [o["name"] for o in info.outputs]
    return [a["name"] for a in info.inputs] + outputs + ["d" + o for o in outputs]


def _check_names(file: Path, infos: Sequence[OpInfo]) -> None:
    for info in infos:
        for name in [info.name, *(a["name"] for a in (*info.inputs, *info.attrs))]:
            if keyword.iskeyword(name):
                raise LibraryError(f"{file}: {info.name}: '{name}' is a word of Python's; use another name")
        taken = registry.find(info.name)
        if taken is not None:
            owner = f"of {taken.library}" if taken.library else "of the core"
            raise LibraryError(
                f"{file}: operator '{info.name}' has the name of an operator {owner}; give it another name, or, if "
                "this is a newer build of that library, start Python again"
            )


def _check_facts(file: Path, infos: Sequence[OpInfo]) -> None:
    """Facts that name another operator name one that there is."""
    own = {info.name for info in infos}
    for info in infos:
        named = {"recompute": info.recompute, "rows_step": info.rows_step, "derivative_of": (info.derivative_of,)}
        for fact, what in named.items():
            if what and what[0] and what[0] not in own and registry.find(what[0]) is None:
                raise LibraryError(f"{file}: {info.name}: {fact} names the operator '{what[0]}', which does not exist")


def _native_rule(file: Path, info: OpInfo, own: dict[str, OpInfo]) -> Rule | None:
    """The gradient that an operator's block names: another operator, whose arguments say what it reads and gives."""
    name = info.native.gradient_op
    if not name:
        return None
    grad = own.get(name) or registry.find(name)
    if grad is None:
        raise LibraryError(f"{file}: {info.name}: its gradient operator '{name}' does not exist")
    try:
        _expect_known(
            name, [a["name"] for a in grad.inputs], _readable(info), f"an argument of {info.name}, or d<output>"
        )
        _expect_known(
            name, [a["name"] for a in grad.attrs], [a["name"] for a in info.attrs], f"an attribute of {info.name}"
        )
        outputs = [o["name"] for o in grad.outputs]
        _expect_known(name, outputs, ["d" + a["name"] for a in info.inputs], f"d<input> of {info.name}")
    except AttributeValueError as e:
        raise LibraryError(f"{file}: {e}") from None
    if any(a["variadic"] for a in (*info.inputs, *info.outputs)):
        raise LibraryError(f"{file}: {info.name} takes any number of arguments; write its gradient in Python instead")
    count = len(grad.inputs)

    def formula(*values: Any) -> Any:
        return dispatch.apply(grad, values[:count], tuple(values[count:]))

    rule = Rule()
    rule.add(tuple(o[1:] for o in outputs), formula, tuple(a["name"] for a in (*grad.inputs, *grad.attrs)))
    return rule
