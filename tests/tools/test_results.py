"""Every shipped config says in one line what is known of it; tools/results.py makes the table of results from these."""

import pytest

from suites.engine.config.tree.shipped import configs_folder, shipped_configs
from tools import results
from tools.results import Figure, Status, read_status


@pytest.mark.parametrize("name", shipped_configs())
def test_a_config_says_what_is_known_of_it(name):
    read_status((configs_folder() / f"{name}.yml").read_text(encoding="utf-8"))


def test_the_page_is_up_to_date(capsys):
    assert results.main(["--check"]) == 0, capsys.readouterr().out


def test_an_outdated_page_is_named_and_written_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(results, "ROOT", tmp_path)
    (tmp_path / "docs" / "results").mkdir(parents=True)
    assert results.main(["--check"]) == 1 and "docs/results/configs.md: out of date" in capsys.readouterr().out
    assert results.main([]) == 0 and results.main(["--check"]) == 0


OURS = Figure("top-1", "0.975", "132 clips, mean of 3 seeds", "2026-11-23")
THEIRS = Figure("box AP", "37.4 to 37.9", "COCO val", "mmdetection, Detectron2")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("checked only", Status(None, None)),
        ("trained here (top-1 0.975 on 132 clips, mean of 3 seeds, 2026-11-23)", Status(OURS, None)),
        ("published by others (box AP 37.4 to 37.9 on COCO val by mmdetection, Detectron2)", Status(None, THEIRS)),
        (
            "trained here (top-1 0.975 on 132 clips, mean of 3 seeds, 2026-11-23); "
            "published by others (box AP 37.4 to 37.9 on COCO val by mmdetection, Detectron2)",
            Status(OURS, THEIRS),
        ),
        (
            "published by others (mAP 73.2 on VOC 2007 test, source not noted)",
            Status(None, Figure("mAP", "73.2", "VOC 2007 test", "source not noted")),
        ),
    ],
)
def test_the_forms_of_a_status(line, status):
    assert read_status(f"# A network.\n# Status: {line}.\nsuite: x\n") == status


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("# A network.\n", "has 0 lines"),
        ("suite: x\n# Status: checked only.\n", "has 0 lines"),
        ("# Status: checked only.\n# Status: checked only.\n", "has 2 lines"),
        ("# Status: fine.\n", "none of the forms"),
        ("# Status: .\n", "none of the forms"),
        ("# Status: trained here (top-1 0.9 on clips).\n", "with a date or a source"),
        ("# Status: trained here (good on clips, 2026-11-23).\n", "with a date or a source"),
        ("# Status: published by others (AP 37.4 on COCO val).\n", "with a date or a source"),
    ],
)
def test_another_line_is_refused(text, match):
    with pytest.raises(ValueError, match=match):
        read_status(text)
