"""Weights of TensorFlow.js: every type as the numbers that its bytes stand for; what does not fit is refused."""

import json
import tracemalloc

import numpy as np
import pytest

from framework.errors import CheckpointError
from suites.engine.weights import find_weights, read_weights

RNG = np.random.default_rng(0)
F32 = RNG.standard_normal((3, 3, 2, 4)).astype("<f4")
STEPS8, STEPS16 = RNG.integers(0, 256, (5, 2)).astype("u1"), RNG.integers(0, 65536, 7).astype("<u2")


def entry(name, array, dtype="float32", kept=None, **steps):
    line = {"name": name, "shape": list(array.shape), "dtype": dtype}
    return line | ({"quantization": {"dtype": kept, **steps}} if kept else {})


EVERY = [
    (entry("plain", F32), F32, F32),
    (entry("half", F32[0], dtype="float16"), F32[0].astype("<f2"), F32[0].astype("<f2").astype("f4")),
    (entry("kept/half", F32[1], kept="float16"), F32[1].astype("<f2"), F32[1].astype("<f2").astype("f4")),
    (entry("count", np.zeros(2), "int32"), np.array([-5, 2**31 - 1], "<i4"), np.array([-5, 2**31 - 1], "i4")),
    (entry("bytes", STEPS8, "uint8"), STEPS8, STEPS8),
    (entry("truth", np.zeros(3), "bool"), np.array([0, 1, 2], "u1"), np.array([False, True, True])),
    (entry("eight", STEPS8, kept="uint8", scale=0.03, min=-4.2), STEPS8, (STEPS8 * 0.03 - 4.2).astype("f4")),
    (entry("sixteen", STEPS16, kept="uint16", scale=1e-4, min=-1), STEPS16, (STEPS16 * 1e-4 - 1).astype("f4")),
    ({"name": "one", "shape": [], "dtype": "int32", "quantization": {"dtype": "uint8", "scale": 1, "min": 512}},
     np.array(0, "u1"), np.array(512, "i4")),
    (entry("none", np.zeros((0, 4))), np.zeros((0, 4), "<f4"), np.zeros((0, 4), "f4")),
]  # fmt: skip


def written(folder, groups, model=None):
    """A manifest of groups of lines, arrays, ways to divide their bytes; its path."""
    manifest = []
    for at, (lines, arrays, cuts) in enumerate(groups):
        data = b"".join(a.tobytes() for a in arrays)
        bounds = [0, *cuts, len(data)]
        names = [f"group{at}-shard{k}.bin" for k in range(len(cuts) + 1)]
        for name, start, end in zip(names, bounds, bounds[1:], strict=False):
            (folder / name).write_bytes(data[start:end])
        manifest.append({"paths": names, "weights": lines})
    path = folder / (model or "net-weights_manifest.json")
    path.write_text(json.dumps({"format": "layers-model", "weightsManifest": manifest} if model else manifest))
    return path


def every(folder, **more):
    lines, bytes_, _ = zip(*EVERY, strict=True)
    # The second cut goes through a tensor, as shards of 4 MB do.
    return written(folder, [(lines[:4], bytes_[:4], [7, 100]), (lines[4:], bytes_[4:], [])], **more)


@pytest.mark.parametrize("text", ["{}", "[1]", "not JSON"])
def test_a_model_json_of_another_tool_hides_no_weights(tmp_path, text):
    (tmp_path / "model.json").write_text(text)
    (tmp_path / "own.bin").write_bytes(b"")
    assert find_weights(tmp_path) == [tmp_path / "own.bin"]


@pytest.mark.parametrize("model", [None, "model.json"])
def test_each_type_comes_as_the_numbers_that_its_bytes_stand_for(tmp_path, model):
    arrays = read_weights(every(tmp_path, model=model))
    assert list(arrays) == [line["name"] for line, _, _ in EVERY]
    for line, _, wanted in EVERY:
        found = arrays[line["name"]]
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        np.testing.assert_array_equal(found, wanted, err_msg=line["name"])


def test_a_folder_with_a_manifest_is_a_checkpoint(tmp_path):
    path = every(tmp_path)
    assert find_weights(tmp_path) == [path] and "eight" in read_weights(tmp_path)
    every(tmp_path, model="other-weights_manifest.json")
    with pytest.raises(CheckpointError, match=r"net-weights_manifest\.json, other-weights_manifest\.json"):
        read_weights(tmp_path)


def changed(folder, change):
    path = every(folder)
    groups = json.loads(path.read_text())
    path.write_text(json.dumps(change(groups) or groups))
    return path


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda g: g[0]["weights"][0].update(name="half"), r"manifest\.json: it names the tensor 'half' twice"),
        (lambda g: g[1].update(paths=g[0]["paths"]), r"names the file 'group0-shard0\.bin' twice"),
        (lambda g: g[0]["weights"][0].update(shape=[3, 3, 2, 5]), "cut off: its 4 tensors have 464 bytes, and group0"),
        (lambda g: g[0]["weights"][0].update(shape=[3, 3, 2, 3]), "too long: its 4 tensors have"),
        (lambda g: g[0]["weights"][0].update(shape=[1 << 39, 1 << 39]), "cut off"),
        (lambda g: g[0]["weights"][0].update(shape=[3, -3]), "a name and a shape of whole numbers"),
        (lambda g: g[0]["weights"][0].update(shape=[True]), "a name and a shape of whole numbers"),
        (lambda g: g[0]["weights"][0].update(dtype="string"), "'plain' is of type string; read are float32, float16"),
        (lambda g: g[0]["weights"][0].update(quantization={"dtype": "uint4"}), "float32 kept as uint4 is not read"),
        (lambda g: g[1]["weights"][1].update(quantization={"dtype": "uint8"}), "'truth': bool kept as uint8 is not"),
        (lambda g: g[1]["weights"][2]["quantization"].update(scale=float("nan")), "its scale is nan"),
        (lambda g: g[1]["weights"][2]["quantization"].update(min="0"), "its scale is 0.03 and its min 0"),
        (lambda g: g[1]["weights"][4]["quantization"].update(min=2**31), "lead out of int32"),
        (lambda g: g[0].update(paths=["../a.bin"]), "its file '../a.bin' must lie in the manifest's folder or below"),
        (lambda g: g[0].update(paths=["/etc/passwd"]), "must lie in the manifest's folder"),
        (lambda g: g[0].update(paths=["https://host/a.bin"]), "must lie in the manifest's folder"),
        (lambda g: g[0].update(paths=["b.bin"]), "its file b.bin is not beside it"),
        (lambda g: g[0].update(paths="b.bin"), "`paths` of a group must be a list"),
        (lambda g: g[0].update(weights={}), "`weights` of a group must be a list"),
        (lambda g: [{"paths": [], "weights": []}], "a manifest without weights in it"),
        (lambda g: {"modelTopology": {}}, "no manifest of TensorFlow.js"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_one_error(tmp_path, change, match):
    with pytest.raises(CheckpointError, match=match):
        read_weights(changed(tmp_path, change))


def test_a_file_that_is_no_json_is_refused(tmp_path):
    path = tmp_path / "model.json"
    path.write_text("<html>not found</html>")
    with pytest.raises(CheckpointError, match=r"model\.json: it cannot be read as JSON"):
        read_weights(path)


def test_reading_takes_no_more_memory_than_what_it_reads(tmp_path):
    """8 bits become 32: in memory are the file's bytes, one tensor in float64 on its way, and what was read."""
    big = np.zeros((4, 1 << 20), "u1")
    lines = [entry(f"w{k}", big[k], kept="uint8", scale=0.1, min=0) for k in range(4)]
    path = written(tmp_path, [(lines, [big], [])])
    tracemalloc.start()
    read_weights(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (4 + 4 * 4 + 2 * 8 + 4 + 4) << 20
