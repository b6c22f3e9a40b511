"""Find pictures or texts that are alike: `paddock index build runs/mine photos --output gallery`, then `find`.

Of faces: `paddock index build runs/faces album --boxes retinaface_mobilenetv1_025 --output gallery`.
The model gives vectors: a run of `retrieval/photos`, or what `paddock embedder` exports of texts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suites.engine.predict.gallery import Embedder


def main(words: list[str] | None = None, prog: str | None = None) -> int:
    """Run one command and return the exit status; `words` are the command line."""
    from suites.engine.command_line import Parser, add_boxes_options, add_import_option, run
    from suites.engine.hosts.devices import add_device_option

    parser = Parser(prog=prog, description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: object, text: str, model: bool = True) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(command=function)
        if model:
            command.add_argument("model", type=Path, help="a run, an export, or a name of published weights")
            command.add_argument("--pooling", metavar="NAME", help="how an item gets one vector (the model's first)")
            command.add_argument(
                "--text", action="store_true", help="each input is a text, though it looks like a file"
            )
            add_boxes_options(command)
            add_device_option(command, "a run's own, the cpu for an export")
            add_import_option(command)
        return command

    build = add("build", _build, "vectors of all inputs as a folder to search")
    build.add_argument("inputs", nargs="+", help="files, folders or patterns; texts, or files of a text a line")
    build.add_argument("--output", type=Path, required=True, metavar="FOLDER", help="the gallery to write")
    update = add("update", _update, "bring a gallery up to date: files that changed, came or went")
    update.add_argument("gallery", type=Path, help="the folder that `build` wrote")
    find = add("find", _find, "what in a gallery is most alike")
    find.add_argument("gallery", type=Path, help="the folder that `build` wrote")
    find.add_argument("inputs", nargs="+", help="files, folders, patterns or texts")
    find.add_argument("--count", type=int, default=10, metavar="K", help="of each input, at most (10)")
    find.add_argument("--json", action="store_true", help="a JSON object for each input, on a line")
    pairs = add("duplicates", _duplicates, "pairs of a gallery that are nearly the same", model=False)
    pairs.add_argument("gallery", type=Path, help="the folder that `build` wrote")
    pairs.add_argument("--least", type=float, default=0.95, metavar="COSINE", help="of a pair (0.95)")
    a = parser.parse_args(words)
    return run(lambda: int(a.command(a)), getattr(a, "imports", ()))


def _embedder(a: argparse.Namespace) -> Embedder:
    from suites.engine.predict.gallery import Embedder
    from suites.engine.predict.objects import open_finder

    return Embedder(a.model, a.pooling, a.device, texts=a.text, finder=open_finder(a.boxes, a.only, device=a.device))


def _build(a: argparse.Namespace) -> int:
    from suites.engine.predict.gallery import build_gallery

    count, skipped = build_gallery(_embedder(a), a.inputs, a.output)
    _tell(skipped)
    print(f"{a.output}: {count} vectors")
    return 0


def _update(a: argparse.Namespace) -> int:
    from suites.engine.predict.gallery import update_gallery

    done = update_gallery(_embedder(a), a.gallery)
    _tell(done.skipped)
    changed, gone, new, _ = done.changes
    print(f"{a.gallery}: {done.total} vectors; files: {len(changed)} changed, {len(gone)} gone, {len(new)} new")
    return 0


def _find(a: argparse.Namespace) -> int:
    return show_alike(_embedder(a), a.gallery, a.inputs, a.count, as_json=a.json)


def show_alike(
    embedder: Embedder, folder: Path, inputs: Sequence[str], count: int = 10, *, as_json: bool = False
) -> int:
    """Print what in the gallery of a folder is most alike to each input; return the exit status."""
    from suites.engine.predict.gallery import changes_of, find_alike, open_gallery, stale_items
    from suites.engine.predict.gallery.files import told

    gallery = open_gallery(folder, embedder)
    changes = changes_of(gallery, folder, embedder)
    stale = stale_items(gallery, folder, changes)
    skipped: list[str] = []
    answered = 0
    for name, found in find_alike(gallery, embedder, inputs, count, skipped):
        answered += 1
        if as_json:
            rows = [{**each._asdict(), **_file_is(stale.get(each.name))} for each in found]
            print(json.dumps({"name": name, "found": rows}, ensure_ascii=False))
        else:
            lines = [f"  {each.cosine:.3f}  {each.name}{_since(stale.get(each.name))}" for each in found]
            print("\n".join([f"{name}:", *lines]))
    _tell(skipped)
    _warn(told(changes, str(folder)))
    return 0 if answered else 1


def _file_is(stale: str | None) -> dict[str, str]:
    return {} if stale is None else {"file": stale}


def _since(stale: str | None) -> str:
    return "" if stale is None else f"  ({stale} since the gallery was written)"


def _duplicates(a: argparse.Namespace) -> int:
    from suites.engine.predict.gallery import alike_pairs, changes_of, open_gallery, stale_items
    from suites.engine.predict.gallery.files import told

    gallery = open_gallery(a.gallery)
    changes = changes_of(gallery, a.gallery)
    stale = stale_items(gallery, a.gallery, changes)
    pairs = [pair for pair in alike_pairs(gallery, a.least) if not {pair.first, pair.second} & stale.keys()]
    for pair in pairs:
        print(f"{pair.cosine:.3f}  {pair.first}  {pair.second}")
    print(f"{len(pairs)} pairs with a cosine of {a.least:g} or more")
    if stale:
        _warn([f"{len(stale)} items whose files changed or are gone are left out"])
    _warn(told(changes, str(a.gallery)))
    return 0


def _warn(lines: list[str]) -> None:
    for line in lines:
        print(f"warning: {line}", file=sys.stderr)


def _tell(skipped: list[str]) -> None:
    for line in skipped:
        print(f"skipped: {line}", file=sys.stderr)
