"""The loader's promises: same batches for any number of workers, exact resume, clear errors, no hang."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from multiprocessing.connection import wait
from pathlib import Path

import cv2
import numpy as np
import pytest

from framework.data import BatchDataset, DataLoader, sample_rng
from framework.data.pool import WorkerPool
from framework.data.recipe import BatchJob, Recipe
from framework.errors import AttributeValueError, CheckpointError, DataError, WorkerError

ROOT = Path(__file__).parents[3]


class Images:
    """Sample i is an image full of i, of a size that varies with the index, and its name."""

    def __init__(self, size=23, bad=None, kill=None):
        self.size, self.bad, self.kill = size, bad, kill

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index == self.bad:
            raise self.error()
        if index == self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"image": np.full((4, 5, 3), index, np.float32), "index": index, "name": self.name_of(index)}

    def name_of(self, index):
        return f"img{index:03d}"

    def error(self):
        return DataError(f"{self.name_of(self.bad)}.png: cut short after 17 bytes; copy the file again")


class Buggy(Images):
    def error(self):
        return KeyError("boxes")


class Scenes:
    """A dataset that draws its samples itself."""

    def __len__(self):
        return 6

    def sample(self, index, rng):
        return {"draw": rng.random(4), "index": index}


class Checks:
    """Says whether its array is read-only and where it is stored."""

    def __init__(self):
        self.annotations = np.arange(100_000)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return {
            "writable": self.annotations.flags.writeable,
            "owned": self.annotations.flags.owndata,
            "pid": os.getpid(),
        }


def brighten(sample, rng):
    sample["image"] = sample["image"] + rng.random(dtype=np.float32)
    return sample


def grow(samples, rng):
    size = int(rng.integers(1, 5))
    for sample in samples:
        sample["image"] = np.tile(sample["image"], (size, size, 1))
    return samples


def as_list(samples):
    return [sample["image"] for sample in samples]


def make(workers, dataset=None, **options):
    options = {"shuffle": True, "seed": 7, "transforms": [brighten], "batch_transforms": [grow], **options}
    return DataLoader(dataset or Images(), 4, workers=workers, **options)


def assert_same(a, b):
    assert a.keys() == b.keys()
    for key in a:
        np.testing.assert_array_equal(a[key], b[key])


@pytest.fixture(scope="module")
def two_epochs():
    """The batches of two epochs made in process: what every other way must reproduce."""
    loader = make(0)
    return [*loader, *loader]


@pytest.mark.parametrize("workers, method", [(1, None), (3, None), (2, "spawn"), (2, "fork")])
def test_batches_do_not_depend_on_workers_or_start_method(workers, method, two_epochs):
    with make(workers, start_method=method) as loader:
        batches = [*loader, *loader]
    assert len(batches) == len(two_epochs) == 12
    for ours, reference in zip(batches, two_epochs, strict=True):
        assert_same(ours, reference)


def test_forked_workers_start_where_opencv_has_threads():
    """A child has none of them, and waited for their end without one."""
    code = """
import cv2, numpy as np
from tests.framework.data.test_data_loader import make
if __name__ == "__main__":
    cv2.setNumThreads(4)
    cv2.GaussianBlur(np.zeros((2000, 2000, 3), np.uint8), (31, 31), 5)
    with make(2, start_method="fork") as loader:
        assert len(list(loader)) == 6
    assert cv2.getNumThreads() == 4
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60, check=True)


def test_stream_runs_across_epochs(two_epochs):
    with make(2) as loader:
        for reference, batch in zip(two_epochs, loader.stream(), strict=False):
            assert_same(batch, reference)


def test_every_sample_comes_once_an_epoch_and_epochs_differ(two_epochs):
    first, second = (np.concatenate([b["index"] for b in half]) for half in (two_epochs[:6], two_epochs[6:]))
    assert sorted(first) == sorted(second) == list(range(23))
    assert list(first) != list(second)


def test_unshuffled_order_and_drop_last():
    loader = make(0, shuffle=False, drop_last=True)
    assert [b["index"].tolist() for b in loader] == [list(range(i, i + 4)) for i in range(0, 20, 4)]
    assert len(loader) == 5


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", [0, 2, 6, 9])
def test_resume_continues_exactly(workers, taken, two_epochs):
    with make(workers) as loader:
        stream = loader.stream()
        for _ in range(taken):
            next(stream)
        state = pickle.loads(pickle.dumps(loader.state_dict()))
        assert (state["epoch"], state["batch"]) == divmod(taken, 6)
    with make(2 - workers) as resumed:
        resumed.load_state_dict(state)
        for reference, batch in zip(two_epochs[taken:], resumed.stream(), strict=False):
            assert_same(batch, reference)


def test_resume_with_other_data_is_refused():
    state = make(0).state_dict()
    with pytest.raises(CheckpointError, match="saved position has samples 23 but this loader has 9"):
        make(0, Images(9)).load_state_dict(state)


@pytest.mark.parametrize("workers", [0, 2])
def test_iterating_anew_starts_the_epoch_from_its_first_batch(workers, two_epochs):
    with make(workers) as loader:
        abandoned = iter(loader)
        next(abandoned)
        next(abandoned)
        for reference, batch in zip(two_epochs[:6], loader, strict=True):
            assert_same(batch, reference)
        with pytest.raises(RuntimeError, match="iterator has ended"):
            next(abandoned)


def test_a_batch_stays_intact_as_long_as_it_is_kept(two_epochs):
    with make(2) as loader:
        kept = [*loader, *loader]
        loader.close()
        gc.collect()
    for ours, reference in zip(kept, two_epochs, strict=True):
        assert_same(ours, reference)


def test_memory_is_used_again_once_a_batch_is_dropped():
    with make(1, prefetch=1, batch_transforms=(), drop_last=True) as loader:
        addresses = {batch["image"].ctypes.data for epoch in range(4) for batch in loader}
    assert len(addresses) <= 3  # one in the making, one held by the loop, one given back late


def test_batches_hold_any_picklable_structure():
    with make(2, batch_transforms=(), collate=as_list) as loader:
        batch = next(iter(loader))
    assert isinstance(batch, list) and batch[0].shape == (4, 5, 3) and batch[0].flags.writeable


@pytest.mark.parametrize("workers", [0, 2])
def test_dataset_may_draw_its_samples_itself(workers):
    with DataLoader(Scenes(), 6, seed=5, workers=workers) as loader:
        first, second = next(iter(loader)), next(iter(loader.stream()))
    np.testing.assert_array_equal(first["draw"], [sample_rng(5, 0, i).random(4) for i in range(6)])
    np.testing.assert_array_equal(second["draw"], [sample_rng(5, 1, i).random(4) for i in range(6)])


def test_workers_share_the_datasets_arrays_read_only():
    with DataLoader(Checks(), 4, workers=2) as loader:
        batch = next(iter(loader))
    assert not batch["writable"][0] and not batch["owned"][0]
    assert batch["pid"][0] != os.getpid()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_sample_is_named_in_one_line(workers):
    with make(workers, Images(bad=11), shuffle=False) as loader:
        batches = iter(loader)
        assert len([next(batches), next(batches)]) == 2
        with pytest.raises(DataError) as caught:
            next(batches)
    assert str(caught.value) == (
        "DataLoader: sample 11 (img011): img011.png: cut short after 17 bytes; copy the file again"
    )


@pytest.mark.parametrize("workers", [0, 2])
def test_a_bug_comes_with_the_workers_traceback(workers):
    with make(workers, Buggy(bad=3), shuffle=False) as loader, pytest.raises(DataError) as caught:
        next(iter(loader))
    text = str(caught.value)
    assert text.startswith("DataLoader: sample 3 (img003): KeyError: 'boxes'\nTraceback")
    assert "in __getitem__" in text and "in error" not in text


@pytest.mark.parametrize("workers", [0, 2])
def test_samples_that_do_not_stack_are_named(workers):
    with (
        make(workers, transforms=[uneven], batch_transforms=()) as loader,
        pytest.raises(DataError) as caught,
    ):
        next(iter(loader))
    assert "batch 0 of epoch 0: sample " in str(caught.value)
    assert "collate: 'image' is float32 [" in str(caught.value) and "resize or pad" in str(caught.value)


def uneven(sample, rng):
    sample["image"] = sample["image"][: 1 + sample["index"] % 3]
    return sample


def test_the_loader_goes_on_after_a_sample_error():
    with make(2, Images(bad=0), shuffle=False) as loader:
        with pytest.raises(DataError):
            next(iter(loader))
        loader.seek(0, 1)
        assert next(loader.stream())["index"].tolist() == [4, 5, 6, 7]


def test_a_killed_worker_gives_one_error_and_no_hang():
    started = time.monotonic()
    with make(2, Images(kill=9), shuffle=False) as loader, pytest.raises(WorkerError) as caught:
        list(loader)
    assert "was killed by signal 9" in str(caught.value) and "out-of-memory" in str(caught.value)
    assert time.monotonic() - started < 5


def test_an_idle_worker_that_dies_is_noticed_and_replaced_on_the_next_pass(two_epochs):
    with make(1) as loader:
        next(iter(loader))
        process = loader._pool._members[0].process
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(WorkerError):
            list(loader)
        loader.seek(0)
        assert_same(next(iter(loader)), two_epochs[0])


def test_what_cannot_be_sent_to_workers_is_said():
    with pytest.raises(AttributeValueError, match=r"top of a module, or use workers=0"):
        next(iter(make(1, transforms=[lambda sample, rng: sample])))


class Threads:
    """Says how many threads OpenCV uses."""

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return {"threads": cv2.getNumThreads()}


def test_libraries_use_one_thread_in_a_worker():
    with DataLoader(Threads(), 1, workers=1) as loader:
        (batch,) = loader
    assert batch["threads"][0] == 1


def broken_init(rank):
    raise OSError("no licence server")


def test_a_worker_that_cannot_start_says_why():
    with pytest.raises(WorkerError, match=r"could not start(.|\n)*no licence server"):
        list(make(2, worker_init=broken_init))


def test_a_worker_that_ended_before_it_got_a_task_says_why():
    """The job cannot be sent any more, and what the worker said is still unread."""
    recipe = Recipe([0], [], [], list, seed=0)
    pool = WorkerPool(recipe, 1, None, broken_init)
    wait([member.process.sentinel for member in pool._members])
    with pytest.raises(WorkerError, match=r"could not start(.|\n)*no licence server"):
        pool.submit(BatchJob(0, 0, 0, np.array([0])))


def test_the_fork_server_imports_ahead_from_any_folder(tmp_path):
    """Workers of a script in another folder find the data set's module imported already."""
    (tmp_path / "dataset_module.py").write_text(
        "import os\nfrom framework.data import Dataset\nIMPORTED_BY = os.getpid()\n"
        "class Pids:\n"
        "    def __len__(self): return 2\n"
        "    def __getitem__(self, index): return {'imported': IMPORTED_BY, 'parent': os.getppid()}\n"
    )
    (tmp_path / "script.py").write_text(
        f"import sys\nsys.path[:0] = [{str(ROOT)!r}]\n"
        "from framework.data import DataLoader\n"
        "if __name__ == '__main__':\n"
        "    from dataset_module import Pids\n"
        "    with DataLoader(Pids(), 2, workers=1) as loader:\n"
        "        (batch,) = loader\n"
        "    print(batch['imported'][0] == batch['parent'][0])\n"
    )
    done = subprocess.run([sys.executable, tmp_path / "script.py"], cwd="/", capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("True\n", "")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"dataset": Images(0)}, "0 samples"),
        ({"dataset": Images(3), "drop_last": True}, "3 samples make no full batch of 4"),
        ({"workers": -1}, "workers is -1"),
        ({"prefetch": 0}, "prefetch 0"),
    ],
)
def test_impossible_settings_are_refused(options, message):
    dataset = options.pop("dataset", Images())
    with pytest.raises((DataError, AttributeValueError), match=message):
        DataLoader(dataset, 4, **options)


def test_wait_time_is_counted():
    loader = DataLoader(Images(), 4, transforms=[slow])
    next(iter(loader))
    assert loader.wait_seconds >= 0.04


def slow(sample, rng):
    time.sleep(0.01)
    return sample


SCRIPT = """
    import os, signal, sys, time
    sys.path[:0] = [{root!r}, {here!r}]
    from test_data_loader import Images, make, slow
    if __name__ == "__main__":
        loader = make(2, transforms=[slow])
        batches = loader.stream()
        next(batches)
        print(*[m.process.pid for m in loader._pool._members], flush=True)
        {action}
"""


def run_script(tmp_path, action):
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT).format(root=str(ROOT), here=str(Path(__file__).parent), action=action))
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=30)
    return done, [int(pid) for pid in done.stdout.split()]


def assert_gone(pids):
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if not any(alive(pid) for pid in pids):
            return
        time.sleep(0.02)
    pytest.fail(f"workers {pids} outlived their parent")


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize(
    "action, code",
    [
        ("pass", 0),  # the script just ends, the loader still open
        ("raise SystemExit(3)", 3),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9),
    ],
)
def test_workers_end_with_their_parent_and_nothing_is_said(tmp_path, action, code):
    done, pids = run_script(tmp_path, action)
    assert (done.returncode, done.stderr) == (code, "")
    assert len(pids) == 2
    assert_gone(pids)


def test_ctrl_c_reaches_the_parent_only(tmp_path):
    action = "os.killpg(0, signal.SIGINT); [0 for b in batches]"
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT).format(root=str(ROOT), here=str(Path(__file__).parent), action=action))
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=30, start_new_session=True)
    assert done.returncode == -signal.SIGINT
    assert done.stderr.count("Traceback") == 1 and "KeyboardInterrupt" in done.stderr
    assert_gone([int(pid) for pid in done.stdout.split()])


class Rows:
    """A data set that gives whole batches."""

    def __init__(self, wrong=-1):
        self.numbers, self.wrong = np.arange(10) * 10, wrong

    def __len__(self):
        return 10

    def batch(self, indices):
        if self.wrong in indices:
            raise DataError("row 7 is no row")
        return {"x": self.numbers[indices]}


@pytest.mark.parametrize("workers", [0, 1])
def test_a_data_set_may_give_whole_batches(workers):
    with DataLoader(Rows(), 4, shuffle=True, seed=1, workers=workers) as loader:
        found = [batch["x"].copy() for batch in loader]
    assert [len(x) for x in found] == [4, 4, 2]
    assert sorted(np.concatenate(found)) == list(range(0, 100, 10))
    assert isinstance(Rows(), BatchDataset)


def test_a_whole_batch_that_cannot_be_made_is_named():
    with pytest.raises(DataError, match=r"DataLoader: batch 1 of epoch 0: row 7 is no row"):
        list(DataLoader(Rows(wrong=7), 5))
