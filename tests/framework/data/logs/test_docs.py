"""docs/howto/ctr_data.md says what is there: its example runs, and every key and kind of fault is in it."""

import re
from pathlib import Path

from framework.data.logs import LogReader, LogSchema
from framework.data.logs.reasons import _SAID
from framework.data.logs.schema import _FIELDS, _TOP

TEXT = (Path(__file__).resolve().parents[4] / "docs" / "howto" / "ctr_data.md").read_text()


def test_the_example_reads_a_log(tmp_path):
    import gzip

    code = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[0]
    (tmp_path / "day_0.tsv.gz").write_bytes(gzip.compress(b"1\t2.5\tann\t7\t8|9\n0\t\tbob\t8\t\n"))
    found = {}
    code = code.replace("logs/day_*", f"{tmp_path}/day_*").replace(
        'batch["sparse"], batch["labels"]', "found.update(batch)"
    )
    exec(compile(code, "docs/howto/ctr_data.md", "exec"), {"found": found})
    assert found["sparse"].shape == (2, 3) and found["history.offsets"][-1] == 2


def test_every_key_and_every_kind_of_fault_is_explained():
    for name in [*_TOP, *(key for fields in _FIELDS.values() for key in fields), *_SAID]:
        assert f"`{name}" in TEXT, name


def test_the_classes_say_what_they_take():
    assert "shuffle_rows" in LogReader.__doc__ and "docs/howto/ctr_data.md" in LogSchema.__doc__
