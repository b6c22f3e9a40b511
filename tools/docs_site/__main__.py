"""Build the site: `python -m tools.docs_site`; a dead link, or a page that no menu has, is an error."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from framework import programs
from tools.docs_site.reference import reference_pages
from tools.docs_site.stage import ROOT, stage

_SECONDS = 1800


def main(words: list[str] | None = None) -> int:
    """Lay the pages out and run mkdocs on them; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs_site", description="Build the docs as a site.")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site", help="folder (default: build/site)")
    output = parser.parse_args(words).output.resolve()
    config = stage(output, reference_pages())
    status, said = build(config)
    print(said if status else f"site: {output / 'html' / 'index.html'}")
    return status


def build(config: Path) -> tuple[int, str]:
    """Run mkdocs on a complete mkdocs.yml; return its exit status and what it warned of."""
    # Not --quiet: --strict then counts no warning. The variable silences a banner about the generator's successor.
    options = ("-m", "mkdocs", "build", "--strict", f"--config-file={config}")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = programs.run(programs.PYTHON, options, seconds=_SECONDS, cwd=str(config.parent), env=environment)
    lines = (line for line in done.stderr.splitlines() if line and not line.startswith("INFO"))
    return done.returncode, "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
