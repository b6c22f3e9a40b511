"""HDF5 files: what h5py writes is read as h5py reads it; what is no plain weight is refused by name."""

import h5py
import numpy as np
import pytest

from framework.errors import CheckpointError
from framework.limits import allow
from suites.engine.weights.formats.hdf5 import read_hdf5

RNG = np.random.default_rng(0)
VERSIONS = [("earliest", "v108"), ("v108", "v108"), ("v110", "v110"), ("latest", "latest")]  # superblocks 0, 2, 3, 3
TYPES = ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8", *(f"{o}{k}{n}" for n in (1, 2, 4, 8) for k in "iu" for o in "<>")]
CHUNKS = [
    {"chunks": (3, 4)},
    {"chunks": (5, 7), "compression": "gzip"},
    {"chunks": (2, 9), "compression": "gzip", "shuffle": True},
    {"chunks": (11, 13), "shuffle": True},
    {"chunks": True, "maxshape": (None, None)},
]


def written(path, fill, libver=VERSIONS[0], **options):
    with h5py.File(path, "w", libver=libver, **options) as file:
        fill(file)
    return path.read_bytes()


def same(data, path):
    """That all is read which h5py sees; returns the names."""
    wanted = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: wanted.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    found = read_hdf5(data)
    assert found.keys() == wanted.keys()
    for name, array in found.items():
        np.testing.assert_array_equal(array, wanted[name])
        assert array.dtype == np.asarray(wanted[name]).dtype.newbyteorder("=") and array.dtype.isnative
    return sorted(found)


@pytest.mark.parametrize("libver", VERSIONS, ids=str)
def test_groups_and_numbers_of_each_version_are_those_of_h5py(tmp_path, libver):
    def fill(file):
        file["a"] = RNG.normal(size=(3, 3, 4, 8)).astype("f4")
        file["deep/er/b"] = np.arange(5)
        file["one"] = np.float32(2.5)
        file["none"] = np.zeros((0, 4), "f4")
        file.create_group("empty")
        file["deep"].attrs["name"] = "a layer"
        file.attrs["layer_names"] = [f"layer_{i}".encode() for i in range(400)]

    data = written(tmp_path / "x.h5", fill, libver)
    assert same(data, tmp_path / "x.h5") == ["a", "deep/er/b", "none", "one"]
    assert data[8] == {"earliest": 0, "v108": 2, "v110": 3, "latest": 3}[libver[0]]


@pytest.mark.parametrize("dtype", TYPES)
def test_each_type_of_number_is_read(tmp_path, dtype):
    values = RNG.integers(-100, 100, 24).astype(dtype).reshape(4, 6)
    data = written(tmp_path / "x.h5", lambda file: file.create_dataset("a", data=values, dtype=dtype))
    np.testing.assert_array_equal(read_hdf5(data)["a"], values)
    chunked = {"data": values, "dtype": dtype, "chunks": (3, 4), "compression": "gzip", "shuffle": True}
    same(written(tmp_path / "y.h5", lambda file: file.create_dataset("a", **chunked)), tmp_path / "y.h5")


@pytest.mark.parametrize("options", CHUNKS, ids=str)
@pytest.mark.parametrize("libver", VERSIONS[:2], ids=str)
def test_chunks_are_put_together_as_h5py_does(tmp_path, options, libver):
    values = RNG.normal(size=(11, 13)).astype("f4")
    data = written(tmp_path / "x.h5", lambda file: file.create_dataset("a", data=values, **options), libver)
    same(data, tmp_path / "x.h5")


def test_thousands_of_chunks_and_members_lie_in_trees_of_several_levels(tmp_path):
    def fill(file):
        file.create_dataset("many", data=np.arange(5000.0), chunks=(2,))
        for i in range(700):
            file[f"members/m{i}"] = i

    assert len(same(written(tmp_path / "x.h5", fill), tmp_path / "x.h5")) == 701


@pytest.mark.parametrize("libver", VERSIONS[:3], ids=str)
def test_compact_numbers_are_read(tmp_path, libver):
    def fill(file):
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((3, 5))
        made = h5py.h5d.create(file.id, b"a", h5py.h5t.IEEE_F32LE, space, plan)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(15, dtype="f4").reshape(3, 5))

    assert same(written(tmp_path / "x.h5", fill, libver), tmp_path / "x.h5") == ["a"]


def test_a_chunk_whose_filter_was_left_out_is_taken_as_it_is(tmp_path):
    def fill(file):
        made = file.create_dataset("a", (4,), "<f4", chunks=(2,), compression="gzip", shuffle=True)
        made[:] = [1, 2, 3, 4]
        made.id.write_direct_chunk((2,), np.array([5, 6], "<f4").tobytes(), filter_mask=3)

    data = written(tmp_path / "x.h5", fill)
    np.testing.assert_array_equal(read_hdf5(data)["a"], [1, 2, 5, 6])


def linked(kind):
    def fill(file):
        file["group/a"] = np.ones(3)
        file["group/b"] = kind

    return fill


REFUSED = {
    "has a soft link": linked(h5py.SoftLink("/group/a")),
    "has an external link": linked(h5py.ExternalLink("other.h5", "/a")),
    "holds texts": lambda file: file.create_dataset("a", data=np.array([b"ab", b"c"])),
    "holds no plain numbers": lambda file: file.create_dataset("a", data=["ab", "c"]),
    "holds an enum": lambda file: file.create_dataset("a", data=np.array([True, False])),
    "fletcher32": lambda file: file.create_dataset("a", data=np.ones(8), chunks=(4,), fletcher32=True),
    "filter 32000": lambda file: file.create_dataset("a", data=np.ones(99), chunks=(9,), compression="lzf"),
    "holds numbers of another form": lambda file: file.create_dataset("a", data=np.ones(2, np.longdouble)),
    "holds no plain numbers: complex": lambda file: file.create_dataset("a", data=np.ones(2, "c8")),
    "was never written": lambda file: file.create_dataset("a", (3,), "f4"),
    "was written in part": lambda file: file.create_dataset("a", (9,), "f4", chunks=(3,)).__setitem__(0, 1),
    "has no numbers": lambda file: file.create_dataset("a", data=h5py.Empty("f4")),
    "lies in other files": lambda file: file.create_dataset("a", (3,), "f4", external=[("raw", 0, 12)]),
    "is a named type": lambda file: file.__setitem__("a", np.dtype("f4")),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_is_no_plain_weight_is_refused_by_its_name(tmp_path, said):
    with pytest.raises(CheckpointError, match=said.partition(":")[0]):
        read_hdf5(written(tmp_path / "x.h5", REFUSED[said]))


def test_what_newer_libraries_alone_write_is_refused(tmp_path):
    def many(file):
        for i in range(20):
            file[f"m{i}"] = i

    with pytest.raises(CheckpointError, match="'/' keeps its links in a heap"):
        read_hdf5(written(tmp_path / "x.h5", many, ("latest", "latest")))
    chunked = written(
        tmp_path / "y.h5", lambda file: file.create_dataset("a", data=np.ones(9), chunks=(2,)), ("latest", "latest")
    )
    with pytest.raises(CheckpointError, match="'a' has the layout 2 of version 4"):
        read_hdf5(chunked)
    layout = h5py.VirtualLayout((2, 3), "f4")
    layout[0] = h5py.VirtualSource("other.h5", "b", (3,))
    virtual = written(tmp_path / "z.h5", lambda file: file.create_virtual_dataset("a", layout), ("latest", "latest"))
    with pytest.raises(CheckpointError, match="'a' has the layout 3 of version 4"):
        read_hdf5(virtual)


def test_files_that_are_none_are_one_error(tmp_path):
    data = written(tmp_path / "x.h5", linked(np.ones(2)))
    for other in (b"", b"<html>", data[:50], data[: len(data) // 2], data[:8] + b"\x09" + data[9:]):
        with pytest.raises(CheckpointError, match="HDF5 file"):
            read_hdf5(other)
    with pytest.raises(CheckpointError, match="another signature"):
        read_hdf5(written(tmp_path / "y.h5", linked(np.ones(2)), userblock_size=512))


def test_a_second_name_of_an_object_and_a_loop_are_refused(tmp_path):
    def twice(file):
        file["a"] = np.ones(3)
        file["b"] = file["a"]

    def loop(file):
        file["group/a"] = np.ones(3)
        file["group/again"] = file["group"]

    for fill in (twice, loop):
        with pytest.raises(CheckpointError, match="two ways lead to the part at"):
            read_hdf5(written(tmp_path / "x.h5", fill))


def test_parts_and_bytes_have_limits(tmp_path):
    def fill(file):
        file.create_dataset("a", data=np.zeros(1 << 20, "f4"), chunks=(1 << 20,), compression="gzip")

    data = written(tmp_path / "x.h5", fill)
    assert len(data) < 1 << 14
    with allow(free_bytes=1 << 20), pytest.raises(CheckpointError, match="would take more than"):
        read_hdf5(data)
    with allow(nodes=5), pytest.raises(CheckpointError, match="an HDF5 file of too many parts"):
        read_hdf5(data)
