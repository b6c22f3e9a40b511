"""Published weights in tests: skipped, with the command that fetches them, where they are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from suites.engine.weights.records import get_record, zoo_folder

ROOT = Path(__file__).resolve().parents[1]


def fetched(name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a record whose files are in the zoo's folder: $PADDOCK_ZOO, else cache/zoo of the repository."""
    folder = ROOT / zoo_folder()
    monkeypatch.setenv("PADDOCK_ZOO", str(folder))
    record = get_record(name)
    if not all((folder / name / file.name).is_file() for file in record.files):
        pytest.skip(f"no {folder / name}: run {record.fetch_command}")
    return name
