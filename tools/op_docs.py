"""Write what is generated from the operator registry: `python tools/op_docs.py [--check]`.

`framework/ops/__init__.pyi` holds the static types of `framework.ops`, docs/reference/operators/ a page a family.
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
    from tools.op_reference import generated_files

    parser = argparse.ArgumentParser(description="Write the operators' static types and reference pages.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    check = parser.parse_args(words).check
    stale = []
    for name, text in generated_files(accepted_types).items():
        path = ROOT / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for name in stale:
        print(f"{name}: {'out of date; run `make docs`' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
