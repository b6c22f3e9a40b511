"""No regular expression of the tree takes more than linear time; one that is put together is checked as it is made."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.patterns import USES, slowness

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("framework", "suites", "tools", "examples", "benchmarks", "scripts", "docs", "deploy", ".ci")
ALLOWED = {
    "framework/patterns.py": {"re.compile"},  # the check itself
    "framework/pattern_places.py": {"from re"},
    "tools/unicode_tables.py": {"Regex(pattern)"},  # single characters of its own, such as any letter
}
OTHERS = {"regex", "re2", "sre_parse", "sre_compile", "sre_constants"}


def sources() -> Iterator[tuple[str, str]]:
    """Name and text of all Python files, those without an ending among them."""
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix == ".py" or (not path.suffix and path.is_file() and b"python" in path.read_bytes()[:60]):
                yield name, path.read_text(encoding="utf-8")


def faults(text: str) -> list[str]:
    """What is wrong with the expressions of one module: "line: what"."""
    if not re.search(r"\b(re|Regex|regex|re2|sre_\w+)\b", text):
        return []
    tree = ast.parse(text)
    found = [f"{node.lineno}: {what}" for node in ast.walk(tree) for what in _imports(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and (how := _function(node)):
            found += [f"{node.lineno}: {what}" for what in _call(node, how, tree)]
    return found


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in {"re", *OTHERS}:
        yield f"from {node.module}: use `import re`, so that this test sees its calls"
    if isinstance(node, ast.Import):
        for name in node.names:
            if name.name in OTHERS or (name.name == "re" and name.asname):
                yield f"import {name.name} as {name.asname}: use `import re`, so that this test sees its calls"


def _function(call: ast.Call) -> str | None:
    of = call.func
    if isinstance(of, ast.Attribute) and isinstance(of.value, ast.Name) and of.value.id == "re":
        return of.attr if of.attr in (*USES, "compile") else None
    name = of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""
    return name if name == "Regex" else None


def _call(call: ast.Call, how: str, tree: ast.AST) -> Iterator[str]:
    pattern = call.args[0]
    if not isinstance(pattern, ast.Constant) or not isinstance(pattern.value, str | bytes):
        yield f"re.{how}({ast.unparse(call.args[0])}): is no literal; use framework.patterns.checked"
        return
    flags = _flags(call, how)
    for use in _uses(call, tree) if how == "compile" else ["findall" if how == "Regex" else how]:
        if fault := slowness(pattern.value, flags, use):
            yield f"{use} {pattern.value!r}: {fault}"


def _flags(call: ast.Call, how: str) -> int:
    given = [word.value for word in call.keywords if word.arg == "flags"]
    given += call.args[1:] if how == "compile" else call.args[2:] if how in ("match", "fullmatch", "search") else []
    return eval(ast.unparse(given[0]), {"re": re}) if given and how != "Regex" else 0


def _uses(call: ast.Call, tree: ast.AST) -> list[str]:
    """The methods by which a compiled expression is used in its module; all of them where it goes elsewhere."""
    holders = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and node.value is call]
    names = {target.id for node in holders for target in node.targets if isinstance(target, ast.Name)}
    loads = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load)]
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in USES]
    methods = [node.attr for node in attributes if any(node.value is load for load in loads)]
    return sorted(set(methods)) if methods and len(methods) == len(loads) else ["fullmatch", "search"]


def test_no_expression_of_the_tree_takes_more_than_linear_time():
    found = [f"{name}:{fault}" for name, text in sources() for fault in faults(text)]
    kept = [line for line in found if not any(word in line for word in ALLOWED.get(line.split(":")[0], ()))]
    assert not kept, "\n".join(kept)


@pytest.mark.parametrize(
    "text, word",
    [
        (r'import re; re.match(r"(?:\s+|#[^\n]*\n)+x", t)', "exponential"),
        (r're.search(r"\s+$", t)', "quadratic"),
        (r'X = re.compile(r"\s+$"); X.sub("", t)', "quadratic"),
        ('X = re.compile("a+$"); use(X)', "quadratic"),
        (r're.match(f"{a}+", t)', "no literal"),
        (r"re.compile(pattern)", "no literal"),
        (r"Regex(pattern)", "no literal"),
        (r"from re import match", "import re"),
        (r"import re as r", "import re"),
        (r"import regex", "import re"),
    ],
)
def test_it_finds(text, word):
    assert any(word in fault for fault in faults(text)), faults(text)


def test_it_leaves_alone_what_is_linear():
    text = (
        r'X = re.compile(r"\s+$"); X.match(t); re.findall(r"\S+", t); re.fullmatch(r"-?\d+", t); re.search("^a+$", t)'
    )
    assert not faults(text)
