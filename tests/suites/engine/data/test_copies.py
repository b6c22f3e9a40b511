"""Files of one set that are copies of files of another are counted."""

from types import SimpleNamespace

from suites.engine.config.settings import EvaluationSettings
from suites.engine.data.copies import copied_files
from suites.engine.reporting.tally import Tally
from suites.engine.train.hooks.assess import Assess


class Files:
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def name_of(self, at):
        return str(self.paths[at])


def test_copies_are_found_by_content_and_not_by_size_or_beginning(tmp_path):
    def write(name, data):
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    long = b"x" * 10_000
    train = [write("a", b"12345"), write("b", long + b"1"), write("c", b"")]
    held = [
        write("d", b"12345"),
        write("e", b"54321"),
        write("f", long + b"2"),
        write("g", long + b"1"),
        write("h", b""),
    ]
    assert copied_files(Files(train), Files(held)) == 2
    assert copied_files(Files(train), Files([tmp_path / "none"])) == 0 and copied_files(Files(train), object()) == 0


def test_a_run_says_once_what_evaluation_shares_with_training_and_keeps_it_for_its_report(tmp_path):
    for name, data in (("a", b"1"), ("b", b"2"), ("c", b"1"), ("d", b"3")):
        (tmp_path / name).write_bytes(data)
    train, held = Files([tmp_path / "a", tmp_path / "b"]), Files([tmp_path / "c", tmp_path / "d"])
    said, told = [], {}
    run = SimpleNamespace(write_told=lambda metric, tally, name: told.update({name: tally}))
    loop = SimpleNamespace(loader=SimpleNamespace(dataset=train), log=SimpleNamespace(say=said.append))
    sets = {"": (None, SimpleNamespace(dataset=held)), "other": (None, SimpleNamespace(dataset=train))}
    hook = Assess(run, sets, None, EvaluationSettings())
    for _ in range(2):
        hook._find_copies(loop)
    for name in sets:
        hook._keep(name, Tally(), None)
    text = "1 samples of eval are copies of samples of train, so its figures are too good"
    assert said[0] == f"note: {text}; `paddock data check` names them" and len(said) == 2
    assert told[""].notes == [text] and told["other"].notes[0].startswith("2 samples of eval other")
