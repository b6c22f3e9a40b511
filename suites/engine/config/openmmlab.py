"""Configs of OpenMMLab's toolboxes, read as data and written as ours: `paddock config from-mm FILE`.

Their configs are Python files. Nothing of one is run: assignments of plain values, `dict(...)`, names that were
assigned before, `_base_` and arithmetic of numbers are read from the file's syntax; anything else is an error with its
line. A suite registers what it translates in the role `openmmlab`, by the `type` of the model there: a function of a
`Foreign`, which returns a config of ours. What the function does not look at is listed as not translated.
"""

from __future__ import annotations

import ast
import json
import operator
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from framework.errors import ConfigError
from framework.outside import read_text
from suites.engine.data.intake.naming import shown
from suites.engine.names import did_you_mean, listing
from suites.engine.registry import REGISTRY, load_suites, suite_names

ROLE = "openmmlab"
_DEEPEST = 20  # of files that name their bases
_MOST_VALUES = 200_000  # a value that is named twice counts twice
_MOST_CHARACTERS = 1 << 20  # of a file
_LONGEST = 100_000  # of a text or list that arithmetic makes
_LARGEST = 1e15
_SHOWN = 300  # characters of a note
_BASE, _DELETE = "_base_", "_delete_"
# What other programs do with it: logging, launching, places of files.
_IDLE_NAMES = """
default_scope default_hooks custom_hooks env_cfg vis_backends visualizer log_processor log_level log_config load_from
resume resume_from file_client_args backend_args launcher work_dir dist_params workflow checkpoint_config evaluation
opencv_num_threads mp_start_method dataset_type data_root train_pipeline test_pipeline val_pipeline val_cfg test_cfg
val_evaluator test_evaluator test_dataloader auto_scale_lr classes num_classes img_norm_cfg metainfo class_name
custom_imports randomness find_unused_parameters norm_cfg conv_cfg act_cfg crop_size img_scale data_preprocessor
preprocess_cfg data_root_val ann_file_train ann_file_val ann_file_test split
"""
_IDLE = frozenset(_IDLE_NAMES.split())
_NUMBERS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def read_mm(path: Path) -> dict[str, Any]:
    """The values that a config of OpenMMLab has, with those of its bases.

    Raises ConfigError, with file and line, for what is no plain value, for a base that is not there, and for a file
    that is no Python.
    """
    return _Reader([_MOST_VALUES]).read(path, ())


class _Reader:
    """Reads files; of all together `left[0]` more values may be made."""

    def __init__(self, left: list[int]) -> None:
        self._left = left

    def read(self, path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
        here = path.resolve()
        if here in above or len(above) >= _DEEPEST:
            raise ConfigError(f"{path}: names itself among its bases, or {_DEEPEST} bases above each other")
        if not path.is_file():
            of = f", a base of {above[-1]}" if above else ""
            raise ConfigError(
                f"{path}: there is no such file{of}; bases are looked for beside the file that names them"
            )
        try:
            text = read_text(path, error=ConfigError)
            if len(text) > _MOST_CHARACTERS:
                raise ConfigError(f"{path}: has {len(text)} characters; a config has {_MOST_CHARACTERS} at most")
            tree = ast.parse(text, str(path))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            raise ConfigError(f"{path}{f':{line}' if line else ''}: is no config in Python ({error})") from None
        return self._values(path, tree, (*above, here))

    def _values(self, path: Path, tree: ast.Module, above: tuple[Path, ...]) -> dict[str, Any]:
        bases: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for statement in tree.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue  # a docstring
            if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
                raise self._refused(path, statement)
            target = statement.targets[0]
            if not isinstance(target, ast.Name):
                raise self._refused(path, statement)
            try:
                value = self._value(path, statement.value, ChainMap(own, bases, {_BASE: bases}))
            except RecursionError:
                raise ConfigError(f"{path}:{statement.lineno}: is nested too deep") from None
            except TypeError as error:  # such as a list as a key
                raise ConfigError(f"{path}:{statement.lineno}: is no plain value ({error})") from None
            if target.id == _BASE:
                names = [value] if isinstance(value, str) else value
                if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                    raise ConfigError(f"{path}:{statement.lineno}: {_BASE} must be the names of files")
                for name in names:
                    bases = merged(bases, self.read(path.parent / name, above))
            else:
                own[target.id] = value
        return merged(bases, own)

    def _count(self, path: Path, value: Any) -> Any:
        """The value, which counts with all that is inside of it."""
        self._left[0] -= 1
        if self._left[0] < 0:
            raise ConfigError(f"{path}: has more than {_MOST_VALUES} values; that is no config")
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            self._count(path, inner)
        return value

    def _named(self, path: Path, node: ast.expr, known: Mapping[str, Any]) -> Any:
        """What a name, or a place inside of one, stands for."""
        match node:
            case ast.Name(id=name):
                if name not in known:
                    raise ConfigError(f"{path}:{node.lineno}: the name '{name}' was not assigned before")
                return known[name]
            case ast.Attribute(value=inner, attr=name):
                return self._inside(path, node, self._named(path, inner, known), name)
            case ast.Subscript(value=inner, slice=ast.Constant(value=str() | int() as name)):
                return self._inside(path, node, self._named(path, inner, known), name)
        raise self._refused(path, node)

    def _value(self, path: Path, node: ast.expr, known: Mapping[str, Any]) -> Any:
        self._count(path, None)

        def of(inner: ast.expr) -> Any:
            return self._value(path, inner, known)

        match node:
            case ast.Constant(value=None | bool() | int() | float() | str() as value):
                return value
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return [of(element) for element in elements]
            case ast.Dict(keys=keys, values=values) if all(key is not None for key in keys):
                return {of(key): of(value) for key, value in zip(keys, values, strict=True) if key is not None}
            case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
                found: dict[str, Any] = {}
                for keyword in keywords:
                    value = of(keyword.value)
                    if keyword.arg is not None:
                        found[keyword.arg] = value
                    elif isinstance(value, dict):
                        found |= value
                    else:
                        raise self._refused(path, node)
                return found
            case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner], keywords=[]):
                return list(of(inner))
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self._count(path, self._named(path, node, known))
            case ast.Set(elts=[ast.Set(elts=[inner])]):  # {{_base_.name}}
                return of(inner)
            case ast.UnaryOp(op=ast.USub(), operand=inner) if isinstance(value := of(inner), int | float):
                return -value
            case ast.BinOp(left=left, op=how, right=right) if type(how) in _NUMBERS:
                return self._computed(path, node, of(left), _NUMBERS[type(how)], of(right))
        raise self._refused(path, node)

    def _inside(self, path: Path, node: ast.expr, value: Any, name: str | int) -> Any:
        try:
            return value[name]
        except (KeyError, IndexError, TypeError):
            raise ConfigError(f"{path}:{node.lineno}: there is no '{name}' in what it is asked of") from None

    def _computed(self, path: Path, node: ast.expr, a: Any, how: Callable[[Any, Any], Any], b: Any) -> Any:
        """Arithmetic of numbers whose results stay small; texts and lists are joined."""
        numbers = all(isinstance(x, int | float) and abs(x) < _LARGEST for x in (a, b))
        joined = how is operator.add and type(a) is type(b) and isinstance(a, str | list)
        repeated = how is operator.mul and isinstance(a, str | list) and type(b) is int and len(a) * b <= _LONGEST
        if not (numbers or joined or repeated) or (how is operator.pow and abs(b) > 64):
            raise self._refused(path, node)
        try:
            found = how(a, b)
        except (ArithmeticError, ValueError):
            raise self._refused(path, node) from None
        if isinstance(found, complex) or (isinstance(found, str | list) and len(found) > _LONGEST):
            raise self._refused(path, node)
        return self._count(path, found)

    def _refused(self, path: Path, node: ast.stmt | ast.expr) -> ConfigError:
        text = ast.unparse(node).splitlines()[0][:80]
        return ConfigError(
            f"{path}:{node.lineno}: `{text}` is no plain value. Nothing of the file is run: write the config out with "
            "its own tool (`python tools/misc/print_config.py FILE`) and translate that"
        )


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two configs as theirs go together: mappings key by key, unless one above has `_delete_`; else the one above."""
    found = dict(below)
    for key, value in above.items():
        if isinstance(value, dict):
            old = found.get(key)
            plain = {name: each for name, each in value.items() if name != _DELETE}
            found[key] = merged(old if isinstance(old, dict) and not value.get(_DELETE) else {}, plain)
        else:
            found[key] = value
    return found


class Foreign:
    """A config of theirs that remembers which of its values were looked at.

    Args:
        values: plain data.
        name: of the file, for messages.
    """

    def __init__(self, values: Mapping[str, Any], name: str) -> None:
        self._values, self.name = values, name
        self._taken: set[str] = set()
        self.notes: list[str] = []

    def get(self, path: str, default: Any = None) -> Any:
        """The value at a dotted path, such as "model.backbone.depth"; it and all below count as looked at."""
        self._taken.add(path)
        return self._at(path, default)

    def peek(self, path: str) -> Any:
        """The value at a path, or None; it does not count as looked at."""
        return self._at(path)

    def _at(self, path: str, default: Any = None) -> Any:
        value: Any = self._values
        for key in path.split("."):
            if isinstance(value, list) and key.isdigit() and int(key) < len(value):
                value = value[int(key)]
            elif isinstance(value, Mapping) and key in value:
                value = value[key]
            else:
                return default
        return value

    def number(self, path: str, default: float | None = None) -> Any:
        """A number; ConfigError where another value stands there, or none and there is no default."""
        found = self.get(path, default)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise ConfigError(f"{self.name}: {path} is {str(found)[:60]!r}; it must be a number")
        return found

    def has(self, path: str) -> bool:
        """Whether there is such a value, not None."""
        return self._at(path) is not None

    def note(self, text: str) -> None:
        """Say what is another thing here; in one line, whatever of theirs stands in it."""
        self.notes.append(shown(text[:_SHOWN]))

    def left(self) -> Iterator[str]:
        """Paths of values that nothing looked at, but for those of other programs' running."""
        for key, value in self._values.items():
            if key not in _IDLE:
                yield from self._left(key, value)

    def _left(self, path: str, value: Any) -> Iterator[str]:
        if path in self._taken:
            return
        if isinstance(value, Mapping) and any(each.startswith(f"{path}.") for each in self._taken):
            for key, inner in value.items():
                yield from self._left(f"{path}.{key}", inner)
        else:
            yield path


def translate(path: Path) -> tuple[dict[str, Any], list[str]]:
    """A config of ours for one of theirs, as plain data, and what of theirs is not in it, or is otherwise.

    Raises ConfigError for a file that cannot be read as data, and for a model that no suite translates.
    """
    values = read_mm(path)
    foreign = Foreign(values, str(path))
    kind = foreign.get("model.type")
    load_suites(suite_names())
    known = sorted({name for suite in suite_names() for name in REGISTRY.owned_by(suite).names(ROLE)})
    owner = next((s for s in suite_names() if isinstance(kind, str) and kind in REGISTRY.owned_by(s).names(ROLE)), None)
    if owner is None:
        hint = did_you_mean(str(kind), known) or ";"
        raise ConfigError(f"{path}: model.type is {str(kind)[:60]!r}{hint} translated are {listing(known)}")
    function: Callable[[Foreign], dict[str, Any]] = REGISTRY.owned_by(owner).get(ROLE, str(kind))
    try:
        found = json.loads(json.dumps(function(foreign), allow_nan=False))  # plain data, each part of it its own
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise ConfigError(f"{path}: holds something of another form than {kind} has there ({error})") from None
    for each in foreign.left():
        foreign.note(f"not translated: {each}")
    return found, foreign.notes
