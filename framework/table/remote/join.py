"""One base of the bases that shards wrote, in the form that any table reads."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from framework.atomic import atomic_folder, write_text
from framework.errors import CheckpointError
from framework.remedies import refusal
from framework.table import files


def join(folders: Sequence[Path], path: Path) -> str:
    """Make one base of several whose rows lie in different buckets, such as those of shards; returns its id.

    Files are linked where that can be, else copied; rows are not read.

    Raises:
        CheckpointError: a folder is damaged or of another table, or `path` cannot be written.
    """
    manifests = [files.read_manifest(folder) for folder in folders]
    told: list[dict[str, str]] = []
    try:
        with atomic_folder(path) as into:
            for number, (folder, manifest) in enumerate(zip(folders, manifests, strict=True)):
                if manifest["kind"] != "base" or manifest["table"] != manifests[0]["table"]:
                    raise CheckpointError(f"{folder}: is no base of the same table as {folders[0]}")
                for entry in manifest["files"]:
                    shared = entry["name"] == "table.safetensors"
                    if shared and number:
                        continue
                    name = entry["name"] if shared else f"rows-{len(told):05d}.safetensors"
                    _link(folder / entry["name"], into / name)
                    told.append({"name": name, "sha256": entry["sha256"]})
            passes = max(m["passes"] for m in manifests)
            whole = {
                **manifests[0],
                "id": secrets.token_hex(16),
                "passes": passes,
                "passes_since": passes,
                "files": told,
            }
            write_text(into / files.MANIFEST, json.dumps(whole, indent=1))
    except OSError as e:
        raise CheckpointError(f"{path}: the table cannot be written there ({refusal(e)})") from e
    return str(whole["id"])


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)
