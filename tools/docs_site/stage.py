"""Lay the pages of the site out in a folder: docs/ as it is, the generated reference, and a complete mkdocs.yml.

The nav of the repository's mkdocs.yml names single pages, and folders (`reference/operators/`), which become all their
pages. A link that leaves docs/ becomes the name of its target, since the site has no such page; one without a target is
an error.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from framework.errors import DataError

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^\[)\s]+)\)")
_FENCE = re.compile(r"^```", re.M)


def stage(folder: Path, generated: Mapping[str, str], root: Path = ROOT) -> Path:
    """Write `folder/docs` and `folder/mkdocs.yml`; return the latter.

    Args:
        folder: what it held before goes.
        generated: pages by their path below docs/reference.
        root: the repository.

    Raises DataError for a link out of docs/ that leads nowhere, and for a folder of the nav without pages.
    """
    pages = folder / "docs"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / "docs", pages)
    for name, text in generated.items():
        path = pages / "reference" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path in pages.rglob("*.md"):
        source = root / "docs" / path.relative_to(pages)
        path.write_text(_named(path.read_text(encoding="utf-8"), source, root), encoding="utf-8")
    config = yaml.safe_load((root / "mkdocs.yml").read_text(encoding="utf-8"))
    config["nav"] = [_expanded(entry, pages) for entry in config["nav"]]
    file = folder / "mkdocs.yml"
    file.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return file


def _named(text: str, source: Path, root: Path) -> str:
    """A page whose links out of docs/ are names of what they lead to."""

    def link(found: re.Match[str]) -> str:
        words, target = found[1], found[2]
        if re.match(r"[a-z]+:|#", target):
            return found[0]
        path = posixpath.normpath((source.parent / target.partition("#")[0]).as_posix())
        place = os.path.relpath(path, root)
        if place.startswith("docs/"):
            return found[0]
        if not Path(path).exists():
            raise DataError(f"{source.relative_to(root)}: links to {target}, which is not there")
        return words if f"`{place}`" in words else f"{words} (`{place}`)"

    parts = _FENCE.split(text)
    return "```".join(part if i % 2 else _LINK.sub(link, part) for i, part in enumerate(parts))


def _expanded(entry: Any, pages: Path) -> Any:
    """An entry of the nav, whose folders became lists of their pages, the index first."""
    if isinstance(entry, list):
        return [_expanded(each, pages) for each in entry]
    if isinstance(entry, dict):
        return {title: _expanded(below, pages) for title, below in entry.items()}
    if not entry.endswith("/"):
        return entry
    found = sorted((pages / entry).glob("*.md"), key=lambda path: (path.name not in ("README.md", "index.md"), path))
    if not found:
        raise DataError(f"mkdocs.yml: nav: docs/{entry} holds no pages")
    return [path.relative_to(pages).as_posix() for path in found]
