"""Read a config file and all that it extends, and lay them over each other in order."""

from __future__ import annotations

import os
from pathlib import Path as FilePath

from framework.errors import ConfigError
from framework.outside import DOWNLOAD_IT, is_address
from suites.engine.config.tree.merge import merge
from suites.engine.config.tree.nodes import Node, Origin
from suites.engine.config.tree.shipped import near_configs, shipped_config
from suites.engine.config.tree.yaml_text import read_file
from suites.engine.names import did_you_mean


def read_merged(path: str | os.PathLike[str]) -> Node:
    """The file's own mapping over those it extends, which are laid over each other from left to right.

    A file that is reached twice is applied once, at its first place: otherwise two bases that share a base
    would undo each other's changes.

    Raises:
        ConfigError: A file is missing or wrong, or extends itself; the message shows the chain.
    """
    ordered: dict[FilePath, Node] = {}
    _collect(FilePath(path).resolve(), (), ordered)
    merged: Node | None = None
    for tree in ordered.values():
        merged = merge(merged, tree)
    assert merged is not None
    return merged


def display_name(path: FilePath) -> str:
    """The path as errors show it: relative to the working folder where it lies inside."""
    try:
        return path.relative_to(FilePath.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


def _collect(path: FilePath, chain: tuple[tuple[FilePath, Origin], ...], ordered: dict[FilePath, Node]) -> None:
    """Add `path` after the files it extends; `chain` holds the files on the way, each with its line."""
    if path in (parent for parent, _ in chain):
        raise ConfigError(f"{chain[-1][1]}: extends: these files extend each other: {_chain_text(chain, path)}")
    if path in ordered:
        return
    if not path.is_file():
        raise ConfigError(_missing_message(path, chain))
    tree = read_file(path, display_name(path))
    assert isinstance(tree.value, dict)
    for name, origin in _extended(tree):
        _collect(_extended_file(path, name), (*chain, (path, origin)), ordered)
    ordered[path] = Node({key: child for key, child in tree.value.items() if key != "extends"}, tree.origin)


def _extended_file(path: FilePath, name: str) -> FilePath:
    """A base beside the file, else one that comes with Paddock."""
    beside = (path.parent / name).resolve()
    return beside if beside.is_file() else shipped_config(FilePath(name)) or beside


def _extended(tree: Node) -> list[tuple[str, Origin]]:
    assert isinstance(tree.value, dict)
    if "extends" not in tree.value:
        return []
    node = tree.value["extends"]
    entries = node.value if isinstance(node.value, list) else [node]
    names = []
    for entry in entries:
        if not isinstance(entry.value, str):
            raise ConfigError(f"{entry.origin}: extends: expects a file or a list of files, relative to this one")
        names.append((entry.value, entry.origin))
    return names


def _chain_text(chain: tuple[tuple[FilePath, Origin], ...], last: FilePath) -> str:
    return " -> ".join([*(display_name(path) for path, _ in chain), display_name(last)])


def _missing_message(path: FilePath, chain: tuple[tuple[FilePath, Origin], ...]) -> str:
    beside = [p.name for p in path.parent.iterdir() if p.suffix in (".yml", ".yaml")] if path.parent.is_dir() else []
    hint = did_you_mean(path.name, beside)
    if not chain and path.name == "config.yml" and path.parent.is_dir() and not hint:
        folder = display_name(path.parent)
        return (
            f"{folder}: is no run (config.yml); where it is data, `paddock data check {folder}` says what trains on it"
        )
    if not chain and is_address(display_name(path)):
        return f"{display_name(path)}: {DOWNLOAD_IT}"
    if not chain:
        what = "is a folder, not a config file" if path.is_dir() else "there is no such config file"
        return f"{display_name(path)}: {what}{hint or _names_like(path)}"
    how = f" (reached through {_chain_text(chain, path)})" if len(chain) > 1 else ""
    return f"{chain[-1][1]}: extends: there is no file {display_name(path)}{hint}{how}"


def _names_like(path: FilePath) -> str:
    """Which of the configs that come with Paddock may be meant."""
    near = near_configs(display_name(path))
    listed = f"; did you mean {' or '.join(repr(name) for name in near)}?" if near else "."
    return f"{listed} `paddock config list configs` shows those that come with Paddock"
