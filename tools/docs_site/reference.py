"""The generated half of the reference as Markdown: components, keys of configs, shipped configs, layers, commands.

Everything is read from registries, signatures, docstrings and `--help`; nothing here names a single component.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from framework import nn
from framework.errors import ConfigError
from suites.engine import cli
from suites.engine.config.report import inner_slot
from suites.engine.config.schema.components import Component, Section, slot_of
from suites.engine.config.schema.signatures import Parameter, signature_of
from suites.engine.config.tree.shipped import configs_folder, shipped_configs
from suites.engine.registry import REGISTRY, Registry, load_suites, suite_names

SHARED = "shared"  # the page of what all suites share
_MADE = "Made from the code by `make site`."
_CONFIG = "config"  # the role of the sections of a suite's configs
_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields|Example|Examples):$")
_CODE = re.compile(r"(`[^`]*`)")


def reference_pages() -> dict[str, str]:
    """Return the text of each generated page, by its path below `reference/`."""
    load_suites(suite_names())
    pages = {f"components/{suite or SHARED}.md": _components(suite) for suite in [None, *suite_names()]}
    pages |= {f"config/{suite}.md": _config_keys(suite) for suite in suite_names()}
    return pages | {"configs.md": _configs(), "layers.md": _layers(), "commands.md": _commands()}


def _components(suite: str | None) -> str:
    """All components that a suite registers, or that all share, by role."""
    own, seen = REGISTRY.owned_by(suite), REGISTRY.seen_by(suite) if suite else REGISTRY
    title = f"Components of {suite}" if suite else "Components that all suites share"
    lines = [f"# {title}", "", f"What `type:` may name in a config. {_MADE}"]
    for role in own.roles():
        names = own.names(role)
        if role == _CONFIG or not names:
            continue
        lines += ["", f"## {role}", "", plain(seen.role(role).doc)]
        for name in names:
            lines += ["", *_component(name, own.get(role, name), seen, seen.role(role).supplied)]
    return _page(lines)


def _component(name: str, target: Callable[..., Any], seen: Registry, supplied: tuple[str, ...]) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    yield f"`{target.__module__}.{target.__qualname__}`"
    yield ""
    yield from described(_own_doc(target))
    rows = list(_rows(seen, signature_of(target).parameters, supplied))
    yield from _table(("argument", "takes", "default", "meaning"), rows) if rows else ["Takes no arguments."]


def _config_keys(suite: str) -> str:
    """The sections of a suite's configs, each key with its full path."""
    seen = REGISTRY.seen_by(suite)
    target = seen.get(_CONFIG, suite)
    lines = [f"# Config of {suite}", "", *described(_own_doc(target))]
    lines += ["", f"`paddock config help {suite}` prints the same. {_MADE}"]
    for parameter in signature_of(target).parameters.values():
        rows = list(_rows(seen, {parameter.name: parameter}, ()))
        lines += ["", f"## {parameter.name}", "", plain(parameter.doc), "", *_table(_KEYS, rows)]
    return _page(lines)


_KEYS = ("key", "takes", "default", "meaning")


def _rows(
    seen: Registry, parameters: Mapping[str, Parameter], supplied: tuple[str, ...], before: str = ""
) -> Iterator[tuple[str, ...]]:
    """A row of each argument, and of each key of the sections among them."""
    for parameter in parameters.values():
        path = before + parameter.name
        if parameter.name in supplied:
            yield f"`{path}`", "supplied by code", "", plain(parameter.doc)
            continue
        slot = slot_of(parameter.hint, seen)
        takes = plain(slot.describe())
        if isinstance(component := inner_slot(slot, Component), Component):
            takes += ": " + ", ".join(f"`{name}`" for name in component.names())
        yield f"`{path}`", takes, _default(parameter), plain(parameter.doc)
        if isinstance(section := inner_slot(slot, Section), Section):
            yield from _rows(seen, section.arguments.parameters, (), f"{path}.")


def _default(parameter: Parameter) -> str:
    if parameter.required:
        return "needed"
    value = parameter.default
    simple = value is None or isinstance(value, (bool, int, float, str, Path, tuple, list, dict))
    return f"`{value!r}`" if simple else "its own"


def _configs() -> str:
    """All configs that come with Paddock, each with the comment that it begins with."""
    by_suite: dict[str, list[tuple[str, str]]] = {}
    for name in shipped_configs():
        text = (configs_folder() / f"{name}.yml").read_text(encoding="utf-8")
        comment = " ".join(line[1:].strip() for line in _leading(text.splitlines()))
        by_suite.setdefault(name.partition("/")[0], []).append((f"`{name}`", plain(comment)))
    lines = ["# Configs that come with Paddock", "", f"`paddock train NAME -o path=value`. {_MADE}"]
    for suite, rows in by_suite.items():
        lines += ["", f"## {suite}", "", *_table(("name", "what"), rows)]
    return _page(lines)


def _leading(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if not line.startswith("#"):
            return
        yield line


def _layers() -> str:
    """The public classes of `framework.nn`."""
    lines = [
        "# Layers",
        "",
        f"`from framework import nn`. How to use them: [Layers](../explanation/layers.md). {_MADE}",
    ]
    for name in nn.__all__:
        layer = getattr(nn, name)
        if not isinstance(layer, type):
            continue
        lines += ["", f"## {name}", "", f"`nn.{name}{inspect.signature(layer)}`", "", *described(_own_doc(layer))]
        with contextlib.suppress(ConfigError):  # one that takes any number of arguments has no table
            told = [p for p in signature_of(layer).parameters.values() if p.doc]
            lines += _table(("argument", "meaning"), [(f"`{p.name}`", plain(p.doc)) for p in told]) if told else []
    return _page(lines)


def _commands() -> str:
    """What `--help` says, of each command and of the commands below it."""
    lines = ["# Commands", "", f"The same is printed by `--help`. {_MADE}", "", *_fenced(cli.help_text(cli.commands()))]
    for name in cli.commands():
        said = _help(name)
        lines += ["", f"## paddock {name}", "", *_fenced(said)]
        for below in re.findall(r"^    (\w+)  ", said, re.M) if "\n  COMMAND\n" in said else []:
            lines += ["", f"### paddock {name} {below}", "", *_fenced(_help(name, below))]
    return _page(lines)


def _help(*words: str) -> str:
    said = io.StringIO()
    with mock.patch.dict(os.environ, COLUMNS="100"), contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        cli.main([*words, "--help"])
    return said.getvalue()


def _fenced(text: str) -> list[str]:
    return ["```text", text.rstrip(), "```"]


def _own_doc(target: Callable[..., Any]) -> str:
    """The documentation of a class or function; "" for the signature that a dataclass without any gets."""
    doc = inspect.cleandoc(target.__doc__ or "")
    return "" if doc.startswith(f"{target.__name__}(") else doc


def described(doc: str) -> Iterator[str]:
    """The lines of a docstring as Markdown, without its arguments, which stand in a table."""
    section: str | None = None
    for line in doc.splitlines():
        if found := _SECTION.match(line):
            section = found[1]
            if section not in ("Args", "Attributes"):
                yield from ("", f"{section}:", "")
        elif line and not line.startswith(" "):
            section = None
            yield plain(line)
        elif section in ("Example", "Examples"):
            yield line
        elif section not in ("Args", "Attributes"):
            yield plain(line.strip())
    yield ""


def plain(text: str) -> str:
    """Text in which Markdown finds nothing but code between backticks."""
    parts = _CODE.split(text)
    return "".join(part if i % 2 else re.sub(r"([*<\[\]])", r"\\\1", part) for i, part in enumerate(parts))


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    cells = [head, ("---",) * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in cells]


def _page(lines: Iterable[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"
