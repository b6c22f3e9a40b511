"""Replace ``${path}`` by the value at that path: as it is where it stands alone, as text inside other text.

``$${`` stands for a literal ``${``. Paths count from the top of the config.
"""

from __future__ import annotations

import re
from dataclasses import replace

from framework.errors import ConfigError
from framework.limits import check
from suites.engine.config.tree.lookups import step_into
from suites.engine.config.tree.nodes import Node, Origin, Problem
from suites.engine.config.tree.paths import Path, Selector, Step, format_path, parse_path

_REFERENCE = re.compile(r"(?<!\$)\$\{([^{}]*)\}")
_TOP: Path = ()
_ALONE = re.compile(r"\$\{([^{}]*)\}")


def resolve(root: Node) -> Node:
    """The config with every reference replaced; values remember the reference that gave them.

    Raises:
        ConfigError: A reference is misspelt, names nothing, or leads back to itself; the message names its
        line.
    """
    try:
        return _Resolver(root).deep(root, ())
    except RecursionError:
        raise ConfigError(f"{root.origin}: its references or values lie too deep in each other") from None


def names_in(text: str) -> list[str]:
    """The key paths that the references of a text name."""
    return _REFERENCE.findall(text)


class _Resolver:
    def __init__(self, root: Node) -> None:
        self._root = root
        self._open: list[Path] = []  # places whose references are being followed, outermost first
        self._known: dict[Path, Node] = {}  # texts with references, resolved
        self._chars = 0  # that references have filled into texts
        self._made = 0  # values that references have given, those inside of mappings and lists too

    def deep(self, node: Node, path: Path) -> Node:
        """`node` with everything below it resolved."""
        if isinstance(node.value, str):
            return self._text(node, path) if "${" in node.value else node
        if isinstance(node.value, dict):
            children = {key: self.deep(child, (*path, key)) for key, child in node.value.items()}
            return replace(node, value=children)
        if isinstance(node.value, list):
            items = [self.deep(child, child_path) for child_path, child in node.children(path)]
            return replace(node, value=items)
        return node

    def _text(self, node: Node, path: Path) -> Node:
        text = node.value
        assert isinstance(text, str)
        if path in self._known:
            return self._known[path]
        if path in self._open:
            loop = " -> ".join(format_path(p) for p in [*self._open[self._open.index(path) :], path])
            raise _error(node.origin, path, f"{text} leads back to itself: {loop}")
        self._open.append(path)
        try:
            alone = _ALONE.fullmatch(text)
            if alone:
                found = self._follow(alone[1], node.origin, path)
                return self._keep(path, _relabel(found, node, text))
            filled = _REFERENCE.sub(lambda m: self._as_text(m[1], node.origin, path), text)
        finally:
            self._open.pop()
        if "${" in filled.replace("$${", ""):
            raise _error(node.origin, path, f"{text!r} has an unfinished reference; write ${{path}}, or $${{ for ${{")
        value = filled.replace("$${", "${")
        return self._keep(path, replace(node, value=value, reference=text if _REFERENCE.search(text) else ""))

    def _keep(self, path: Path, node: Node) -> Node:
        """The node, resolved once for all references to it; each of them is a copy, and copies are counted."""
        self._made += _count(node)
        problem = _where(node.origin, path, "the references lead to too many values")
        check("references", self._made, problem, ConfigError)
        self._known[path] = node
        return node

    def _follow(self, written: str, origin: Origin, path: Path) -> Node:
        """The resolved node at `written`; references met on the way are followed too."""
        try:
            node, at = self._root, _TOP
            for step in parse_path(written):
                exact, node = self._step(node, step, at)
                at = (*at, exact)
        except ConfigError as error:
            raise _error(origin, path, f"${{{written}}}: {error}") from None
        return self.deep(node, at)

    def _step(self, node: Node, step: str | Selector, at: Path) -> tuple[Step, Node]:
        if isinstance(node.value, str) and "${" in node.value:
            node = self._text(node, at)
        return step_into(node, step, at)

    def _as_text(self, reference: str, origin: Origin, path: Path) -> str:
        value = self._follow(reference, origin, path).value
        if isinstance(value, (dict, list)):
            kind = "mapping" if isinstance(value, dict) else "list"
            raise _error(origin, path, f"${{{reference}}} is a {kind}; only a single value can stand inside text")
        if value is None or isinstance(value, bool):
            return {None: "null", True: "true", False: "false"}[value]
        written = str(value).replace("${", "$${")
        self._chars += len(written)
        problem = _where(origin, path, "the references fill in too long a text")
        check("reference_chars", self._chars, problem, ConfigError)
        return written


def _relabel(found: Node, site: Node, text: str) -> Node:
    """The found value as it appears at the reference: written there, referring to where it was found."""
    if isinstance(found.value, dict):
        value = {key: _relabel(child, site, text) for key, child in found.value.items()}
        return Node(value, site.origin, site.overrode, text, found.origin, found.note)
    if isinstance(found.value, list):
        items = [_relabel(child, site, text) for child in found.value]
        return Node(items, site.origin, site.overrode, text, found.origin)
    return replace(found, origin=site.origin, overrode=site.overrode, reference=text, referent=found.origin)


def _count(node: Node) -> int:
    """Values in a node, itself among them."""
    below = node.value.values() if isinstance(node.value, dict) else node.value if isinstance(node.value, list) else ()
    return 1 + sum(map(_count, below))


def _where(origin: Origin, path: Path, text: str) -> str:
    return str(Problem(origin, path, text))


def _error(origin: Origin, path: Path, text: str) -> ConfigError:
    return ConfigError(str(Problem(origin, path, text)))
