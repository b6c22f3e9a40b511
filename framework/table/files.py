"""A table's own files: a folder with `table.json` and rows as safetensors, whole or not at all.

A *base* holds everything, a *delta* the rows that were touched since the files before it, the keys that went, and how
many ends of passes there were. A delta names the files that it follows and is refused after any others. Rows are found
by key, so any number of files is read into any table of the same kind. Nothing in them runs code.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import safetensors

from framework.atomic import atomic_file, atomic_folder, write_text
from framework.errors import AttributeValueError, CheckpointError
from framework.io import load_tensors, save_tensors, sha256
from framework.outside import read_json
from framework.remedies import remedy
from framework.table.folders import folders_of, up_to
from framework.table.policies import ADMISSIONS, INITS, Eviction
from framework.table.rules import RULES
from framework.table.state import Chain, TableState
from framework.tensors import Tensor

FORMAT = 1
MANIFEST = "table.json"
KINDS = ("base", "delta")
PART_BYTES = 256 << 20  # rows of a file, where `parts` does not say


Around = Callable[[int, int], AbstractContextManager[object]]  # of reading buckets [first, last)


def save(table: TableState, path: Path | str, *, parts: int | None = None, around: Around | None = None) -> str:
    """Writes everything into the folder `path`, which must not exist yet or be empty; returns the files' id.

    Rows may be updated meanwhile: each bucket is read under its lock, and what is touched later is in the next delta.

    Args:
        table: the table.
        path: of the folder.
        parts: how many files of rows; by default as many as make files of up to 256 MB.
        around: what is entered while the buckets of a file are read.

    Raises:
        CheckpointError: the folder cannot be written.
    """
    return _write(table, Path(path), None, parts, around)


def save_delta(table: TableState, path: Path | str, *, parts: int | None = None, around: Around | None = None) -> str:
    """Writes what changed since the table was last saved (base or delta) or loaded; see `save`.

    Raises:
        CheckpointError: there is nothing before it, or the folder cannot be written.
    """
    if table.chain is None:
        raise CheckpointError(f"table '{table.name}': a delta needs a base before it; call save() first")
    return _write(table, Path(path), table.chain, parts, around)


def _write(table: TableState, path: Path, before: Chain | None, parts: int | None, around: Around | None) -> str:
    native = table._native
    count = _part_count(table) if parts is None else parts
    if not 1 <= count <= native.buckets:
        raise AttributeValueError(
            f"save: parts is {count}; it must lie in [1, {native.buckets}], the number of buckets"
        )
    native.forget_removals(0)  # removals are noted from before the first row is read
    passes = table.passes
    version = native.cut()
    identity = secrets.token_hex(16)
    since = before.version if before else 0
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "kind": "delta" if before else "base",
        "id": identity,
        "parent": before.id if before else None,
        "passes": passes,
        "passes_since": passes - before.passes if before else passes,
        "table": table.config(),
        "files": [],
    }
    try:
        with atomic_folder(path) as folder:
            for name, tensors in _contents(native, count, since, around or _nothing_around):
                save_tensors(folder / name, tensors)
                manifest["files"].append({"name": name, "sha256": sha256(folder / name)})
            write_text(folder / MANIFEST, json.dumps(manifest, indent=1))
    except OSError as e:
        raise CheckpointError(
            f"{path}: the table cannot be written there ({e.strerror or e}); "
            f"{remedy(e) or 'give a folder that does not exist yet'}"
        ) from e
    table.chain = Chain(identity, version, passes)
    forget_old_removals(table)
    return identity


def forget_old_removals(table: TableState) -> None:
    """Keeps those removals that a coming delta or snapshot will name."""
    versions = [chain.version for chain in (table.chain, table.published) if chain is not None]
    table._native.forget_removals(min(versions, default=0))


def _part_count(table: TableState) -> int:
    size = len(table) * table._native.row_bytes
    return min(-(-size // PART_BYTES) or 1, table._native.buckets)


def _nothing_around(first: int, last: int) -> AbstractContextManager[object]:
    return nullcontext()


def _contents(native: Any, parts: int, since: int, around: Around) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """Names and tensors of the files."""
    for i in range(parts):
        first, last = (native.buckets * k // parts for k in (i, i + 1))
        with around(first, last):
            keys, values, states, counts, numbers = native.read_rows(first, last, since, False)
            waiting_keys, waiting = native.read_candidates(first, last)
        arrays = {
            "keys": keys,
            "values": values,
            "states": states,
            "counts": counts,
            "numbers": numbers,
            "candidates": waiting_keys,
            "waiting": waiting,
        }
        yield f"rows-{i:05d}.safetensors", {name: Tensor(a) for name, a in arrays.items()}
    yield (
        "table.safetensors",
        {
            "rates": Tensor(native.rates()),
            "removed": Tensor(native.removed(since) if since else native.removed(2**32 - 1)),
        },
    )


def load(table: TableState, path: Path | str, deltas: Sequence[Path | str] = ()) -> None:
    """Replaces what a table holds by a base (or what `Chained` saved) and the deltas that follow it, in order.

    All files are checked before the first row is replaced.

    Raises:
        CheckpointError: a file is missing, damaged or of another table, or a delta does not follow.
    """
    folders = [*folders_of(Path(path)), *map(Path, deltas)]
    manifests: list[dict[str, Any]] = []
    for k, folder in enumerate(folders):
        try:
            manifests.append(read_manifest(folder))
            _expect_chain(folders[: k + 1], manifests)
            _expect_same_table(folder, manifests[-1]["table"], table.config())
            _verify(folder, manifests[-1], table)
        except CheckpointError as error:
            raise error if k == 0 else CheckpointError(f"{error}{up_to(folders[:k])}") from None
    table._native.clear()
    for folder, manifest in zip(folders, manifests, strict=True):
        _take_up(table, folder, manifest)
    last = manifests[-1]
    table.passes = int(last["passes"])
    table.published = None
    table.chain = Chain(last["id"], table._native.cut(), table.passes)
    forget_old_removals(table)


def load_delta(table: TableState, path: Path | str) -> None:
    """Takes up one more delta, which must follow the files that the table was loaded from or saved to last.

    Rows that were touched since are overwritten where the delta has them, and kept elsewhere.

    Raises:
        CheckpointError: see `load`.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    if manifest["kind"] != "delta":
        raise CheckpointError(f"{folder}: is a base, not a delta; use load()")
    if table.chain is None or manifest["parent"] != table.chain.id:
        stands = f"stands at {table.chain.id}" if table.chain else "was neither loaded nor saved"
        raise CheckpointError(f"{folder}: this delta follows {manifest['parent']}; table '{table.name}' {stands}")
    _expect_same_table(folder, manifest["table"], table.config())
    _verify(folder, manifest, table)
    _take_up(table, folder, manifest)
    table.passes = int(manifest["passes"])
    table.chain = Chain(manifest["id"], table._native.cut(), table.passes)
    forget_old_removals(table)


def arguments_of(path: Path | str) -> dict[str, Any]:
    """The arguments of `Table` that make the table whose base is in the folder `path`.

    Raises:
        CheckpointError: it has no manifest, or one that describes no table.
    """
    base = folders_of(Path(path))[0]
    return arguments_from(read_manifest(base)["table"], f"{base / MANIFEST}")


def arguments_from(config: dict[str, Any], who: str) -> dict[str, Any]:
    """The arguments of `Table` that `Table.config` tells of; raises CheckpointError where it describes no table."""
    try:
        rule = dict(config["rule"])
        admission, eviction = config["admission"], config["eviction"]
        return {
            "dim": config["dim"],
            "rule": RULES[rule.pop("type")](**rule),
            "init": [(n, _made(INITS, part)) for n, part in config["init"]],
            "admission": None if admission is None else _made(ADMISSIONS, admission),
            "eviction": None if eviction is None else _made({"Eviction": Eviction}, eviction),
            "show_weight": config["show_weight"],
            "click_weight": config["click_weight"],
            "seed": config["seed"],
            "name": config["name"],
        }
    except (KeyError, TypeError, ValueError) as e:
        raise CheckpointError(f"{who}: describes no table ({type(e).__name__}: {e})") from e


def _made(kinds: dict[str, Any], plain: dict[str, Any]) -> Any:
    return kinds[plain["type"]](**{k: v for k, v in plain.items() if k != "type"})


def read_manifest(folder: Path) -> dict[str, Any]:
    """The checked manifest of a folder.

    Raises:
        CheckpointError: it is missing, damaged or not a table's.
    """
    path = folder / MANIFEST
    try:
        data = read_json(path)
    except (OSError, ValueError, RecursionError) as e:
        raise CheckpointError(f"{path}: cannot be read as a table's manifest ({e})") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("kind") not in KINDS:
        raise CheckpointError(f"{path}: is no manifest of a table in format {FORMAT}")
    strings = all(isinstance(data.get(k), str) for k in ("id", *(["parent"] if data["kind"] == "delta" else [])))
    numbers = all(isinstance(data.get(k), int) and 0 <= data[k] < 2**31 for k in ("passes", "passes_since"))
    files = data.get("files")
    named = isinstance(files, list) and all(
        isinstance(f, dict)
        and isinstance(f.get("name"), str)
        and isinstance(f.get("sha256"), str)
        and f["name"] == Path(f["name"]).name
        for f in files
    )
    if not (strings and numbers and named and isinstance(data.get("table"), dict)):
        raise CheckpointError(f"{path}: a field is missing or has another type; the manifest is damaged")
    return data


def _expect_chain(folders: Sequence[Path], manifests: Sequence[dict[str, Any]]) -> None:
    if manifests[0]["kind"] != "base":
        raise CheckpointError(
            f"{folders[0]}: is a delta of {manifests[0]['parent']}; give the base first and it among the deltas"
        )
    for (before, _), (after, folder) in zip(
        zip(manifests, folders, strict=True), zip(manifests[1:], folders[1:], strict=True), strict=False
    ):
        if after["kind"] != "delta" or after["parent"] != before["id"]:
            raise CheckpointError(
                f"{folder}: follows {after['parent']}, but the files before it are {before['id']}; a delta is "
                "missing or they are out of order"
            )


SAME = ("name", "dim", "init", "seed")  # besides the kind of rule


def _expect_same_table(folder: Path, theirs: dict[str, Any], own: dict[str, Any]) -> None:
    def rule(config: dict[str, Any]) -> Any:
        r = config.get("rule")
        return (r.get("type"), r.get("shared")) if isinstance(r, dict) else None

    pairs = [(k, theirs.get(k), own[k]) for k in SAME] + [("rule", rule(theirs), rule(own))]
    for name, there, here in pairs:
        if there != here:
            raise CheckpointError(f"{folder}: is of another table: its {name} is {there!r}, here it is {here!r}")


def _verify(folder: Path, manifest: dict[str, Any], table: TableState) -> None:
    """Checks digests, and names, types and shapes of all tensors, without reading rows into memory."""
    for entry in manifest["files"]:
        path = folder / entry["name"]
        try:
            digest = sha256(path)
        except OSError as e:
            raise CheckpointError(f"{path}: cannot be read ({e.strerror or e})") from None
        if digest != entry["sha256"]:
            raise CheckpointError(f"{path}: its digest is not that of {MANIFEST}; it is cut, damaged or another file")
        _verify_shapes(path, table)
    if not any(entry["name"] == "table.safetensors" for entry in manifest["files"]):
        raise CheckpointError(f"{folder / MANIFEST}: lists no table.safetensors; the manifest is damaged")


def _verify_shapes(path: Path, table: TableState) -> None:
    try:
        with safetensors.safe_open(str(path), framework="numpy") as file:
            found = {n: (file.get_slice(n).get_dtype(), tuple(file.get_slice(n).get_shape())) for n in file.keys()}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError, ValueError) as e:
        raise CheckpointError(f"{path}: damaged or not a safetensors file ({e})") from None
    if path.name == "table.safetensors":
        expected = {"rates": ("F32", 1), "removed": ("I64", 1)}
        good = {n: (t, len(s)) for n, (t, s) in found.items()} == expected
    else:
        n, m = (found.get(k, ("", (-1,)))[1][0] for k in ("keys", "candidates"))
        good = found == {
            "keys": ("I64", (n,)),
            "values": ("F32", (n, table.dim)),
            "states": ("F32", (n, table._native.state_words)),
            "counts": ("F32", (n, 2)),
            "numbers": ("I32", (n, 3)),
            "candidates": ("I64", (m,)),
            "waiting": ("I32", (m,)),
        }
    if not good:
        raise CheckpointError(f"{path}: its tensors are not those of table '{table.name}': {found}")


def _take_up(table: TableState, folder: Path, manifest: dict[str, Any]) -> None:
    native = table._native
    shared = load_tensors(folder / "table.safetensors")
    if manifest["kind"] == "delta":
        native.age(manifest["passes_since"])
        native.forget(shared["removed"].array())
        native.clear_candidates()
    native.set_rates(shared["rates"].array())
    for entry in manifest["files"]:
        if entry["name"] == "table.safetensors":
            continue
        t = {name: x.array() for name, x in load_tensors(folder / entry["name"]).items()}
        native.write_rows(t["keys"], t["values"], t["states"], t["counts"], t["numbers"])
        native.write_candidates(t["candidates"], t["waiting"])


def export_text(table: TableState, path: Path | str) -> int:
    """Writes rows as lines `key<TAB>show<TAB>click<TAB>value value ...`, keys unsigned, numbers exact.

    Returns how many. Steps that rows missed are made up for in what is written.
    """
    rows = 0
    with atomic_file(Path(path)) as part, part.open("w", encoding="utf-8") as file:
        for bucket in range(table._native.buckets):
            keys, values, _, counts, _ = (
                Tensor(a).numpy() for a in table._native.read_rows(bucket, bucket + 1, 0, True)
            )
            for key, value, (show, click) in zip(keys, values, counts, strict=True):
                numbers = " ".join(str(x) for x in value)
                file.write(f"{int(key) & (2**64 - 1)}\t{show}\t{click}\t{numbers}\n")
            rows += len(keys)
    return rows
