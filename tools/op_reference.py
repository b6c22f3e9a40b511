"""The operators' reference pages and static types, as text made from the registry."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import framework.autograd.rules  # noqa: F401  (which fills the table)
from framework.autograd.rule_table import RULES
from framework.onnx.names import written_as
from framework.ops import dispatch, registry
from framework.ops.registry import OpInfo
from framework.tensors import DTYPES

FOLDER = "docs/reference/operators"
_TYPES = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "str": "str",
    "ints": "int | Sequence[int]",
    "floats": "float | Sequence[float]",
}


Types = Callable[[str], Mapping[str, Sequence[str]]]  # operator -> input -> types that it may have


def generated_files(types: Types) -> dict[str, str]:
    """Path from the repository's root to content: the stub, an index, and a page for each family."""
    public = [info for info in registry.OPS.values() if not info.internal]
    internal = [info for info in registry.OPS.values() if info.internal]
    families: dict[str, list[OpInfo]] = {}
    for info in public:
        families.setdefault(info.family, []).append(info)
    files = {f"{FOLDER}/{family}.md": _page(family, ops, types) for family, ops in sorted(families.items())}
    files[f"{FOLDER}/internal.md"] = _page("internal", internal, types, _INTERNAL)
    files[f"{FOLDER}/README.md"] = _index(families, len(internal))
    files[f"{FOLDER}/gradients.md"] = _gradients(public + internal)
    for module, infos in (("functions", public), ("internal", internal)):
        files[f"framework/ops/{module}.pyi"] = _stub(f"framework.ops.{module}", infos)
    return files


def _gradients(infos: Sequence[OpInfo]) -> str:
    """All gradient rules on one page, as the expressions that compute them."""
    head = [
        "# Gradients",
        "",
        "Every gradient rule, as an expression. Made from `framework/autograd/rules/` by `make docs`; do not edit.",
        "`dy` is the gradient of the output `y`; another name is that input, output or attribute. An",
        "operator in an expression is a public one, or one of [internal.md](internal.md). Rules are made of operators,",
        "so they have gradients too.",
        "",
        "| operator | by | gradient |",
        "| --- | --- | --- |",
    ]
    rows = [row for info in sorted(infos, key=lambda info: info.name) for row in _gradient_rows(info)]
    return "\n".join([*head, *rows]) + "\n"


def _gradient_rows(info: OpInfo) -> list[str]:
    name = f"`{info.name}`"
    if info.name in RULES.without_gradient:
        return [f"| {name} | | none: {RULES.without_gradient[info.name]} |"]
    if info.name in RULES.first_order_only:
        return [f"| {name} | | an error: {RULES.first_order_only[info.name]} |"]
    found = RULES.of(info)
    if found is None:
        return []
    if found.through_composition:
        return [f"| {name} | | those of its composition |"]
    rows = [
        f"| {name} | {', '.join(f'`{each}`' for each in inputs)} | {_expression(formula)} |"
        for inputs, formula, _ in found.formulas
    ]
    rest = [(by, why) for kind in (RULES.flat, RULES.held) for (of, by), why in kind.items() if of == info.name]
    return rows + [f"| {name} | `{by}` | none: {why} |" for by, why in rest]


def _expression(formula: Callable[..., Any]) -> str:
    """What a lambda computes, or what a function says of itself and where it stands."""
    code = formula.__code__
    file = Path(code.co_filename)
    for node in ast.walk(_parsed(file)):
        if isinstance(node, ast.Lambda) and node.body.lineno <= max(line or 0 for _, _, line in code.co_lines()):
            names = [each.arg for each in node.args.args]
            if node.lineno == code.co_firstlineno and names == list(code.co_varnames[: len(names)]):
                return f"`{ast.unparse(node.body)}`".replace("|", "\\|")
    told = (formula.__doc__ or "").strip().partition("\n")[0]
    return f"{told} (`{code.co_name}` in `rules/{file.name}`)".replace("|", "\\|").strip()


@cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _index(families: dict[str, list[OpInfo]], internal: int) -> str:
    rows = [
        f"| [{family}]({family}.md) | {', '.join(f'`{op.name}`' for op in ops)} |"
        for family, ops in sorted(families.items())
    ]
    head = [
        "# Operators",
        "",
        f"{sum(map(len, families.values()))} operators by family. Made from the registry by `make docs`; do not edit.",
        f"[internal.md](internal.md) has the {internal} that gradients, optimizers and passes call, not users.",
        "[gradients.md](gradients.md) has the gradients of all of them on one page.",
        "",
        "An entry gives the signature, the formula with shapes, the attributes, and these facts: the types taken,",
        "whether there is a gradient (of every order unless an entry says otherwise) or why not, the ONNX operators",
        "that an export writes ([onnx.md](../../howto/onnx.md) says what an import reads), and which memory is shared.",
        "",
        "| family | operators |",
        "| --- | --- |",
    ]
    return "\n".join([*head, *rows]) + "\n"


_INTERNAL = (
    "The functions of `framework.ops.internal`: gradients, optimizer steps, and forms that passes and layers make. "
    "They may change with any version."
)


def _page(family: str, ops: list[OpInfo], types: Types, about: str = "") -> str:
    lines = [f"# Operators: {family}", "", "Made from the registry by `make docs`; do not edit.", ""]
    lines += [about, ""] if about else []
    for info in ops:
        lines += _entry(info, types(info.name))
    return "\n".join(lines).rstrip() + "\n"


def _entry(info: OpInfo, types: Mapping[str, Sequence[str]]) -> list[str]:
    lines = [f"## {info.name}", "", f"`{_signature_text(info)}`", "", info.doc, ""]
    if info.attrs:
        lines += ["| attribute | type | default | meaning |", "| --- | --- | --- | --- |"]
        lines += [_attribute_row(a) for a in info.attrs]
        lines.append("")
    facts = [*_type_facts(types), *_gradient_facts(info), _onnx_fact(info)]
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


def _type_facts(types: Mapping[str, Sequence[str]]) -> list[str]:
    """The types of the inputs, those of equal types together."""
    together: dict[tuple[str, ...], list[str]] = {}
    for name, accepted in types.items():
        together.setdefault(tuple(accepted), []).append(f"`{name}`")
    parts = [f"{', '.join(names)} {_choice(accepted)}" for accepted, names in together.items()]
    return [f"Types: {'; '.join(parts)}."] if parts else []


def _choice(types: Sequence[str]) -> str:
    if len(types) == len(DTYPES):
        return "of any type"
    return " or ".join([", ".join(types[:-1]), types[-1]] if len(types) > 1 else types)


def _gradient_facts(info: OpInfo) -> list[str]:
    """Whether it can be differentiated, by which inputs it cannot, and why."""
    if info.name in RULES.without_gradient:
        return [f"No gradient: {RULES.without_gradient[info.name]}."]
    if info.name in RULES.first_order_only:
        return [f"A gradient without one of its own: {RULES.first_order_only[info.name]}."]
    zeros = [f"The gradient by `{name}` is 0: {why}." for (op, name), why in RULES.flat.items() if op == info.name]
    held = [f"`{name}` is held fixed: {why}." for (op, name), why in RULES.held.items() if op == info.name]
    return ["Differentiable.", *zeros, *held]


def _onnx_fact(info: OpInfo) -> str:
    names = [f"`{name}`" for name in written_as(info.name)]
    return f"ONNX: {', '.join(names)}." if names else "ONNX: not written."


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


_STUB_HEAD = [
    '"""Static types of {module}, made from the registry by `make docs`; do not edit."""',
    "",
    "from collections.abc import Sequence",
    "",
    "from framework.tensors import Tensor, TensorLike",
    "",
    "__all__ = [{names}]",
    "",
]


def _stub(module: str, infos: Sequence[OpInfo]) -> str:
    names = ", ".join(f'"{info.name}"' for info in infos)
    return "\n".join([*_STUB_HEAD, *map(_stub_line, infos)]).format(module=module, names=names) + "\n"


def _stub_line(info: OpInfo) -> str:
    """The typed signature of what `dispatch.make_function` makes."""
    arguments = {a["name"]: a for a in info.inputs}
    types = {a["name"]: _TYPES[a["type"]] for a in info.attrs}
    if "axes" in types:
        types.setdefault("axis", f"{types['axes']} | None")  # the other name of axes
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
