"""One process writes into a run folder at a time; what a run left is deleted only when that is asked for."""

import errno
import os
import pwd
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from framework.errors import ConfigError
from suites.engine.config import Config
from suites.engine.run.folder import RunFolder
from suites.engine.run.ownership import LOCK, Ownership, is_owned

ROOT = Path(__file__).parents[4]
CONFIG = Config.from_dict({"suite": "detection"})
HOLDER = """
    import sys, time
    sys.path[:0] = [{root!r}]
    from pathlib import Path
    from suites.engine.config import Config
    from suites.engine.run.folder import RunFolder
    from framework.data import DataLoader
    if __name__ == "__main__":
        run = RunFolder.create(Path({path!r}), Config.from_dict({{"suite": "detection"}}))
        loader = DataLoader([{{"x": i}} for i in range(4)], workers=2)
        print(len(list(loader)), flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that owns `tmp_path/a` and has data workers."""
    script = tmp_path / "holder.py"
    script.write_text(textwrap.dedent(HOLDER).format(root=str(ROOT), path=str(tmp_path / "a")))
    process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "4\n"
    yield process
    process.kill()
    process.communicate()


def test_a_run_that_another_process_writes_is_neither_replaced_nor_continued(tmp_path, holder):
    before = sorted(path.name for path in (tmp_path / "a").iterdir())
    message = rf"a: process {holder.pid} on \S+ is writing this run; wait for it, stop it, or choose another --name"
    for start in (
        lambda: RunFolder.create(tmp_path / "a", CONFIG),
        lambda: RunFolder.create(tmp_path / "a", CONFIG, overwrite=True),
        lambda: RunFolder.reopen(tmp_path / "a", CONFIG),
    ):
        with pytest.raises(ConfigError, match=message):
            start()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == before
    assert is_owned(tmp_path / "a")


def test_the_lock_falls_with_kill_9_even_if_data_workers_live_on(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert not is_owned(tmp_path / "a")
    RunFolder.reopen(tmp_path / "a", CONFIG).close()


def test_two_starts_in_one_process_are_told_apart(tmp_path):
    run = RunFolder.create(tmp_path / "a", CONFIG)
    with pytest.raises(ConfigError, match=f"process {os.getpid()} on"):
        RunFolder.create(tmp_path / "a", CONFIG, overwrite=True)
    run.close()
    RunFolder.create(tmp_path / "a", CONFIG, overwrite=True).close()


def test_the_run_of_another_user_is_refused_with_its_owner_and_what_to_do(tmp_path, monkeypatch):
    RunFolder.create(tmp_path / "a", CONFIG).close()
    owner = pwd.getpwuid(os.getuid()).pw_name
    other, real = os.getuid() + 1, os.open

    def refuse(path, flags, *rest, **named):
        if os.fspath(path).endswith(".lock") and flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(errno.EACCES, "Permission denied", os.fspath(path))
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", refuse)
    monkeypatch.setattr(os, "getuid", lambda: other)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigError, match=rf"this user may not write there .*, it belongs to {owner}; .*cp -r "):
        RunFolder.reopen(tmp_path / "a", CONFIG)


FORKING = """
    import os, signal, sys
    sys.path[:0] = [{root!r}]
    from pathlib import Path
    from suites.engine.run.ownership import Ownership
    owner = Ownership(Path({path!r}))
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        signal.pause()
    sys.stdin.read()
"""


def test_the_lock_falls_with_its_owner_although_a_forked_child_lives_on(tmp_path):
    script = textwrap.dedent(FORKING).format(root=str(ROOT), path=str(tmp_path))
    owner = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child = int(owner.stdout.readline())
    try:
        assert is_owned(tmp_path)  # the child lets go of its copy, not of its parent's lock
        owner.kill()
        owner.wait()
        os.kill(child, 0)
        assert not is_owned(tmp_path)
    finally:
        os.kill(child, signal.SIGKILL)
        owner.communicate()


def test_a_folder_that_was_removed_and_made_again_is_locked_anew(tmp_path):
    first = Ownership(tmp_path / "a")
    (tmp_path / "a" / LOCK).unlink()
    second = Ownership(tmp_path / "a")
    first.release()
    assert is_owned(tmp_path / "a")
    second.release()
    assert not is_owned(tmp_path / "a")


def test_nothing_is_deleted_unasked_also_where_no_weights_were_saved(tmp_path):
    RunFolder.create(tmp_path / "a", CONFIG).close()
    (tmp_path / "a/log.txt").write_text("hours of hints")
    with pytest.raises(ConfigError, match="holds a run already, which saved no weights; continue it with --resume"):
        RunFolder.create(tmp_path / "a", CONFIG)
    assert (tmp_path / "a/log.txt").read_text() == "hours of hints"


def test_a_failed_replacement_leaves_the_folder_known_as_a_run(tmp_path, monkeypatch):
    RunFolder.create(tmp_path / "a", CONFIG).close()
    (tmp_path / "a/log.txt").touch()

    def killed(path, *_):
        if path.name == "config.yml":
            raise KeyboardInterrupt
        return real(path)

    real = Path.unlink
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "unlink", killed)
        RunFolder.create(tmp_path / "a", CONFIG, overwrite=True)
    RunFolder.create(tmp_path / "a", CONFIG, overwrite=True).close()


def test_a_file_system_without_locks_is_said(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("framework.system.file_locks.fcntl.flock", refuse)
    with pytest.raises(ConfigError, match=r"cannot be locked \(Function not implemented\), so two runs could mix"):
        Ownership(tmp_path)
