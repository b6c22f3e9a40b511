"""Components by role: what a config may name with `type:`, and which slot each of them fits.

A role is an open string such as ``backbone`` or ``loss``. A registry maps (role, type name) to a class or
function, whose signature is the schema of its part of a config (see `suites.engine.config`).
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from framework.errors import ConfigError
from suites.engine.names import did_you_mean, listing, nearest

Target = TypeVar("Target", bound=Callable[..., Any])

_SHARED_PACKAGES = ("engine", "vision")  # no suites of their own: every suite may use them


@dataclass(frozen=True)
class Role:
    """One role: which base class its components share and which arguments code gives them.

    Attributes:
        name: The role's name, e.g. ``neck``.
        base: Class that every class of this role derives from; a parameter annotated with it is a slot of
            this role.
        supplied: Constructor arguments that code gives, not the file, e.g. ``("in_channels",)``. They are
            offered: a component takes those that its signature names.
        doc: One line for `tools/config.py list`.
    """

    name: str
    base: type | None = None
    supplied: tuple[str, ...] = ()
    doc: str = ""


class Registry:
    """Maps (role, type name) to a class or function. Programs use `REGISTRY`; tests make their own."""

    def __init__(self) -> None:
        self._roles: dict[str, Role] = {}
        self._parts: dict[str, dict[str, Callable[..., Any]]] = {}

    def register_role(
        self, name: str, base: type | None = None, *, supplied: Iterable[str] = (), doc: str = ""
    ) -> Role:
        """Declare a role. Undeclared roles work too; they have no base class and nothing is supplied.

        Raises:
            ConfigError: The role or the base class is declared already.
        """
        if name in self._roles:
            raise ConfigError(f"registry: role '{name}' is declared twice; choose another name")
        taken = next((r.name for r in self._roles.values() if base is not None and r.base is base), None)
        if taken is not None:
            raise ConfigError(
                f"registry: {getattr(base, '__name__', base)} is the base of role '{taken}' already, "
                f"so it cannot be the base of role '{name}' too; derive another class"
            )
        role = Role(name, base, tuple(supplied), doc)
        for part_name, part in self._parts.get(name, {}).items():
            _require_base(role, part_name, part)
        self._roles[name] = role
        return role

    def register(self, role: str, name: str | None = None) -> Callable[[Target], Target]:
        """Decorate a class or function so that a config can name it in slots of `role`.

        Args:
            role: Role of the component.
            name: Its type name; the class's or function's own name by default.

        Raises:
            ConfigError: The name is taken in this role, or the class does not derive from the role's base.

        Example:
            >>> @register("backbone")            # doctest: +SKIP
            ... class MobileNetV1(Backbone): ...
        """

        def decorate(target: Target) -> Target:
            part_name = name if name is not None else target.__name__
            parts = self._parts.setdefault(role, {})
            if part_name in parts:
                raise ConfigError(
                    f"registry: {role} '{part_name}' is registered twice, by {_where(parts[part_name])} "
                    f"and by {_where(target)}; give one of them another name"
                )
            if role in self._roles:
                _require_base(self._roles[role], part_name, target)
            parts[part_name] = target
            return target

        return decorate

    def get(self, role: str, name: str) -> Callable[..., Any]:
        """The class or function registered as `name` for `role`.

        Raises:
            ConfigError: There is none; the message names the nearest and lists all.
        """
        parts = self._parts.get(role, {})
        if name in parts:
            return parts[name]
        raise ConfigError(self.missing(role, name))

    def missing(self, role: str, name: str) -> str:
        """Why `name` is no `role`: the nearest name, the role it does fit, and all that this role takes."""
        names = self.names(role)
        elsewhere = [r for r in self.roles() if r != role and name in self._parts.get(r, {})]
        if elsewhere and nearest(name, names) is None:
            text = f"'{name}' is a {' and a '.join(elsewhere)}, not a {role}."
        else:
            text = f"no {role} is called '{name}'{did_you_mean(name, names) or '.'}"
        return f"{text} Registered for {role}: {listing(names)}"

    def role(self, name: str) -> Role:
        """The role's declaration, or an empty one if it was never declared."""
        return self._roles.get(name, Role(name))

    def roles(self) -> list[str]:
        """Names of all roles declared or used, sorted."""
        return sorted({*self._roles, *self._parts})

    def names(self, role: str) -> list[str]:
        """Type names registered for a role, sorted."""
        return sorted(self._parts.get(role, {}))

    def find(self, name: str) -> Iterator[tuple[str, Callable[..., Any]]]:
        """All (role, component) pairs registered as `name`, in whichever role."""
        for role in self.roles():
            if name in self._parts.get(role, {}):
                yield role, self._parts[role][name]

    def role_of(self, cls: type) -> str | None:
        """The role of a parameter annotated with `cls`: its nearest declared base's, else its own."""
        bases = {r.base: r.name for r in self._roles.values() if r.base is not None}
        for base in cls.__mro__:
            if base in bases:
                return bases[base]
        for role, parts in self._parts.items():
            if any(part is cls for part in parts.values()):
                return role
        return None

    def is_registered(self, role: str, target: object) -> bool:
        """Whether exactly this class or function can be named in slots of `role`."""
        return any(part is target for part in self._parts.get(role, {}).values())


def _where(target: Callable[..., Any]) -> str:
    return f"{target.__module__}.{getattr(target, '__qualname__', target)}"


def _require_base(role: Role, name: str, target: Callable[..., Any]) -> None:
    if role.base is not None and inspect.isclass(target) and not issubclass(target, role.base):
        raise ConfigError(
            f"registry: {role.name} '{name}' ({_where(target)}) must derive from {_where(role.base)}, "
            f"the base class of role '{role.name}'"
        )


REGISTRY = Registry()
register = REGISTRY.register
register_role = REGISTRY.register_role


def suite_names() -> list[str]:
    """Names of the suites that exist as packages `suites.<name>`, sorted; nothing is imported."""
    import suites

    found = (m.name for m in pkgutil.iter_modules(suites.__path__) if m.ispkg)
    return sorted(name for name in found if name not in _SHARED_PACKAGES)


def load_suites(names: Iterable[str]) -> None:
    """Import what the suites register: for each, `suites.<name>` and its module `parts` where it has one.

    The shared packages `suites.engine` and `suites.vision` are always loaded, first.

    Raises:
        ConfigError: No such suite; the message names the nearest.
    """
    known = suite_names()
    wanted = list(names)
    for name in wanted:
        if name not in known:
            raise ConfigError(f"no suite is called '{name}'{did_you_mean(name, known) or '.'} Suites: {listing(known)}")
    for name in (*_SHARED_PACKAGES, *wanted):
        importlib.import_module(f"suites.{name}")
        if importlib.util.find_spec(f"suites.{name}.parts") is not None:
            importlib.import_module(f"suites.{name}.parts")
