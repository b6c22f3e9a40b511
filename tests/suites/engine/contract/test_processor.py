"""What a processor reads of a folder, and what it says of the rest."""

from suites.engine.contract.processor import Processor


class Numbers(Processor):
    """Reads files that end in .num."""

    def takes(self, path):
        return path.suffix == ".num"

    def read(self, path):
        return float(path.read_text())


Numbers.__abstractmethods__ = frozenset()


def test_what_is_not_read_of_a_folder_is_told(tmp_path, caplog):
    for name in ("10.num", "9.num", "a.gif", "b.gif"):
        (tmp_path / name).write_text("1")
    (tmp_path / "more").mkdir()
    with caplog.at_level("INFO"):
        names = [name for name, _ in Numbers().inputs(str(tmp_path))]
    assert names == [str(tmp_path / "9.num"), str(tmp_path / "10.num")]
    assert "2 files of kinds that this model does not read from a folder (a.gif, b.gif)" in caplog.text
    assert "1 folders, which are to be named by themselves (more)" in caplog.text
