"""What a class or function takes, read from its signature, type hints and Google-style docstring."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from framework.errors import ConfigError

REQUIRED: Any = inspect.Parameter.empty

_FIXED_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_SECTION = re.compile(r"^(\w[\w ]*):\s*$")
_ARGUMENT = re.compile(r"^(\w+(?:, \w+)*)(?:\s*\([^)]*\))?:\s*(\S.*)?$")


@dataclass(frozen=True)
class Parameter:
    """One argument: its name, type hint (`Any` if there is none), default (or REQUIRED) and documentation."""

    name: str
    hint: Any
    default: Any
    doc: str

    @property
    def required(self) -> bool:
        """Whether the argument must be given."""
        return self.default is REQUIRED


@dataclass(frozen=True)
class Unreadable:
    """Stands for a type hint that cannot be read at run time; such an argument can only be supplied by code."""

    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.text}, a type hint that cannot be read at run time ({self.reason})"


@dataclass(frozen=True)
class Signature:
    """The arguments of a component, in order, and the first sentence of its documentation."""

    parameters: dict[str, Parameter]
    summary: str


@functools.cache
def signature_of(target: Callable[..., Any]) -> Signature:
    """Read the arguments of a class's constructor or of a function.

    Raises:
        ConfigError: It takes ``*args`` or ``**kwargs``, or a type hint cannot be read, so a file cannot be
        checked.
    """
    if typing.get_origin(target) is not None:
        raise ConfigError(f"{target}: only plain classes and functions can be components")
    hints = _hints(target)
    defaults = _field_defaults(target)
    docs = _argument_docs(target)
    parameters = {}
    for parameter in _raw_parameters(target):
        if parameter.kind not in _FIXED_KINDS:
            raise ConfigError(
                f"{target.__qualname__} takes '{parameter}'; a component names each of its arguments, "
                f"so that a config can be checked against them"
            )
        name = parameter.name
        default = defaults.get(name, parameter.default)
        parameters[name] = Parameter(name, hints.get(name, Any), default, docs.get(name, ""))
    return Signature(parameters, _summary(target))


def _raw_parameters(target: Callable[..., Any]) -> list[inspect.Parameter]:
    if not inspect.isclass(target):
        return list(inspect.signature(target).parameters.values())
    if target.__init__ is object.__init__:
        return []
    return list(inspect.signature(target.__init__).parameters.values())[1:]  # without self


def _hints(target: Callable[..., Any]) -> dict[str, Any]:
    """Type hints by name, one by one, so that an unreadable one spoils no other."""
    hints: dict[str, Any] = {}
    for holder in _annotated(target):
        names = getattr(holder, "__globals__", None) or vars(sys.modules[holder.__module__])
        for name, annotation in inspect.get_annotations(holder).items():
            hints[name] = _read_hint(annotation, names)
    return hints


def _annotated(target: Callable[..., Any]) -> list[Any]:
    """What carries the annotations: the function, the constructor, or a dataclass and its bases."""
    if not inspect.isclass(target):
        return [target]
    if dataclasses.is_dataclass(target):
        return [cls for cls in reversed(target.__mro__) if cls is not object]
    return [] if target.__init__ is object.__init__ else [inspect.unwrap(target.__init__)]


def _read_hint(annotation: Any, names: dict[str, Any]) -> Any:
    def carrier() -> None: ...

    carrier.__annotations__ = {"hint": annotation}
    try:
        return typing.get_type_hints(carrier, names, include_extras=True)["hint"]
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        return Unreadable(str(annotation), str(error))


def _field_defaults(target: Callable[..., Any]) -> dict[str, Any]:
    """Defaults that a dataclass makes by a factory; its signature shows only a placeholder for them."""
    if not dataclasses.is_dataclass(target):
        return {}
    return {
        f.name: f.default_factory() for f in dataclasses.fields(target) if f.default_factory is not dataclasses.MISSING
    }


def _documentation(target: Callable[..., Any]) -> Iterator[str]:
    """Docstrings that may describe arguments, the most specific first."""
    if not inspect.isclass(target):
        yield inspect.getdoc(target) or ""
        return
    for cls in target.__mro__[:-1]:
        for holder in (cls, cls.__dict__.get("__init__")):
            doc = getattr(holder, "__doc__", None)
            if doc:
                yield inspect.cleandoc(doc)


def _argument_docs(target: Callable[..., Any]) -> dict[str, str]:
    docs: dict[str, str] = {}
    for text in _documentation(target):
        for name, doc in parse_arguments(text).items():
            docs.setdefault(name, doc)
    return docs


def parse_arguments(docstring: str) -> dict[str, str]:
    """Argument name to text, from the `Args:` and `Attributes:` sections of a Google-style docstring.

    A line such as ``low, high: Limits.`` documents both names.
    """
    docs: dict[str, str] = {}
    inside, indent = False, 0
    names: list[str] = []
    for line in docstring.splitlines():
        stripped = line.strip()
        depth = len(line) - len(line.lstrip())
        if stripped and depth == 0:
            section = _SECTION.match(line)
            inside, indent, names = section is not None and section[1] in ("Args", "Attributes"), 0, []
        elif inside and stripped:
            indent = indent or depth
            argument = _ARGUMENT.match(stripped) if depth == indent else None
            if argument:
                names = argument[1].split(", ")
            for name in names:
                docs[name] = (argument[2] or "") if argument else f"{docs[name]} {stripped}".strip()
    return docs


def _summary(target: Callable[..., Any]) -> str:
    """The first paragraph's first line; nothing for the signature that a dataclass gets as a docstring."""
    doc = target.__doc__ or ""
    if dataclasses.is_dataclass(target) and doc.startswith(f"{target.__name__}("):
        return ""
    return inspect.cleandoc(doc).splitlines()[0] if doc.strip() else ""
