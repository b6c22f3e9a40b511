"""The commands of the README's table train as they stand, in an empty folder, on drawn data.

Each runs in a process of its own through the installed console script. Only the number of steps is added; where weights
are not fetched here, and for the large text encoder, the parts that would need them are replaced. `scripts/smoke` runs
the rows from the wheel, with their weights.
"""

import os
import sys
from pathlib import Path

import pytest

from tests.readme_rows import DRAWN, rows_of, run_row, suite_of

ROOT = Path(__file__).resolve().parents[1]
ROWS = rows_of(ROOT)
INSTEAD = {  # of weights that are fetched
    "detection": ["model.pretrained=null"],
    "segmentation": ["model.backbone.pretrained=null"],
    "classification": ["model.pretrained=null"],
    "video": ["model.backbone.pretrained=null"],
    "keypoints": [],
    "anomaly": ["model.backbone.pretrained=null"],
    "retrieval": ["model.pretrained=null"],
    "nlp": [
        "model.weights=null",
        "data.tokenizer={type: BertTokenizer, vocabulary: vocab.txt}",
        "model.encoder={type: Bert, vocab_size: 13, hidden_size: 16, layers: 1, heads: 2, ffn_size: 16}",
    ],
    "ctr": [],
}


def test_the_table_has_a_row_a_suite():
    assert [suite_of(row) for row in ROWS] == list(DRAWN)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split()[2])
def test_a_row_trains_as_it_stands(row, tmp_path):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PADDOCK_")}
    run_row(row, tmp_path, Path(sys.executable).parent / "paddock", environment, INSTEAD[suite_of(row)])


def test_the_smoke_of_the_wheel_runs_the_rows():
    assert 'empty/bin/python -I "$root/tests/readme_rows.py" "$root"' in (ROOT / "scripts" / "smoke").read_text()
