"""Write what is generated from the operator registry: `python tools/op_docs.py [--check]`.

`framework/ops/functions.pyi` holds the static types of the functions of `framework.ops`, `internal.pyi` beside it those
of the operators that users do not call; docs/reference/operators/ has a page a family. Pages of families that are gone
are removed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def main(words: list[str] | None = None) -> int:
    """Write the files, or with `--check` name those that are out of date; return the exit status."""
    from tests.framework.ops.types import accepted_types
    from tools.op_reference import FOLDER, generated_files

    parser = argparse.ArgumentParser(description="Write the operators' static types and reference pages.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    check = parser.parse_args(words).check
    stale = []
    files = generated_files(accepted_types)
    for path in sorted((ROOT / FOLDER).glob("*.md")):
        name = str(path.relative_to(ROOT))
        if name not in files:
            stale.append(name)
            if not check:
                path.unlink()
    for name, text in files.items():
        path = ROOT / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for name in stale:
        print(
            f"{name}: {'out of date; run `make docs`' if check else 'written' if (ROOT / name).exists() else 'removed'}"
        )
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
