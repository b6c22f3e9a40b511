"""Lay one config over another: mappings by key, lists replaced or patched by id, `$delete`, `$replace`, new `type`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from framework.errors import ConfigError
from suites.engine.config.tree.nodes import Node, Origin, Problem
from suites.engine.config.tree.paths import Item, Path
from suites.engine.config.tree.yaml_text import EDITS, REPLACE
from suites.engine.names import did_you_mean, listing

DELETE = "$delete"


def merge(base: Node | None, over: Node, path: Path = ()) -> Node:
    """`over` laid over `base`; `base` is None where nothing was inherited.

    Two mappings merge key by key, unless `over` names another `type` than `base`: then the inherited keys
    belong to another component and all of them are dropped (a list item keeps its `id`). Anything else is
    replaced. A mapping of `$patch`, `$append`, `$before`, `$after` edits the inherited list; `{$replace: value}` is
    the value, with nothing inherited.

    Raises:
        ConfigError: An edit or `$delete` names something that was not inherited; an id is used twice in one
        list.
    """
    if isinstance(over.value, dict):
        if REPLACE in over.value:
            return _replaced(base, over, path)
        if any(key in EDITS for key in over.value):
            return _edit_list(base, over, path)
        return _merge_mapping(base, over, path)
    if isinstance(over.value, list):
        items = _merge_new_items(over.value, path)
        _require_unique_ids(items, path)
        over = replace(over, value=items)
    return replace(over, overrode=base)


def _replaced(base: Node | None, over: Node, path: Path) -> Node:
    assert isinstance(over.value, dict)
    others = [key for key in over.value if key != REPLACE]
    if others:
        raise _error(over.origin, path, f"mixes {REPLACE} with the key '{others[0]}'; {REPLACE} stands alone")
    new = over.value[REPLACE]
    if new.value == DELETE:
        raise _error(new.origin, path, f"{REPLACE} takes the new value; `$delete` drops a key by itself")
    made = merge(None, new, path)
    inherited = base.value if base is not None and isinstance(base.value, dict) else {}
    if path and isinstance(path[-1], Item) and "id" in inherited and isinstance(made.value, dict):
        made = replace(made, value={"id": inherited["id"], **made.value})  # so that the item is found again
    return replace(made, overrode=base)


def _merge_mapping(base: Node | None, over: Node, path: Path) -> Node:
    assert isinstance(over.value, dict)
    inherited = base.value if base is not None and isinstance(base.value, dict) else {}
    note = base.note if base is not None else ""
    kept = dict(inherited)
    if _type_of(inherited) and _type_of(over.value) and _type_of(inherited) != _type_of(over.value):
        kept = {"id": inherited["id"]} if path and isinstance(path[-1], Item) and "id" in inherited else {}
        note = _type_note(inherited, over.value)
    elif _type_of(over.value):  # a whole component was written over one of its type
        note = _kept_note(inherited, over.value)
    merged = dict(kept)
    for key, child in over.value.items():
        child_path = (*path, key)
        if child.value == DELETE:
            if key not in inherited:
                raise _error(child.origin, child_path, _nothing_to_delete(key, list(inherited)))
            merged.pop(key, None)
        else:
            below = inherited.get(key) if key == "type" else kept.get(key)
            merged[key] = merge(below, child, child_path)
    origin = base.origin if base is not None and kept else over.origin
    return Node(merged, origin, overrode=None if inherited else base, note=note)


def _edit_list(base: Node | None, over: Node, path: Path) -> Node:
    assert isinstance(over.value, dict)
    plain = [key for key in over.value if key not in EDITS]
    if plain:
        raise _error(over.origin, path, f"mixes list edits with the key '{plain[0]}'; edits stand alone")
    if base is None or not isinstance(base.value, list):
        what = "nothing was inherited here" if base is None else "what was inherited here is not a list"
        raise _error(over.origin, path, f"{next(iter(over.value))} changes an inherited list, but {what}")
    items = list(base.value)
    for name in EDITS:  # a fixed order, so that the order of keys does not matter
        if name in over.value:
            items = _EDITORS[name](items, over.value[name], (*path, name))
    _require_unique_ids(items, path)
    return Node(items, over.origin, overrode=base)


def _patch(items: list[Node], edit: Node, path: Path) -> list[Node]:
    for name, change in _by_id(edit, path).items():
        index = _position(items, name, change, path)
        if change.value == DELETE:
            items = items[:index] + items[index + 1 :]
            continue
        if not isinstance(change.value, dict):
            raise _error(change.origin, (*path, name), "a patch is a mapping of changes, or $delete")
        items = [*items]
        items[index] = merge(items[index], change, (*path[:-1], Item(index, name)))
    return items


def _append(items: list[Node], edit: Node, path: Path) -> list[Node]:
    return items + _new_items(edit, path)


def _insert(offset: int) -> Callable[[list[Node], Node, Path], list[Node]]:
    def insert(items: list[Node], edit: Node, path: Path) -> list[Node]:
        for name, added in _by_id(edit, path).items():
            index = _position(items, name, added, path) + offset
            items = items[:index] + _new_items(added, (*path, name)) + items[index:]
        return items

    return insert


_EDITORS: dict[str, Callable[[list[Node], Node, Path], list[Node]]] = {
    "$patch": _patch,
    "$append": _append,
    "$before": _insert(0),
    "$after": _insert(1),
}


def _by_id(edit: Node, path: Path) -> dict[str, Node]:
    if not isinstance(edit.value, dict):
        raise _error(edit.origin, path, "names items by id: {<id>: ...}")
    return edit.value


def _new_items(edit: Node, path: Path) -> list[Node]:
    if not isinstance(edit.value, list):
        raise _error(edit.origin, path, "takes a list of new items")
    return _merge_new_items(edit.value, path)


def _merge_new_items(items: list[Node], path: Path) -> list[Node]:
    """Items that inherit nothing."""
    for index, item in enumerate(items):
        if item.value == DELETE:
            text = "$delete drops a key or, in $patch, an item by id; it cannot stand in a list"
            raise _error(item.origin, (*path, Item(index)), text)
    return [merge(None, item, (*path, Item(i, item.id))) for i, item in enumerate(items)]


def _position(items: list[Node], name: str, at: Node, path: Path) -> int:
    ids = [item.id for item in items]
    if name in ids:
        return ids.index(name)
    known = [i for i in ids if i is not None]
    text = f"no inherited item has id '{name}'{did_you_mean(name, known) or '.'} Ids: {listing(known, 'none')}"
    raise _error(at.origin, path, text)


def _require_unique_ids(items: list[Node], path: Path) -> None:
    seen: dict[str, Node] = {}
    for index, item in enumerate(items):
        if item.id is None:
            continue
        if item.id in seen:
            first = seen[item.id].origin
            text = f"id '{item.id}' is used twice in this list, first at {first}; choose another"
            raise _error(item.origin, (*path, Item(index)), text)
        seen[item.id] = item


def _type_of(mapping: dict[str, Node]) -> str | None:
    name = mapping["type"].value if "type" in mapping else None
    return name if isinstance(name, str) else None


def _type_note(inherited: dict[str, Node], over: dict[str, Node]) -> str:
    dropped = [key for key in inherited if key not in ("type", "id") and key not in over]
    if not dropped:
        return ""
    return (
        f"changing type from {_type_of(inherited)} to {_type_of(over)} ({over['type'].origin}) "
        f"dropped the inherited {listing(dropped)}"
    )


def _kept_note(inherited: dict[str, Node], over: dict[str, Node]) -> str:
    kept = [f"{key} ({inherited[key].origin})" for key in inherited if key not in ("type", "id") and key not in over]
    if not kept:
        return ""
    return f"{listing(kept)} was inherited, as both have the type {_type_of(over)}; {{{REPLACE}: ...}} inherits nothing"


def _nothing_to_delete(key: str, inherited: list[str]) -> str:
    near = did_you_mean(key, inherited) or "."
    return f"$delete: no '{key}' was inherited{near} Inherited: {listing(inherited)}"


def _error(origin: Origin, path: Path, text: str) -> ConfigError:
    return ConfigError(str(Problem(origin, path, text)))
