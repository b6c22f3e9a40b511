"""What a process takes of its machine: cores, by affinity and CPU quotas; threads that cannot start; the cache."""

import subprocess
import sys

import pytest

from framework import _core


def machine(root, groups, files):
    """A root with /proc/self/cgroup and files of /sys/fs/cgroup, by path."""
    for path, text in {"proc/self/cgroup": groups, **{f"sys/fs/cgroup/{p}": t for p, t in files.items()}}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return str(root)


V1 = "4:memory:/a\n3:cpu,cpuacct:/docker/1\n0::/docker/1\n"


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),  # part of a core is a thread
        ("0::/\n", {"cpu.max": "1000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 0),
        ("0::/a/b\n", {"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "300000 100000\n"}, 3),  # the group above
        ("0::/host/path\n", {"cpu.max": "200000 100000\n"}, 2),  # a container sees its own group as the root
        (V1, {"cpu/docker/1/cpu.cfs_quota_us": "200000", "cpu/docker/1/cpu.cfs_period_us": "100000"}, 2),
        (V1, {"cpu/cpu.cfs_quota_us": "500000", "cpu/cpu.cfs_period_us": "100000"}, 5),
        (V1, {"cpu/docker/1/cpu.cfs_quota_us": "-1", "cpu/docker/1/cpu.cfs_period_us": "100000"}, 0),
        ("", {}, 0),
        ("nonsense\n5:cpu\n::\n0::/../..\n", {"cpu.max": "junk"}, 0),
    ],
)
def test_quotas_of_control_groups(tmp_path, groups, files, cores):
    assert _core.quota_cores(machine(tmp_path, groups, files)) == cores


@pytest.mark.parametrize(("size", "found"), [("491520K\n", 480 << 20), ("32768K\n", 32 << 20), ("junk", 0), ("-4K", 0)])
def test_the_last_cache_is_what_the_system_says(tmp_path, size, found):
    place = tmp_path / "sys/devices/system/cpu/cpu0/cache/index3"
    assert _core.last_cache_bytes(str(tmp_path)) == 0
    place.mkdir(parents=True)
    (place / "size").write_text(size)
    assert _core.last_cache_bytes(str(tmp_path)) == found


def test_a_quota_bounds_the_threads_and_affinity_does_too(tmp_path):
    assert _core.available_cores(machine(tmp_path, "0::/\n", {"cpu.max": "100000 100000"})) == 1
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    code += "; import framework; print(framework.num_threads())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "1\n"


REFUSED = """
import resource
import numpy as np
import framework
from framework import ops

x = framework.tensor(np.ones(1_000_000, np.float32))
y = ops.copy(x)  # its memory is kept for the next
del y
framework.set_num_threads(64)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 20 * 2**20, resource.RLIM_INFINITY))  # room for two stacks of 8 MiB
total = ops.copy(x).numpy().sum()
print(total == 1_000_000, 1 <= framework.num_threads() < 64)
"""


def test_threads_that_the_system_refuses_are_done_without():
    done = subprocess.run([sys.executable, "-c", REFUSED], capture_output=True, text=True)
    assert done.stdout == "True True\n", done.stderr
