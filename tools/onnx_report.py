"""Write the report of the ONNX node tests into docs/howto/onnx.md: `python tools/onnx_report.py`, half a minute."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


def main() -> int:
    """Run all node tests of the package `onnx`, write the table and return the exit status."""
    from tests.framework.onnx import conformance

    cases = conformance.cases("node")
    text = conformance.report(cases, {case.name: conformance.failure(case) for case in cases})
    conformance.DOCUMENT.write_text(conformance.with_report(conformance.DOCUMENT.read_text(), text))
    print(f"{conformance.DOCUMENT}: {text.splitlines()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
