"""A resolved config: look into it, check it against the registered classes, build from it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from framework.errors import ConfigError
from suites.engine.config.plugins import import_plugins, require_plugins
from suites.engine.config.schema.components import Component, slot_of
from suites.engine.config.schema.rules import RULES, Part, Rules
from suites.engine.config.schema.slots import Slot, UnionOf
from suites.engine.config.schema.texts import bent, wanted_as_texts
from suites.engine.config.tree.files import display_name, read_merged
from suites.engine.config.tree.lookups import lookup, step_into
from suites.engine.config.tree.merge import merge
from suites.engine.config.tree.nodes import Node, Origin, Problem, from_plain
from suites.engine.config.tree.overrides import apply_overrides
from suites.engine.config.tree.paths import Path, format_path, parse_path
from suites.engine.config.tree.references import names_in, resolve
from suites.engine.config.tree.shipped import find_config
from suites.engine.config.tree.yaml_text import Reference, dump_text
from suites.engine.names import did_you_mean, listing
from suites.engine.registry import REGISTRY, Registry, load_suites, suite_names

_MISSING = object()


class Config:
    """A config with bases, overrides and references resolved; from `load_config` or `Config.from_dict`.

    Attributes:
        root: The tree of values, each with its file and line.
        source: The file it was read from, for messages.
    """

    def __init__(self, root: Node, source: str, registry: Registry = REGISTRY, rules: Rules = RULES) -> None:
        """Args: a resolved tree, its name, where types are looked up, and the rules that it must satisfy."""
        self.root = root
        self.source = source
        self._registry = registry
        self._rules = rules
        self._filled: Node | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], registry: Registry = REGISTRY, rules: Rules = RULES) -> Config:
        """A config given by code: plain dicts, lists and scalars, with ``${path}`` references."""
        tree = merge(None, from_plain(dict(values), Origin("config from code")))
        return cls(resolve(tree), "config from code", registry, rules)

    def with_texts(self, texts: Mapping[str, str]) -> Config:
        """The same config with texts at these key paths."""
        overrides = [f"{path}={text}" for path, text in texts.items()]
        return Config(apply_overrides(self.root, overrides, overrides), self.source, self._registry, self._rules)

    def changed(self, values: Mapping[str, Any]) -> Config:
        """The same config with plain values laid over it, as those of a file that extends it.

        References stay, so that a later override of what is shared reaches all that share it. What refers to a value
        that is changed here keeps its own.
        """
        over = from_plain(dict(values), Origin("config from code"))
        places = [path for path, _ in over.leaves() if path]
        tree = merge(_unresolved(self.root, places), over)
        return Config(resolve(tree), self.source, self._registry, self._rules)

    # Looking into it.

    def get(self, path: str, default: Any = None) -> Any:
        """The plain value at a key path: as written, else the default of the argument, else `default`."""
        try:
            return lookup(self._with_defaults(), path)[1].plain()
        except ConfigError:
            return default

    def __getitem__(self, path: str) -> Any:
        """The plain value at a key path, written or default.

        Raises:
            ConfigError: There is none; the message names the nearest key.
        """
        try:
            return lookup(self._with_defaults(), path)[1].plain()
        except ConfigError as error:
            raise ConfigError(f"{self.source}: {error}") from None

    def has(self, path: str) -> bool:
        """Whether there is a value at a key path, written or default."""
        return self.get(path, _MISSING) is not _MISSING

    def as_dict(self) -> dict[str, Any]:
        """All that is written, as plain dicts, lists and scalars."""
        values = self.root.plain()
        assert isinstance(values, dict)
        return values

    def with_defaults(self) -> Node:
        """The tree with the defaults of all arguments that the files leave out.

        Raises:
            ConfigError: The config is wrong.
        """
        self.check()
        return self._with_defaults()

    def dump(self) -> str:
        """The resolved config as YAML text; loading it gives an equal config with the same digest."""
        return dump_text(self.as_dict())

    def written(self) -> str:
        """YAML text as `dump`, in which a value that was shared is still a reference: `root: ${data.root}`.

        So an override of what is shared reaches all that share it.
        """
        return dump_text(self.as_written())

    def as_written(self) -> dict[str, Any]:
        """All values as `as_dict`, with a `Reference` in place of each that was shared."""
        values = _with_references(self.root)
        assert isinstance(values, dict)
        return values

    def digest(self) -> str:
        """SHA-256 (64 hex digits) of the values, whatever the order of keys or the files they came from."""
        text = json.dumps(self.as_dict(), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def imports(self) -> list[str]:
        """The plug-ins that the config names.

        Raises:
            ConfigError: `imports` is no list of names.
        """
        names = self.as_dict().get("imports", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"{self.source}: imports: expects a list of modules' names, found {names!r}")
        return names

    # Checking it.

    def check(self) -> None:
        """Check every value against the registered classes, then the rules across fields.

        Raises:
            ConfigError: One line a problem, each with file, line and key path.
        """
        problems = self.problems()
        if problems:
            raise ConfigError("\n".join(str(problem) for problem in problems))

    def problems(self) -> list[Problem]:
        """All that is wrong with the config; the rules are asked only if every single value is right."""
        found = self.suite_problems() or list(self.root_slot().problems(self.root, ()))
        return found or list(self._rules.problems(self))

    def problem(self, path: str, text: str) -> Problem:
        """A problem at a key path, with the line of the value there or of the nearest one above it."""
        node = self._with_defaults()
        at: Path = ()
        try:
            for step in parse_path(path):
                exact, node = step_into(node, step, at)
                at = (*at, exact)
        except ConfigError:
            text = f"{path}: {text}" if format_path(at) != path else text
        return Problem(node.origin, at, text)

    def parts(self) -> Iterator[Part]:
        """Every component of the config, with its own arguments; the values must be right."""
        waiting: list[tuple[Slot, Node, Path]] = [(self.root_slot(), self._with_defaults(), ())]
        while waiting:
            slot, node, path = waiting.pop()
            if isinstance(slot, UnionOf):
                slot = slot.option_for(node) or slot
            if isinstance(slot, Component) and isinstance(node.value, dict):
                yield Part(self, format_path(path), slot.target(node))
            waiting += [(slot.child(node, at[-1]), child, at) for at, child in node.children(path)]

    # Building from it.

    def build(self, path: str, **supplied: Any) -> Any:
        """Build what stands at a key path, as in ``config.build("optimizer", parameters=p)``.

        An argument left out of the file gives its default. A slot declared as `Factory` is built here too.

        Args:
            path: Key path of a component, a section or a plain value.
            supplied: Arguments that code gives to the component there.

        Raises:
            ConfigError: The value is wrong, nothing stands there, or arguments are missing.
        """
        wrong = self.suite_problems()
        if wrong:
            raise ConfigError("\n".join(str(problem) for problem in wrong))
        return build_node(*self._found(path), **supplied)

    def part(self, path: str) -> Any:
        """What stands at a key path, built as its slot says: a `Factory` stays one.

        Raises:
            ConfigError: The value is wrong, or nothing stands there.
        """
        slot, node, at = self._found(path)
        if isinstance(slot, UnionOf):
            slot = slot.option_for(node) or slot
        problems = list(slot.problems(node, at))
        if problems:
            raise ConfigError("\n".join(str(problem) for problem in problems))
        return slot.build(node, at)

    def _found(self, path: str) -> tuple[Slot, Node, Path]:
        try:
            return self._locate(self.root, path)
        except ConfigError:  # not written, but it may have a default
            return self._locate(self._with_defaults(), path)

    def _locate(self, node: Node, path: str) -> tuple[Slot, Node, Path]:
        """The slot, value and exact path at a written path below the top `node`."""
        slot: Slot = self.root_slot()
        at: Path = ()
        for written in parse_path(path):
            try:
                exact, below = step_into(node, written, at)
            except ConfigError as error:
                raise ConfigError(f"{self.source}: {error}") from None
            slot, node, at = slot.child(node, exact), below, (*at, exact)
        return slot, node, at

    def root_slot(self) -> Component:
        """What the whole file is to be, by its suite."""
        return Component("config", self._seen(), key="suite")

    def _seen(self) -> Registry:
        """What the config's suite sees of the registry."""
        assert isinstance(self.root.value, dict)
        return self._registry.seen_by(str(self.root.value["suite"].value))

    def suite_problems(self) -> list[Problem]:
        """What is wrong with the `suite` key, after loading the parts of the suite that it names."""
        assert isinstance(self.root.value, dict)
        node = self.root.value.get("suite")
        known = sorted({*self._registry.names("config"), *self._registry.suites(), *suite_names()})
        if node is None:
            text = f"needs 'suite', which says whose parts it uses; one of: {listing(known)}"
            return [Problem(Origin(self.source), (), text)]
        if node.value in suite_names():  # all of its parts, of which some may be there already
            load_suites([str(node.value)])
        if node.value in self._seen().names("config"):
            return []
        if not isinstance(node.value, str) or node.value not in known:
            near = did_you_mean(str(node.value), known) or "."
            text = f"no suite is called {node.value!r}{near} Suites: {listing(known)}"
            return [Problem(node.origin, ("suite",), text)]
        text = f"suite '{node.value}' registers no config class (role 'config') to check this file with"
        return [Problem(node.origin, ("suite",), text)]

    def _with_defaults(self) -> Node:
        """The tree with defaults if its values are right, as written otherwise."""
        if self._filled is None:
            wrong = self.suite_problems() or list(self.root_slot().problems(self.root, ()))
            self._filled = self.root if wrong else self.root_slot().filled(self.root)
        return self._filled


def _with_references(node: Node) -> Any:
    """Plain values, and references in place of what they gave."""
    if node.reference and node.referent is not None:  # a whole value, whose origin is known
        return Reference(node.reference)
    if isinstance(node.value, dict):
        return {key: _with_references(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [_with_references(child) for child in node.value]
    return Reference(node.reference) if node.reference else node.value


def _unresolved(node: Node, changed: Sequence[Path], path: Path = (), broken: str = "") -> Node:
    """A resolved tree whose values are their references again, but for what is changed and what refers to it.

    `broken` is the reference that gave the mapping or list around the node, where it is given up.
    """
    if node.reference and node.reference != broken:
        names = [path, *map(parse_path, names_in(node.reference))]
        if not any(_meet(name, each) for name in names for each in changed):
            return Node(node.reference, node.origin)
        broken = node.reference
    below = [_unresolved(child, changed, at, broken) for at, child in node.children(path)]
    if isinstance(node.value, dict):
        return replace(node, value=dict(zip(node.value, below, strict=True)), reference="", referent=None)
    if isinstance(node.value, list):
        return replace(node, value=below, reference="", referent=None)
    value = node.value.replace("${", "$${") if isinstance(node.value, str) else node.value
    return replace(node, value=value, reference="", referent=None)


def _meet(one: Sequence[object], other: Sequence[object]) -> bool:
    """Whether one key path is the other, or leads to it."""
    return all(a == b for a, b in zip(one, other, strict=False))


_ROOT = "data.root"  # a value for references alone


def load_config(
    path: str | os.PathLike[str],
    overrides: Iterable[str] = (),
    *,
    check: bool = True,
    trusted: bool = True,
    registry: Registry = REGISTRY,
    rules: Rules = RULES,
) -> Config:
    """Read a config file with all that it extends, apply overrides, resolve references and check it.

    Args:
        path: The YAML file, or the name of a config that comes with Paddock, such as "detection/yolov3_demo".
        overrides: Texts ``path=value`` of the command line's ``-o``, applied in order.
        check: Whether to check it against the registered classes and rules; the suite's parts are imported
            for that, and the plug-ins that the config names under `imports`.
        trusted: Whether a person asked for this file. One that a run's folder holds may come from a stranger: its
            plug-ins must be imported already.
        registry: Where types are looked up.
        rules: Rules across fields.

    Raises:
        ConfigError: Anything wrong; each line names file, line and key path.
    """
    file = find_config(FilePath(path)).resolve()
    overrides = list(overrides)
    candidates, broken = bent(overrides)
    written, name = read_merged(file), display_name(file)

    def made(texts: Collection[str]) -> Config:
        return Config(resolve(apply_overrides(written, overrides, texts)), name, registry, rules)

    try:
        config = made(broken)
    except ConfigError:  # such as a mapping where a reference stands inside of text
        if not candidates:
            raise
        config = made(candidates)
    if candidates and (texts := _texts(config, candidates)):
        config = made(texts)
    else:
        texts = set()
    for text, error in broken.items():
        if text not in texts:
            raise error
    _refuse_unread(written, config, overrides)
    return checked(config, trusted=trusted) if check else config


def _refuse_unread(written: Node, config: Config, overrides: Sequence[str]) -> None:
    """Raise ConfigError for a place of data that is given and that no data set of the file asks for."""
    given = [value for key, _, value in (text.partition("=") for text in overrides) if key.strip() == _ROOT]
    if not any(map(str.strip, given)) or any(f"${{{_ROOT}}}" in str(node.value) for _, node in written.leaves()):
        return
    leaves = [(format_path(path), node) for path, node in config.root.leaves()]
    if any(f"${{{_ROOT}}}" in node.reference for _, node in leaves):
        return
    kinds = {str(node.value): path for path, node in reversed(leaves) if path.endswith(".dataset.type")}
    told = listing((f"{kind} ({path.removesuffix('.type')})" for kind, path in kinds.items()), "elsewhere")
    raise ConfigError(
        f"-o {_ROOT}: nothing in {config.source} reads it; its data come from {told}. Override what these take; "
        "`paddock data check` says which configs train on a folder or zip"
    )


def _texts(config: Config, candidates: Sequence[str]) -> set[str]:
    """Which of some overrides are texts, as far as the suite's types say; none where the suite is not known."""
    try:
        return set() if config.suite_problems() else wanted_as_texts(config.root_slot(), config.root, candidates)
    except ConfigError:
        return set()


def checked(config: Config, *, trusted: bool = True) -> Config:
    """Return a config that `load_config` has read, checked as it does; see there for `trusted`.

    Raises:
        ConfigError: Anything wrong; each line names file, line and key path.
    """
    use = import_plugins if trusted and not _is_of_a_run(FilePath(config.source)) else require_plugins
    use(config.imports(), f"{config.source}: imports")
    config.check()
    return config


def _is_of_a_run(file: FilePath) -> bool:
    """Whether a run's folder holds the file, which may then come from a stranger."""
    return file.name == "config.yml" and (file.parent / "environment.json").is_file()


def build_value(
    value: Any, hint: Any, *, suite: str | None = None, registry: Registry = REGISTRY, **supplied: Any
) -> Any:
    """Build plain data as an argument with this type hint: ``build_value({"type": "DarkNet53"}, Backbone)``.

    Args:
        value: Plain dicts, lists and scalars.
        hint: What they are to be.
        suite: Whose components may be named besides the shared ones.
        registry: Where types are looked up.
        supplied: Arguments that code gives to the component.

    Raises:
        ConfigError: The data does not fit.
    """
    seen = registry if suite is None else registry.seen_by(suite)
    return build_node(slot_of(hint, seen), from_plain(value, Origin("value from code")), (), **supplied)


def build_node(slot: Slot, node: Node, path: Path, **supplied: Any) -> Any:
    """Check one value and build it, with what code supplies.

    Raises:
        ConfigError: The value does not fit, or it is no component and yet something is supplied.
    """
    if isinstance(slot, UnionOf):
        slot = slot.option_for(node) or slot
    problems = list(slot.problems(node, path))
    if problems:
        raise ConfigError("\n".join(str(problem) for problem in problems))
    if isinstance(slot, Component):
        return slot.factory(node, path)(**supplied) if slot.deferred else slot.construct(node, path, **supplied)
    if supplied:
        raise ConfigError(f"{format_path(path)} is no component, so it takes no {listing(supplied)}")
    return slot.build(node, path)
