"""YAML text to nodes and back: safe, YAML 1.2 scalars, line numbers kept.

Tags, anchors, aliases, merge keys and duplicate keys are refused. `5e-4` is a number; `yes`, `no`, `on`,
`off` are text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Any

import yaml

from framework import limits
from framework.errors import ConfigError
from framework.outside import read_bytes
from suites.engine.config.tree.nodes import Node, Origin, Scalar

# The core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/, section 10.3.2).
_SCALARS = {
    "null": (re.compile(r"^(?:null|Null|NULL|~|)$"), ["n", "N", "~", ""]),
    "bool": (re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    "int": (re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"), list("-+0123456789")),
    "float": (
        re.compile(r"^(?:[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"),
        list("-+.0123456789"),
    ),
}
_MARKS = frozenset("&*!%")  # without them a text has no anchors, aliases, tags and directives
_SHORT, _NESTED = 1 << 16, 500  # characters, and openings of lists and mappings, of texts that libyaml reads
_IN_LINE = re.compile(r"[-?:]\s+(?=[-?])")  # lists in lists on one line
EDITS = ("$patch", "$append", "$before", "$after")
REPLACE = "$replace"


class Reference(str):
    """A text whose `${path}` is a reference; `dump_text` writes it as it is."""


class _Refused(Exception):
    """Something that YAML allows and a config does not."""

    def __init__(self, line: int, text: str):
        super().__init__(text)
        self.line = line


class _Loader(yaml.SafeLoader):
    """Composes plain nodes with YAML 1.2 scalars; builds no objects."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (a class-level table in PyYAML too)

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            sign = "*" if isinstance(event, yaml.AliasEvent) else "&"
            raise _Refused(line, f"{sign}{event.anchor}: YAML anchors are not used; write it out (a config: ${{path}})")
        if event.tag is not None:
            raise _Refused(line, f"tag {event.tag}: tags are not allowed; a config is plain data")
        return super().compose_node(parent, index)


class _FastLoader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """The same by libyaml, for texts without anchors, aliases and tags; ten times as fast."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


class _Dumper(yaml.SafeDumper):
    """Writes text that YAML 1.1 and 1.2 readers read alike; never writes aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _name, (_pattern, _first) in _SCALARS.items():
    for _class in (_Loader, _FastLoader, _Dumper):
        _class.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", _pattern, _first)


def parse_text(text: str, source: str, numbered: bool = True) -> Node:
    """Read YAML text; `source` is the file name for origins and errors, `numbered` whether its lines are counted.

    Raises:
        ConfigError: Not valid YAML, or YAML that a config may not use; the message names the line. Or it is longer than
            the limit `yaml_bytes`.
    """
    limits.check("yaml_bytes", len(text), f"{source}: it has too many characters", ConfigError)

    def place(line: int) -> Origin:
        return Origin(source, line if numbered else 0)

    bad = yaml.SafeLoader.NON_PRINTABLE.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        raise ConfigError(f"{place(line)}: holds the control character {bad.group()!r}; is it a text file?")
    try:
        tree = _composed(text)
        return Node(None, place(1)) if tree is None else _convert(tree, place)
    except _Refused as error:
        raise ConfigError(f"{place(error.line)}: {error}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        what = f"not valid YAML: {error.problem or error.context}{_hint(text, line)}"
        raise ConfigError(f"{place(line)}: {what}") from None
    except RecursionError:
        raise ConfigError(f"{source}: nested too deeply to read") from None


def _composed(text: str) -> yaml.Node | None:
    """The tree of a text. Whatever libyaml does not take is read again for the message that says where and why.

    libyaml recurses without a limit, so it gets no text that could be deep.
    """
    deep = len(text) > _SHORT or sum(map(text.count, "[{")) > _NESTED or len(_IN_LINE.findall(text)) > _NESTED
    if not deep and _MARKS.isdisjoint(text):
        try:
            return _FastLoader(text).get_single_node()
        except yaml.YAMLError:
            pass
    return _Loader(text).get_single_node()


def read_file(path: FilePath, source: str) -> Node:
    """Read one YAML file as a mapping.

    Raises:
        ConfigError: It cannot be read, is not UTF-8, is not valid YAML or holds no mapping.
    """
    try:
        text = read_bytes(path, "yaml_bytes", ConfigError).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{source}: cannot read this config ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: is not UTF-8 text (byte {error.start}){_if_data(path, source)}") from None
    node = parse_text(text, source)
    if not isinstance(node.value, dict):
        found = "is empty" if node.value is None else "is a list or a single value"
        what = f"{found}; a config is a mapping such as 'model: {{...}}'{_if_data(path, source)}"
        raise ConfigError(f"{source}:{node.origin.line}: {what}")
    return node


def _if_data(path: FilePath, source: str) -> str:
    """What else to do with a file that is not named as a config."""
    if path.suffix.lower() in (".yml", ".yaml"):
        return ""
    return f"; where it is data, `paddock data check {source}` says what trains on it"


def dump_text(value: Any) -> str:
    """YAML text of plain dicts, lists and scalars; `parse_text` reads back exactly the same."""
    return yaml.dump(
        _escaped(value),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=110,
        default_flow_style=None,
    )


def _hint(text: str, line: int) -> str:
    """What usually causes a syntax error in such a line, if anything is known."""
    lines = text.splitlines()
    wrong = lines[line - 1] if line <= len(lines) else ""
    *before, _ = wrong.split("${")
    if before and not set("[{,:").isdisjoint(before[0]) and not all(part.endswith(('"', "'")) for part in before):
        return '; inside { } or [ ] quote references: "${path}"'
    return "; indent with spaces, not tabs" if "\t" in wrong else ""


def _convert(node: yaml.Node, place: Callable[[int], Origin], line: int | None = None) -> Node:
    """A YAML node as ours; `line` (from 1) overrides its own, for values that stand under a key."""
    origin = place(node.start_mark.line + 1 if line is None else line)
    if isinstance(node, yaml.MappingNode):
        return Node(_convert_mapping(node, place), origin)
    if isinstance(node, yaml.SequenceNode):
        return Node([_convert(item, place) for item in node.value], origin)
    assert isinstance(node, yaml.ScalarNode)
    return Node(_scalar(node), origin)


def _convert_mapping(node: yaml.MappingNode, place: Callable[[int], Origin]) -> dict[str, Node]:
    children: dict[str, Node] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise _Refused(line, "a key must be a plain name, not a list or mapping")
        key = str(key_node.value)
        if key in children:
            first = children[key].origin.line
            raise _Refused(line, f"key '{key}' is written twice, first in line {first}; keep one")
        if key == "<<":
            raise _Refused(line, "'<<' merge keys are not used here; use 'extends:' or ${path}")
        if key.startswith("$") and key not in (*EDITS, REPLACE):
            raise _Refused(line, f"'{key}' is not an edit; there are: {', '.join((*EDITS, REPLACE))}")
        children[key] = _convert(value_node, place, line)
    return children


def _scalar(node: yaml.ScalarNode) -> Scalar:
    kind = node.tag.rpartition(":")[2]
    text = str(node.value)
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "float":
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    if kind != "int":
        return text
    try:
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    except ValueError:  # Python refuses to convert thousands of digits
        raise _Refused(node.start_mark.line + 1, f"the number {text[:20]}... is too long") from None


def _escaped(value: Any) -> Any:
    """Protect text that would read as a reference."""
    if isinstance(value, dict):
        return {key: _escaped(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(child) for child in value]
    if isinstance(value, Reference):
        return str(value)
    return value.replace("${", "$${") if isinstance(value, str) else value
