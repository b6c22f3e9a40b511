"""Programs in C++ that benchmarks of libpaddock compile: over its own headers, and over ONNX Runtime's C interface."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from framework.extend import include_dir, library_dir


def _built(source: Path, folder: Path, *flags: str | Path) -> Path:
    compiler, program = shutil.which("c++"), folder / source.stem
    if compiler is None:
        sys.exit(f"{source.stem}: no C++ compiler on this machine")
    subprocess.run([compiler, "-std=c++17", "-O2", source, "-o", program, *flags], check=True)
    return program


def compiled(source: Path, folder: Path) -> Path:
    """A program over paddock.hpp."""
    library = library_dir()
    return _built(
        source, folder, f"-I{include_dir()}", f"-L{library}", "-lpaddock", f"-Wl,-rpath,{library}", "-pthread"
    )


def compiled_for_ort(source: Path, folder: Path) -> tuple[Path, Path] | None:
    """A program over ort_interface.h and the library that it takes; None, with the reason, where there is none."""
    found = importlib.util.find_spec("onnxruntime")
    places = [] if found is None or found.origin is None else Path(found.origin).parent.glob("capi/libonnxruntime.so.*")
    library = next(iter(sorted(places)), None)
    if library is None:
        print("ONNX Runtime is not compared: its package is not installed, or has no library of its C interface")
        return None
    return _built(source, folder, "-ldl", "-pthread"), library
