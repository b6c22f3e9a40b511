"""Files of one set that are copies of files of another are counted."""

from suites.engine.data.copies import copied_files


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
