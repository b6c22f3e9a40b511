"""Damaged files that code coverage chooses, for one kind of reader: `scripts/fuzz guided image --seconds 3600`.

Needs atheris, which is no dependency of Paddock: `.venv/bin/pip install atheris`. What is told is what
`tests.mutations` tells. An input is a byte that chooses a file of `tests.seeds`, and what stands in it. Inputs that
reach new code stay in `build/fuzz/KIND/corpus`, where the next run begins; `build/fuzz/KIND/input` is the last one, for
a process that died.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any

from tests import bombs
from tests.mutations import judged
from tests.seeds import Files, whole_files

ROOT = Path(__file__).parents[1]


class Inputs:
    """Inputs of the readers of one kind.

    Attributes:
        places: (whole files, name of the one that an input stands for), by its first byte.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.places = [(files, name) for _, files in whole_files([kind]) for name in sorted(files)]

    def whole(self) -> list[bytes]:
        """An input for each file as it is."""
        return [bytes([at]) + files[name] for at, (files, name) in enumerate(self.places)]

    def files(self, data: bytes) -> tuple[int, Files]:
        """The number of an input's place, and its files by name."""
        at = data[0] % len(self.places)
        files, name = self.places[at]
        return at, files | {name: data[1:]}

    def write(self, data: bytes, folder: Path) -> Path:
        """Write an input's files below a folder; returns the one that its reader gets."""
        at, files = self.files(data)
        (folder / "input").write_bytes(data)
        return bombs.write(lambda: dict(files), folder / "files" / str(at))

    def read(self, data: bytes, folder: Path) -> None:
        """Read an input; AssertionError where something is told of it."""
        if not data:
            return
        told = judged(self.kind, self.write(data, folder)).told
        assert not told, "; ".join(told)


class Plain:
    """A finder of an editable installation, whose modules load as others do: atheris follows no loader of its own."""

    def __init__(self, finder: Any) -> None:
        self.finder = finder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Where a module lies."""
        spec: ModuleSpec | None = self.finder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            spec.loader = SourceFileLoader(name, spec.origin)
        return spec


def fuzz(kind: str, folder: Path, options: Sequence[str], atheris: Any) -> None:
    """Read inputs as long as libFuzzer's options say; it ends the process."""
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    sys.meta_path[:] = [Plain(f) if "editable" in type(f).__module__ else f for f in sys.meta_path]
    with atheris.instrument_imports(include=["framework", "suites"]):  # readers import what they need at the first file
        inputs = Inputs(kind)
        for at, data in enumerate(inputs.whole()):
            (corpus / f"whole_{at}").write_bytes(data)
            with contextlib.suppress(Exception):
                bombs.READERS[kind](inputs.write(data, folder))
    # Its own clock is that of the wall; `judged` counts time of the processor.
    always = ["-timeout=0", "-rss_limit_mb=0", f"-artifact_prefix={folder}/", str(corpus)]
    atheris.Setup([sys.argv[0], *options, *always], lambda data: inputs.read(data, folder))
    atheris.Fuzz()


def main(words: list[str]) -> int:
    """Read until the time is over; the status is not 0 where something is told."""
    parser = argparse.ArgumentParser(prog="tests.guided", description=__doc__)
    parser.add_argument("kind", choices=bombs.READERS, help="of readers")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--inputs", type=int, default=-1, help="at most so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", type=Path, help="read this input alone, a file that a run left")
    a = parser.parse_args(words)
    folder = ROOT / "build/fuzz" / a.kind
    folder.mkdir(parents=True, exist_ok=True)
    if a.again:
        Inputs(a.kind).read(a.again.read_bytes(), folder)
        return 0
    try:
        import atheris
    except ImportError:
        print("guided: needs the package atheris: .venv/bin/python -m pip install atheris", file=sys.stderr)
        return 2
    options = [f"-max_total_time={a.seconds}", f"-runs={a.inputs}", f"-seed={a.seed}", "-print_final_stats=1"]
    fuzz(a.kind, folder, options, atheris)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
