"""Unusable samples, workers that hang or die, batches that are kept: what a loader puts up with, and how it ends."""

import json
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from framework.data import DataLoader, FaultPolicy
from framework.errors import AttributeValueError, DataError, WorkerError

ROOT = Path(__file__).parents[3]
SIZE = 40


class Files:
    """Sample i is the number i and a random one; some are damaged, one hangs, one kills its reader."""

    def __init__(self, bad=(), hang=None, kill=None, size=SIZE):
        self.bad, self.hang, self.kill, self.size = bad, hang, kill, size

    def __len__(self):
        return self.size

    def sample(self, index, rng):
        if index in self.bad:
            raise DataError(f"{self.name_of(index)} is cut off") if index % 2 else OSError(5, "Input/output error")
        if index == self.hang:
            time.sleep(3600)
        if index == self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"index": np.int64(index), "draw": rng.random()}

    def name_of(self, index):
        return f"photo{index}.jpg"


def loader(dataset, workers=0, **faults):
    return DataLoader(dataset, 4, shuffle=True, seed=3, workers=workers, faults=FaultPolicy(**faults))


def epochs(made, count=2):
    with made:
        return [(b["index"].tolist(), b["draw"].tolist()) for _ in range(count) for b in made]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_a_damaged_sample_is_replaced_by_the_next_usable_one_whatever_reads_it(workers):
    sound = epochs(loader(Files()))
    made = loader(Files(bad=(7, 8, 39)), workers, skipped=0.1)
    found = epochs(made)
    expected = [([{7: 9, 8: 9, 39: 0}.get(i, i) for i in indices], draws) for indices, draws in sound]
    assert found == expected
    assert made.skipped.indices == [7, 8, 39]
    assert made.skipped.report() == (
        "3 of 40 samples could not be used: sample 7 (photo7.jpg): photo7.jpg is cut off; "
        "sample 8 (photo8.jpg): OSError: [Errno 5] Input/output error; sample 39 (photo39.jpg): photo39.jpg is cut off"
    )


def test_a_resumed_loader_gives_the_same_batches_and_remembers_what_it_skipped():
    whole, part = loader(Files(bad=(5,)), skipped=0.1), loader(Files(bad=(5,)), skipped=0.1)
    expected = [b["index"].tolist() for _, b in zip(range(15), whole.stream(), strict=False)]
    found = [b["index"].tolist() for _, b in zip(range(9), part.stream(), strict=False)]
    state = json.loads(json.dumps(part.state_dict()))
    resumed = loader(Files(bad=(5,)), 1, skipped=0.1)
    resumed.load_state_dict(state)
    assert resumed.skipped.report() == part.skipped.report() != ""
    with resumed:
        found += [b["index"].tolist() for _, b in zip(range(6), resumed.stream(), strict=False)]
    assert found == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_more_unusable_samples_than_allowed_end_the_pass_with_the_first_of_them(workers):
    bad = (3, 13, 23)
    with loader(Files(bad=bad), workers, skipped=0.05) as made, pytest.raises(DataError) as caught:
        list(made)
    text = str(caught.value)
    assert "3 of 40 samples could not be used: sample" in text and text.count("is cut off") == 3
    assert "at most 0.05 of the samples may be skipped: repair the data, or allow more" in text


def test_a_bug_is_never_skipped():
    class Buggy(Files):
        def sample(self, index, rng):
            return {"index": {}[index]}

    with pytest.raises(DataError, match="KeyError"):
        list(loader(Buggy(), skipped=1))


@pytest.mark.parametrize("workers", [0, 2])
def test_without_replacement_batches_are_smaller_and_empty_ones_are_left_out(workers):
    faults = FaultPolicy(0.5, "nothing")
    with DataLoader(Files(bad=(1, 4, 5, 6, 7), size=10), 4, workers=workers, faults=faults) as made:
        assert [batch["index"].tolist() for batch in made] == [[0, 2, 3], [8, 9]]
    assert made.skipped.indices == [1, 4, 5, 6, 7]


def test_a_data_set_without_any_usable_sample_is_an_error():
    with pytest.raises(DataError, match="no sample can take the place of sample"):
        list(loader(Files(bad=range(SIZE)), skipped=1))


def test_a_sample_that_hangs_is_skipped_with_a_new_worker_and_not_tried_again():
    made = loader(Files(hang=7), 2, skipped=0.1, seconds=2.5)
    found = epochs(made, count=3)
    expected = [([8 if i == 7 else i for i in indices], draws) for indices, draws in epochs(loader(Files()), count=3)]
    assert found == expected
    assert made.skipped.report() == (
        "1 of 40 samples could not be used: sample 7 (photo7.jpg): a worker took longer than 2.5 s"
    )
    assert made.state_dict()["skipped"]["hung"] == [7]


@pytest.mark.parametrize("faults", [{"skipped": 0.1, "hung": "end"}, {"skipped": 0.0}])
def test_a_sample_that_hangs_can_end_the_pass(faults):
    with loader(Files(hang=7), 1, seconds=2.5, **faults) as made, pytest.raises(WorkerError) as caught:
        list(made)
    assert "sample 7 (photo7.jpg): a worker took longer than 2.5 s" in str(caught.value)


def hang(samples):
    time.sleep(3600)


def test_a_batch_that_hangs_while_it_is_put_together_ends_the_pass():
    faults = FaultPolicy(0.1, seconds=2.5)
    with (
        DataLoader(Files(), 4, workers=1, collate=hang, faults=faults) as made,
        pytest.raises(WorkerError, match=r"putting a batch together: a worker took longer than 2\.5 s"),
    ):
        next(iter(made))


def hanging_init(rank):
    time.sleep(3600)


def test_a_worker_that_hangs_at_its_start_ends_the_pass():
    faults = FaultPolicy(0.1, seconds=1)
    with (
        DataLoader(Files(), 4, workers=1, worker_init=hanging_init, faults=faults) as made,
        pytest.raises(WorkerError, match="its start: a worker took longer than 1 s"),
    ):
        next(iter(made))


def test_slow_workers_are_not_taken_for_hanging_ones():
    """Each sample takes less than the limit, a batch takes more."""
    with DataLoader(Slow(), 8, workers=1, faults=FaultPolicy(seconds=1.0)) as made:
        assert len(list(made)) == 1


class Slow(Files):
    def __init__(self):
        super().__init__(size=8)

    def sample(self, index, rng):
        time.sleep(0.2)
        return super().sample(index, rng)


def test_a_killed_worker_is_reported_with_the_sample_it_was_at():
    with loader(Files(kill=11), 1) as made, pytest.raises(WorkerError) as caught:
        list(made)
    assert "was killed by signal 9 while it made batches (at sample 11 (photo11.jpg)); if it was" in str(caught.value)


KEPT = """
    import os, sys
    sys.path[:0] = [{root!r}]
    from tests.framework.data.test_faults import Files
    from framework.data import DataLoader
    if __name__ == "__main__":
        with DataLoader(Files(size=400), 4, workers=2) as loader:
            kept = list(loader)
            print(len(kept), sum(int(b["index"].sum()) for b in kept), len(os.listdir("/proc/self/fd")) < 30)
"""


def test_kept_batches_need_no_file_descriptors(tmp_path):
    """100 batches under a limit of 64 files, in this process and in the workers."""
    script = tmp_path / "kept.py"
    script.write_text(textwrap.dedent(KEPT).format(root=str(ROOT)))

    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, preexec_fn=limit)
    assert (done.stdout, done.stderr) == (f"100 {sum(range(400))} True\n", "")


@pytest.mark.parametrize("faults", [{"skipped": -0.1}, {"skipped": 2}, {"seconds": -1}, {"seconds": float("nan")}])
def test_an_impossible_policy_is_refused(faults):
    with pytest.raises(AttributeValueError, match="FaultPolicy: skipped is"):
        FaultPolicy(**faults)
