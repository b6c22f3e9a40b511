"""Nothing is written or removed outside of a folder that is confined, whatever links lie in it."""

import os

import pytest

from framework import atomic
from framework.confined import confine, expect_no_way_out, open_inside
from framework.errors import CheckpointError


@pytest.fixture
def folder(tmp_path):
    """A confined folder with links to a file and a folder beside it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep.jpg").write_text("mine")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").symlink_to(outside / "keep.jpg")
    (folder / "missing").symlink_to(outside / "new")
    (folder / "below").symlink_to(outside)
    confine(folder)
    yield folder
    assert [path.name for path in outside.iterdir()] == ["keep.jpg"]
    assert (outside / "keep.jpg").read_text() == "mine"


WRITERS = {
    "write": lambda path: atomic.write_text(path, "theirs"),
    "bytes": lambda path: atomic.write_bytes(path, b"theirs"),
    "append": lambda path: atomic.open_to_append(path).write("theirs"),
    "open": lambda path: open_inside(path, os.O_RDWR | os.O_TRUNC),
    "remove": atomic.remove_file,
    "remove any": atomic.remove,
    "remove folder": atomic.remove_folder,
    "folder": lambda path: atomic.make_folder(path / "new"),
    "move": lambda path: atomic.move(path, path.with_name("other")),
    "whole folder": lambda path: atomic.atomic_folder(path.with_name("made")).__enter__(),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_follows_no_link_to_a_folder_outside(folder, name):
    with pytest.raises(CheckpointError, match=r"lies outside of .*folder.*, in .*outside\S*, through a link or"):
        WRITERS[name](folder / "below" / "one")


@pytest.mark.parametrize("name", WRITERS)
def test_a_name_leads_nowhere_above(folder, name):
    with pytest.raises(CheckpointError, match=r"lies outside of"):
        WRITERS[name](folder / "report-" / ".." / ".." / "outside" / "keep.jpg")


@pytest.mark.parametrize("name", ["append", "open"])
@pytest.mark.parametrize("link", ["file", "missing"])
def test_a_link_is_not_opened(folder, name, link):
    with pytest.raises(CheckpointError, match=f"{link}: is a link or no regular file"):
        WRITERS[name](folder / link)


@pytest.mark.parametrize("name", ["write", "remove", "remove any", "remove folder", "move"])
def test_a_link_at_the_end_is_replaced_or_removed_itself(folder, name):
    for link in ("file", "missing"):
        WRITERS[name](folder / link)
        assert not (folder / link).is_symlink()


def test_leftovers_that_are_links_go_and_what_they_lead_to_stays(folder):
    (folder / ".x.old").symlink_to(folder.parent / "outside")
    (folder / ".y.part").symlink_to(folder.parent / "outside" / "keep.jpg")
    atomic.remove_leftovers(folder)
    assert not any(os.path.lexists(folder / name) for name in (".x.old", ".y.part"))


@pytest.mark.parametrize("link", ["file", "missing", "below"])
def test_a_link_that_leads_out_is_named_before_anything_is_opened(folder, link):
    for other in {"file", "missing", "below"} - {link}:
        (folder / other).unlink()
    with pytest.raises(CheckpointError, match=rf"folder/{link}: is a link to .*outside.*cp -rL"):
        expect_no_way_out(folder)


def test_links_within_the_folder_are_fine(tmp_path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").symlink_to("a")
    expect_no_way_out(tmp_path)


def test_a_pipe_is_not_opened_for_ever(tmp_path):
    os.mkfifo(tmp_path / "log.txt")
    with pytest.raises(CheckpointError, match="is neither a file nor a folder"):
        expect_no_way_out(tmp_path)
    with pytest.raises(CheckpointError, match="no regular file"):
        atomic.open_to_append(tmp_path / "log.txt")


def test_a_file_that_a_backup_shares_is_copied_before_lines_are_added(tmp_path):
    (tmp_path / "log.txt").write_text("one\n")
    os.link(tmp_path / "log.txt", tmp_path / "backup.txt")
    with atomic.open_to_append(tmp_path / "log.txt") as file:
        file.write("two\n")
    assert (tmp_path / "log.txt").read_text() == "one\ntwo\n" and (tmp_path / "backup.txt").read_text() == "one\n"


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_the_umask_is_followed(tmp_path, mask):
    before = os.umask(mask)
    try:
        atomic.write_text(tmp_path / "file", "")
        atomic.open_to_append(tmp_path / "lines").close()
        with atomic.atomic_folder(tmp_path / "folder") as part:
            (part / "x").write_text("")
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "file", tmp_path / "lines", tmp_path / "folder")]
    assert modes == [0o666 & ~mask, 0o666 & ~mask, 0o777 & ~mask]
