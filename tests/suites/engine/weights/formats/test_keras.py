"""Files of Keras of both generations: names and numbers, without optimizers, and what their archives may be."""

import io
import json
import zipfile

import h5py
import numpy as np
import pytest

from framework.errors import CheckpointError
from suites.engine.weights import read_weights

KERNEL, BIAS = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones(4, np.float32)


def third(where):
    """As Keras 3 writes: a number for each variable of a layer."""
    with h5py.File(where, "w") as file:
        file["layers/dense/vars/0"], file["layers/dense/vars/1"] = KERNEL, BIAS.astype("f2")
        file["layers/dense/vars"].attrs["name"] = "fc"
        file.create_group("layers/relu/vars")
        file["optimizer/vars/0"] = np.int64(7)
        file.create_group("vars")


def second(where, inside=""):
    """As Keras 2 writes: names of variables below those of layers, listed in attributes."""
    with h5py.File(where, "w") as file:
        group = file.require_group(inside or "/")
        group.attrs["layer_names"], group.attrs["backend"] = [b"fc", b"relu"], b"tensorflow"
        group["fc/fc/kernel:0"], group["fc/fc/bias:0"] = KERNEL, BIAS
        group["fc"].attrs["weight_names"] = [b"fc/kernel:0", b"fc/bias:0"]
        group.create_group("relu").attrs["weight_names"] = np.zeros(0)
        if inside:
            file["optimizer_weights/iteration:0"] = np.int64(7)
            file.attrs["model_config"] = json.dumps({"class_name": "Lambda"})


def zipped(path, *members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def test_weights_of_keras_3_come_by_their_paths_without_the_optimizer(tmp_path):
    third(tmp_path / "x.weights.h5")
    found = read_weights(tmp_path / "x.weights.h5")
    assert sorted(found) == ["layers/dense/vars/0", "layers/dense/vars/1"]
    np.testing.assert_array_equal(found["layers/dense/vars/0"], KERNEL)
    assert found["layers/dense/vars/1"].dtype == np.float32  # float16 is widened


@pytest.mark.parametrize("inside", ["", "model_weights"])
def test_weights_of_keras_2_come_by_their_paths_also_out_of_a_whole_model(tmp_path, inside):
    second(tmp_path / "x.h5", inside)
    found = read_weights(tmp_path / "x.h5")
    assert sorted(found) == ["fc/fc/bias:0", "fc/fc/kernel:0"]
    np.testing.assert_array_equal(found["fc/fc/kernel:0"], KERNEL)


def test_a_keras_file_gives_its_weights_and_its_config_is_not_read(tmp_path):
    file = io.BytesIO()
    third(file)
    members = [("config.json", "{this is no JSON"), ("model.weights.h5", file.getvalue())]
    found = read_weights(zipped(tmp_path / "x.keras", *members))
    np.testing.assert_array_equal(found["layers/dense/vars/0"], KERNEL)


def test_archives_without_whole_weights_are_one_error(tmp_path):
    file = io.BytesIO()
    third(file)
    data = zipped(tmp_path / "x.keras", ("model.weights.h5", file.getvalue())).read_bytes()
    zipped(tmp_path / "none.keras", ("config.json", "{}"))
    (tmp_path / "cut.keras").write_bytes(data[:-9])
    (tmp_path / "page.keras").write_bytes(b"<html>")
    with pytest.raises(CheckpointError, match=r"none\.keras: a \.keras file without a readable model\.weights\.h5"):
        read_weights(tmp_path / "none.keras")
    for name in ("cut", "page"):
        with pytest.raises(CheckpointError, match=rf"{name}\.keras: a damaged ZIP archive"):
            read_weights(tmp_path / f"{name}.keras")


def test_a_file_of_an_optimizer_alone_has_no_weights(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["optimizer/vars/0"] = np.int64(7)
    with pytest.raises(CheckpointError, match=r"x\.h5: an HDF5 file without weights in it"):
        read_weights(tmp_path / "x.h5")
