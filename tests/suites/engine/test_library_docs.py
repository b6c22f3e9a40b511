"""The page on Paddock as a library runs as it stands."""

import re
from pathlib import Path

from suites.detection.datasets import DigitScenes
from suites.vision.pictures.images import write_image

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tutorial" / "library.md"


def test_the_example_runs(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    write_image("photo.png", DigitScenes("test", 1, size=96, max_side=48)[0].image)
    scope = {}
    exec(compile(code, str(PAGE), "exec"), scope)
    assert scope["found"][0].draw().shape[2] == 3
    assert (tmp_path / "runs" / "mine" / "config.yml").is_file()
