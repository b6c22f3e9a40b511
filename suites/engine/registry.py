"""Components by role: what a config may name with `type:`, and which slot each of them fits.

A role is an open string such as ``backbone`` or ``loss``. A registry maps (role, type name) to a class or
function, whose signature is the schema of its part of a config (see `suites.engine.config`).

Names belong to suites. What `suites.<suite>` registers is seen by configs of that suite alone; what `suites.engine`
and `suites.vision` register is shared: every suite sees it. So two suites may each have a ``Resize``.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from framework.errors import ConfigError
from suites.engine.bonds import Bonds, Needed, declare
from suites.engine.names import did_you_mean, listing, nearest
from suites.engine.recording import record

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
        doc: One line for `paddock config list`.
    """

    name: str
    base: type | None = None
    supplied: tuple[str, ...] = ()
    doc: str = ""


@dataclass(frozen=True)
class _Shelf:
    """What one suite registered, or what is shared."""

    roles: dict[str, Role] = field(default_factory=dict)
    parts: dict[str, dict[str, Callable[..., Any]]] = field(default_factory=dict)


class Registry:
    """Maps (role, type name) to a class or function. Programs use `REGISTRY`; tests make their own.

    A registry shows what is shared; `seen_by` and `owned_by` give views of the same registry that show more or
    other.
    """

    def __init__(self, load_all: Callable[[], None] | None = None) -> None:
        """Args: `load_all` registers what every suite has, so that an error can say whose a name is."""
        self._shelves: dict[str | None, _Shelf] = {None: _Shelf()}
        self._shown: tuple[str | None, ...] = (None,)
        self._load_all = load_all

    def seen_by(self, suite: str) -> Registry:
        """What configs of a suite see: what is shared and what the suite registers, now or later."""
        return self._view((None, suite))

    def owned_by(self, suite: str | None) -> Registry:
        """What one suite registers itself; with None, what is shared."""
        return self._view((suite,))

    def suites(self) -> list[str]:
        """Names of the suites that have registered something, sorted."""
        return sorted(suite for suite in self._shelves if suite is not None)

    def register_role(
        self,
        name: str,
        base: type | None = None,
        *,
        supplied: Iterable[str] = (),
        doc: str = "",
        suite: str | None = None,
    ) -> Role:
        """Declare a role. Undeclared roles work too; they have no base class and nothing is supplied.

        Args:
            name: The role's name.
            base: see `Role`.
            supplied: see `Role`.
            doc: see `Role`.
            suite: Whose role it is; by default that of the calling module, which may be shared.

        Raises:
            ConfigError: The suite sees such a role or a role with this base class already.
        """
        suite = suite or _calling_suite()
        meeting = self._meeting(suite)
        known = [role for shelf in meeting for role in shelf.roles.values()]
        if any(role.name == name for role in known):
            raise ConfigError(f"registry: role '{name}' is declared twice; choose another name")
        taken = next((role.name for role in known if base is not None and role.base is base), None)
        if taken is not None:
            raise ConfigError(
                f"registry: {getattr(base, '__name__', base)} is the base of role '{taken}' already, "
                f"so it cannot be the base of role '{name}' too; derive another class"
            )
        role = Role(name, base, tuple(supplied), doc)
        for shelf in meeting:
            for part_name, part in shelf.parts.get(name, {}).items():
                _require_base(role, part_name, part)
        self._shelf(suite).roles[name] = role
        return role

    def register(
        self,
        role: str,
        name: str | None = None,
        *,
        suite: str | None = None,
        exclusive: tuple[tuple[str, ...], ...] = (),
        needs: Mapping[str, Needed] | None = None,
    ) -> Callable[[Target], Target]:
        """Decorate a class or function so that a config can name it in slots of `role`.

        Args:
            role: Role of the component.
            name: Its type name; the class's or function's own name by default.
            suite: Whose it is; by default that of the calling module, which may be shared.
            exclusive: Groups of arguments of which the first makes each other do nothing, e.g.
                ``(("rows", "split"),)``; a config that gives both is refused.
            needs: What an argument does nothing without: another argument, or one with a value (or values) of it, e.g.
                ``{"split": "holdout", "sbd": ("split", "trainaug")}``.

        Raises:
            ConfigError: The suite sees this name in this role already, or the class does not derive from the role's
                base.

        Example:
            >>> @register("backbone")            # doctest: +SKIP
            ... class MobileNetV1(Backbone): ...
        """
        suite = suite or _calling_suite()
        bonds = Bonds(exclusive, needs)

        def decorate(target: Target) -> Target:
            part_name = name if name is not None else target.__name__
            for shelf in self._meeting(suite):
                taken = shelf.parts.get(role, {}).get(part_name)
                if taken is not None:
                    raise ConfigError(
                        f"registry: {role} '{part_name}' is registered twice, by {_where(taken)} "
                        f"and by {_where(target)}; give one of them another name"
                    )
                if role in shelf.roles:
                    _require_base(shelf.roles[role], part_name, target)
            self._shelf(suite).parts.setdefault(role, {})[part_name] = target
            declare(target, bonds)
            if inspect.isclass(target):
                record(target)
            return target

        return decorate

    def get(self, role: str, name: str) -> Callable[..., Any]:
        """The class or function registered as `name` for `role`.

        Raises:
            ConfigError: There is none; the message names the nearest and lists all.
        """
        for parts in self._parts(role):
            if name in parts:
                return parts[name]
        raise ConfigError(self.missing(role, name))

    def missing(self, role: str, name: str) -> str:
        """Why `name` is no `role`: whose it is, the nearest name, or the role it does fit; and all that fit."""
        names = self.names(role)
        owners = self._owners(role, name)
        elsewhere = [r for r in self.roles() if r != role and name in self.names(r)]
        if owners:
            whose = f"suite{'s' * (len(owners) > 1)} {' and '.join(repr(owner) for owner in owners)}"
            text = f"'{name}' is a {role} of {whose}, whose names only configs of that suite see."
        elif elsewhere and nearest(name, names) is None:
            text = f"'{name}' is a {' and a '.join(elsewhere)}, not a {role}."
        else:
            text = f"no {role} is called '{name}'{did_you_mean(name, names) or '.'}"
        return f"{text} Registered for {role}: {listing(names)}"

    def role(self, name: str) -> Role:
        """The role's declaration, or an empty one if it was never declared."""
        return next((shelf.roles[name] for shelf in self._visible() if name in shelf.roles), Role(name))

    def roles(self) -> list[str]:
        """Names of all roles declared or used, sorted."""
        return sorted({name for shelf in self._visible() for name in (*shelf.roles, *shelf.parts)})

    def names(self, role: str) -> list[str]:
        """Type names registered for a role, sorted."""
        return sorted(name for parts in self._parts(role) for name in parts)

    def find(self, name: str) -> Iterator[tuple[str, Callable[..., Any]]]:
        """All (role, component) pairs registered as `name`, in whichever role."""
        for role in self.roles():
            if name in self.names(role):
                yield role, self.get(role, name)

    def role_of(self, cls: type) -> str | None:
        """The role of a parameter annotated with `cls`: its nearest declared base's, else its own."""
        shelves = self._visible()
        bases = {role.base: role.name for shelf in shelves for role in shelf.roles.values() if role.base is not None}
        for base in cls.__mro__:
            if base in bases:
                return bases[base]
        return next((role for role in self.roles() if self.is_registered(role, cls)), None)

    def name_of(self, target: object) -> str | None:
        """The name under which exactly this class or function is registered, in whichever role; None if it is not."""
        shelves = [parts for shelf in self._visible() for parts in shelf.parts.values()]
        return next((name for parts in shelves for name, part in parts.items() if part is target), None)

    def suite_of(self, role: str, target: object) -> str:
        """The suite that registers exactly this class or function for `role`; ConfigError where none does.

        What a plug-in registers without `suite` is seen by all of them: then it is the suite of its name.
        """
        for suite, shelf in self._shelves.items():
            found = next((name for name, part in shelf.parts.get(role, {}).items() if part is target), None)
            if found is not None:
                return found if suite is None else suite
        raise ConfigError(
            f"registry: {getattr(target, '__qualname__', target)} is the {role} of no suite; put "
            f'@register("{role}", SUITE) before it'
        )

    def is_registered(self, role: str, target: object) -> bool:
        """Whether exactly this class or function can be named in slots of `role`."""
        return any(part is target for parts in self._parts(role) for part in parts.values())

    def _view(self, shown: tuple[str | None, ...]) -> Registry:
        view = copy.copy(self)
        view._shown = shown
        return view

    def _shelf(self, suite: str | None) -> _Shelf:
        return self._shelves.setdefault(suite, _Shelf())

    def _visible(self) -> list[_Shelf]:
        return [self._shelves[suite] for suite in self._shown if suite in self._shelves]

    def _meeting(self, suite: str | None) -> list[_Shelf]:
        """The shelves that some config sees together with what `suite` registers."""
        return list(self._shelves.values()) if suite is None else [self._shelf(None), self._shelf(suite)]

    def _parts(self, role: str) -> list[dict[str, Callable[..., Any]]]:
        return [shelf.parts[role] for shelf in self._visible() if role in shelf.parts]

    def _owners(self, role: str, name: str) -> list[str]:
        """The suites that register `name` for `role`."""
        if self._load_all is not None:
            self._load_all()
        return [suite for suite in self.suites() if name in self._shelves[suite].parts.get(role, {})]


def _calling_suite() -> str | None:
    """The suite of the module that called `register` or `register_role`; None if it is none or shared."""
    package, _, rest = str(sys._getframe(2).f_globals.get("__name__", "")).partition(".")
    suite = rest.partition(".")[0]
    return suite if package == "suites" and suite and suite not in _SHARED_PACKAGES else None


def _where(target: Callable[..., Any]) -> str:
    return f"{target.__module__}.{getattr(target, '__qualname__', target)}"


def _require_base(role: Role, name: str, target: Callable[..., Any]) -> None:
    if role.base is not None and inspect.isclass(target) and not issubclass(target, role.base):
        raise ConfigError(
            f"registry: {role.name} '{name}' ({_where(target)}) must derive from {_where(role.base)}, "
            f"the base class of role '{role.name}'"
        )


def suite_names() -> list[str]:
    """Names of the suites that exist as packages `suites.<name>`, sorted; nothing is imported."""
    import suites

    folder = Path(suites.__file__).parent  # __path__ of an editable installation has the repository's root too
    found = (m.name for m in pkgutil.iter_modules([str(folder)]) if m.ispkg)
    return sorted(name for name in found if name not in _SHARED_PACKAGES)


def load_suites(names: Iterable[str]) -> None:
    """Import what the suites register: for each, `suites.<name>` and its module `parts` where it has one.

    The shared packages `suites.engine` and `suites.vision` are always loaded, first. A suite that a plug-in registered
    is loaded already.

    Raises:
        ConfigError: No such suite; the message names the nearest.
    """
    packages, wanted = suite_names(), list(names)
    known = sorted({*packages, *REGISTRY.suites()})
    for name in wanted:
        if name not in known:
            raise ConfigError(f"no suite is called '{name}'{did_you_mean(name, known) or '.'} Suites: {listing(known)}")
    for name in (*_SHARED_PACKAGES, *(name for name in wanted if name in packages)):
        importlib.import_module(f"suites.{name}")
        if importlib.util.find_spec(f"suites.{name}.parts") is not None:
            importlib.import_module(f"suites.{name}.parts")


def _load_all_suites() -> None:
    for name in suite_names():
        with contextlib.suppress(ImportError):  # of a library that only this suite needs
            load_suites([name])


REGISTRY = Registry(_load_all_suites)
register = REGISTRY.register
register_role = REGISTRY.register_role
