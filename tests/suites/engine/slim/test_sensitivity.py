"""The table of what layers lose in 8 bits."""

import json

from framework.quantization import LayerLoss
from suites.engine.slim.sensitivity import markdown, write_table

ROWS = [LayerLoss("conv2d 3", "stem.weight", 4608, 0.02, 0.0012, 1.734), LayerLoss("matmul 0", "", 100, 0.005)]


def test_a_bar_is_an_error_s_share_of_the_largest():
    lines = markdown(ROWS).split("\n")[2:]
    assert lines[0] == f"| conv2d 3 | stem.weight | 4,608 | 2.00% | 0.12% | 1.73x | {'#' * 20} |"
    assert lines[1] == f"| matmul 0 |  | 100 | 0.50% |  |  | {'#' * 5} |"


def test_no_layers_and_no_errors_make_a_table(tmp_path):
    assert len(markdown([]).split("\n")) == 2
    assert markdown([LayerLoss("conv2d 0", "w", 1, 0.0)]).endswith("| 0.00% |  |  | # |")
    write_table(ROWS, tmp_path / "sensitivity")
    assert json.loads((tmp_path / "sensitivity.json").read_text())[1]["weights"] == 100
    assert (tmp_path / "sensitivity.md").read_text() == markdown(ROWS) + "\n"
