"""The operators' reference pages and static types, as text made from the registry."""

from __future__ import annotations

import inspect
from typing import Any

from framework.autograd.rule_table import RULES
from framework.ops import dispatch
from framework.ops.dispatch import OpInfo

_TYPES = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "str": "str",
    "ints": "int | Sequence[int]",
    "floats": "float | Sequence[float]",
}


def generated_files() -> dict[str, str]:
    """Path from the repository's root to content: the stub, an index, and a page for each family."""
    families: dict[str, list[OpInfo]] = {}
    for info in dispatch.OPS.values():
        families.setdefault(info.family, []).append(info)
    files = {f"docs/operators/{family}.md": _page(family, ops) for family, ops in sorted(families.items())}
    files["docs/operators/README.md"] = _index(families)
    files["framework/ops/__init__.pyi"] = _stub()
    return files


def _index(families: dict[str, list[OpInfo]]) -> str:
    rows = [
        f"| [{family}]({family}.md) | {', '.join(f'`{op.name}`' for op in ops)} |"
        for family, ops in sorted(families.items())
    ]
    head = [
        "# Operators",
        "",
        f"{len(dispatch.OPS)} operators by family. Made from the registry by `make docs`; do not edit.",
        "",
        "| family | operators |",
        "| --- | --- |",
    ]
    return "\n".join([*head, *rows]) + "\n"


def _page(family: str, ops: list[OpInfo]) -> str:
    lines = [f"# Operators: {family}", "", "Made from the registry by `make docs`; do not edit.", ""]
    for info in ops:
        lines += _entry(info)
    return "\n".join(lines).rstrip() + "\n"


def _entry(info: OpInfo) -> list[str]:
    lines = [f"## {info.name}", "", f"`{_signature_text(info)}`", "", info.doc, ""]
    if info.attrs:
        lines += ["| attribute | type | default | meaning |", "| --- | --- | --- | --- |"]
        lines += [_attribute_row(a) for a in info.attrs]
        lines.append("")
    why = RULES.without_gradient.get(info.name)
    facts = [f"No gradient: {why}." if why else "Differentiable."]
    if info.is_view:
        facts.append("Shares its input's memory.")
    if info.is_view_when_equal:
        facts.append("Shares its input's memory where shape and type are equal.")
    pairs = dict.fromkeys((_name(info.inputs, i), _name(info.outputs, o)) for i, o in info.in_place)
    facts += [f"`{out}` may take the memory of `{source}`." for source, out in pairs]
    only_shape = [f"`{a['name']}`" for a in info.inputs if a["shape_only"]]
    if only_shape:
        facts.append(f"{', '.join(only_shape)} is read for its shape only.")
    return [*lines, " ".join(facts), ""]


def _name(args: list[dict[str, Any]], i: int) -> str:
    """The name of argument `i`, of which the last may stand for several."""
    return str(args[min(i, len(args) - 1)]["name"])


def _signature_text(info: OpInfo) -> str:
    def names(args: list[dict[str, Any]]) -> str:
        return ", ".join(a["name"] + ("?" if a["optional"] else "") + ("..." if a["variadic"] else "") for a in args)

    attrs = "; " + ", ".join(a["name"] for a in info.attrs) if info.attrs else ""
    return f"{info.name}({names(info.inputs)}{attrs}) -> {names(info.outputs)}"


def _attribute_row(a: dict[str, Any]) -> str:
    default = "required" if a["required"] else f"`{a['default']!r}`"
    meaning = a["doc"].replace("|", "\\|")
    return f"| {a['name']} | {a['type']} | {default} | {meaning} |"


def _stub() -> str:
    lines = [
        '"""Static types of framework.ops, made from the registry by `make docs`; do not edit."""',
        "",
        "from collections.abc import Sequence",
        "",
        "from framework.ops.compositions import stack as stack",
        "from framework.ops.compositions import unstack as unstack",
        "from framework.ops.indexing import getitem as getitem",
        "from framework.tensor import Tensor, TensorLike",
        "",
    ]
    return "\n".join(lines + [_stub_line(info) for info in dispatch.OPS.values()]) + "\n"


def _stub_line(info: OpInfo) -> str:
    """The typed signature of what `dispatch.make_function` makes."""
    arguments = {a["name"]: a for a in info.inputs}
    types = {a["name"]: _TYPES[a["type"]] for a in info.attrs}
    parameters = []
    for name, p in inspect.signature(dispatch.make_function(info)).parameters.items():
        if p.kind is p.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        if name in arguments:
            hint = "TensorLike"
            if arguments[name]["variadic"]:
                hint = "Sequence[TensorLike]"
            elif arguments[name]["optional"]:
                hint = "TensorLike | None"
        else:
            hint = types[name]
        parameters.append(f"{name}: {hint}" + ("" if p.default is p.empty else " = ..."))
    if info.many_outputs:
        known = not any(o["variadic"] for o in info.outputs)
        result = f"tuple[{', '.join(['Tensor'] * len(info.outputs))}]" if known else "tuple[Tensor, ...]"
    else:
        result = "Tensor"
    return f"def {info.name}({', '.join(parameters)}) -> {result}: ..."
