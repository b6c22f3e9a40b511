"""The native example of click logs is built as a user builds it, and scores rows as Python does."""

import json
import subprocess

from suites.engine.predict.inference import export_run, load
from tests.examples.test_native import built, compiler, run  # noqa: F401  (two are fixtures)
from tests.suites.ctr.helpers import columns, write_csv
from tests.suites.ctr.test_task import MODELS, folder  # noqa: F401  (a fixture)
from tests.suites.ctr.test_task import run as run_clicks
from tests.suites.test_native_slots import slots  # noqa: F401  (a fixture)


def test_deepfm_scores_the_rows_of_a_csv_as_python_does(built, folder, tmp_path):  # noqa: F811
    run_clicks(folder, f"model={json.dumps({'type': 'DeepFM', **MODELS['DeepFM']})}", "runtime.epochs=1")
    exported = folder / "exported"
    export_run(folder / "run", exported)
    found = columns(1100, seed=5)
    write_csv(tmp_path / "rows.csv", {name: found[name] for name in ("time", "price", "user", "liked", "item")})
    lines = run(built / "click", exported, tmp_path / "rows.csv").split()
    rows = [{name: found[name][i] for name in ("price", "user", "liked", "item")} for i in range(1100)]
    expected = [answer.value["click"] for answer in load(exported)(rows)]
    assert [float(line) for line in lines] == [float(f"{score:.9g}") for score in expected]
    assert len(set(lines)) > 500
    (tmp_path / "rows.csv").write_text('user,price\nu1,"3"\n')
    done = subprocess.run([built / "click", exported, tmp_path / "rows.csv"], capture_output=True, text=True)
    assert done.returncode == 1 and "a quoted value; this program takes plain ones" in done.stderr


def test_lines_of_a_slot_log_are_scored_as_python_does(built, slots, tmp_path):  # noqa: F811
    exported, line = slots
    rows = [{"6": str(i % 9), "7": [str(i % 5), str(i)], "9": ["1", "2"][: i % 3]} for i in range(600)]
    pairs = [[(name, sign) for name, each in row.items() for sign in ([each] if name == "6" else each)] for row in rows]
    (tmp_path / "log.txt").write_text("\n\n".join(line(0, *each) for each in pairs) + "\r\n")
    scores = run(built / "click", exported, tmp_path / "log.txt").split()
    expected = [answer.value["click"] for answer in load(exported)(rows)]
    assert [float(score) for score in scores] == [float(f"{score:.9g}") for score in expected]
    assert len(set(scores)) > 50
    for text, said in (("1", "line 0: has 1 values before its pairs"), (None, "cannot be opened")):
        (tmp_path / "log.txt").unlink() if text is None else (tmp_path / "log.txt").write_text(text)
        done = subprocess.run([built / "click", exported, tmp_path / "log.txt"], capture_output=True, text=True)
        assert done.returncode == 1 and said in done.stderr
