"""`hf:OWNER/NAME`: a repository of a hub comes whole and pinned, or there is one error and nothing under its name."""

import io
import json
import os
import pickle
import struct
import sys
import zipfile

import ml_dtypes
import numpy as np
import pytest

from framework import nn
from framework.errors import CheckpointError, ConfigError
from suites.engine.weights import load_pretrained, read_weights, resolve
from suites.engine.weights.fetching import fetch
from suites.engine.weights.hub.names import parse
from suites.engine.weights.pretrained import divided, with_names
from suites.engine.weights.records import get_record
from suites.engine.weights.records.pins import LOCK
from suites.engine.weights.wanted import is_here, offer_record
from tests.suites.engine.weights.hub.played_hub import played_hub, use, weights_bytes

WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)
BIAS = np.array([1.0, 2.0], np.float32)


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with played_hub() as hub:
        use(hub, monkeypatch, tmp_path)
        yield hub


@pytest.fixture
def files(tmp_path):
    return {
        "config.json": b'{"model_type": "linear"}',
        "vocab.txt": b"a\nb\n",
        "model.safetensors": weights_bytes(tmp_path, weight=WEIGHT, bias=BIAS),
        "pytorch_model.bin": b"not looked at",
        "modeling.py": b"raise SystemExit",
        "README.md": b"words",
    }


def get(name="hf:owner/small"):
    fetch(get_record(name), say=lambda line: None)
    return resolve(name)[0]


def left(folder):
    return sorted(name for _, _, names in os.walk(folder) for name in names)


def test_weights_config_and_tokenizer_come_once_and_never_code(hub, files):
    commit = hub.add("owner/small", files)
    folder = get()
    assert folder.name == commit
    assert sorted(os.listdir(folder)) == [".fetched.json", "config.json", "model.safetensors", "vocab.txt"]
    layer = nn.Linear(3, 2)
    load_pretrained(layer, "hf:owner/small")
    np.testing.assert_array_equal(layer.weight.numpy(), WEIGHT)
    before = len(hub.asked)
    get()
    assert len(hub.asked) == before, "what is here and pinned asks the hub nothing"
    assert with_names("hf:owner/small/vocab.txt") == str(folder / "vocab.txt")
    assert get_record("hf:owner/small").licence == "apache-2.0"


def test_a_name_is_pinned_to_a_commit_and_its_digests(hub, files):
    first = hub.add("owner/small", files)
    get()
    entry = json.loads(LOCK.read_text())["hub"]["hf:owner/small"]
    assert entry["commit"] == first and len(entry["files"]["config.json"]["sha256"]) == 64
    second = hub.add("owner/small", {**files, "vocab.txt": b"c\n"})
    assert get().name == first
    LOCK.unlink()
    assert get().name == second
    assert len(os.listdir(get().parent)) == 3, "both states are kept, and the revisions"


def test_two_revisions_lie_beside_each_other(hub, files, tmp_path):
    old = hub.add(
        "owner/small", {**files, "model.safetensors": weights_bytes(tmp_path, weight=WEIGHT + 1, bias=BIAS)}, "v1.0"
    )
    new = hub.add("owner/small", files)
    assert (get("hf:owner/small@v1.0").name, get().name, get(f"hf:owner/small@{old}").name) == (old, new, old)
    layers = [nn.Linear(3, 2), nn.Linear(3, 2)]
    for layer, name in zip(layers, ("hf:owner/small@v1.0", "hf:owner/small"), strict=True):
        load_pretrained(layer, name)
    np.testing.assert_array_equal(layers[0].weight.numpy() - layers[1].weight.numpy(), np.ones((2, 3)))


def test_another_file_under_a_pinned_commit_is_refused(hub, files, tmp_path):
    commit = hub.add("owner/small", files)
    get()
    hub.states["owner/small"][commit]["model.safetensors"] = weights_bytes(tmp_path, weight=WEIGHT * 2, bias=BIAS)
    os.environ["PADDOCK_ZOO"] = str(tmp_path / "other")
    with pytest.raises(CheckpointError, match=r"zoo\.lock: has other digests for hf:owner/small"):
        get()


def test_shards_of_half_types_are_read_as_float32(hub, files, tmp_path):
    del files["model.safetensors"], files["pytorch_model.bin"]
    files["model-00001-of-00002.safetensors"] = weights_bytes(tmp_path, weight=WEIGHT.astype(ml_dtypes.bfloat16))
    files["model-00002-of-00002.safetensors"] = weights_bytes(tmp_path, bias=BIAS.astype(np.float16))
    shards = {"weight": "model-00001-of-00002.safetensors", "bias": "model-00002-of-00002.safetensors"}
    files["model.safetensors.index.json"] = json.dumps({"weight_map": shards}).encode()
    hub.add("owner/small", files)
    layer = nn.Linear(3, 2)
    get()
    load_pretrained(layer, "hf:owner/small")
    np.testing.assert_array_equal(layer.weight.numpy(), WEIGHT)
    np.testing.assert_array_equal(layer.bias.numpy(), BIAS)
    del files["model-00002-of-00002.safetensors"]
    hub.add("owner/torn", files)
    get("hf:owner/torn")
    with pytest.raises(CheckpointError, match="model-00002-of-00002"):
        load_pretrained(layer, "hf:owner/torn")


class Code:
    def __reduce__(self):
        return (os.system, ("touch run",))


def test_a_pickle_with_code_is_refused_and_nothing_of_it_runs(hub, files, tmp_path):
    del files["model.safetensors"]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"weight": Code()}, protocol=2))
        archive.writestr("archive/version", "3")
    files["pytorch_model.bin"] = made.getvalue()
    hub.add("owner/small", files)
    get()
    with pytest.raises(CheckpointError, match=r"refused, it holds the name .*system"):
        load_pretrained(nn.Linear(3, 2), "hf:owner/small")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "header",
    [
        {"weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 1 << 40]}},
        {"weight": {"dtype": "F32", "shape": [1 << 30, 1 << 30], "data_offsets": [0, 24]}},
        {
            "weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
            "bias": {"dtype": "F32", "shape": [2], "data_offsets": [16, 24]},
        },
    ],
)
def test_a_header_that_lies_is_an_error(hub, files, header):
    text = json.dumps(header).encode()
    files["model.safetensors"] = struct.pack("<Q", len(text)) + text + bytes(24)
    hub.add("owner/small", files)
    get()
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        read_weights(resolve("hf:owner/small")[0])


@pytest.mark.parametrize(
    ("how", "named", "value", "message"),
    [
        ("sent", "model.safetensors", lambda content: content[:-1] + b"x", "model.safetensors has the digest"),
        (
            "sent",
            "config.json",
            lambda content: content.replace(b"linear", b"lineaR"),
            "config.json has the Git digest",
        ),
        ("sent", "model.safetensors", lambda content: content[:-1], "has 1.. bytes, not"),
        ("kinds", "model.safetensors", lambda content: "text/html", "gives a web page and not the file"),
        ("listed", "model.safetensors", lambda content: {"size": None, "lfs": None}, "has no size"),
    ],
)
def test_what_is_not_the_file_leaves_nothing_under_its_name(hub, files, tmp_path, how, named, value, message):
    hub.add("owner/small", files)
    getattr(hub, how)[named] = value(files[named])
    with pytest.raises(CheckpointError, match=message):
        get()
    assert named not in left(tmp_path / "zoo") and ".fetched.json" not in left(tmp_path / "zoo")
    assert not is_here(get_record("hf:owner/small")) and not LOCK.exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hf:owner/nowhere", "there is no http.*/owner/nowhere, or it is private"),
        ("hf:owner/small@v9", "has no revision 'v9'"),
        ("hf:owner/busy", "answers 400|answers 500"),
        ("hf:owner/bare", r"has no weights that are read here .*; at its top it has README\.md"),
    ],
)
def test_what_the_hub_does_not_have_is_one_error(hub, files, name, message):
    hub.add("owner/small", files)
    hub.add("owner/bare", {"README.md": b""})
    hub.add("owner/busy", files)
    hub.refuse["owner/busy"] = 400
    with pytest.raises(CheckpointError, match=message):
        get(name)


def test_gated_files_want_terms_accepted_and_the_token_goes_to_the_hub_alone(hub, files, monkeypatch):
    hub.add("owner/small", files)
    hub.gated.add("owner/small")
    with pytest.raises(CheckpointError, match=r"401.*accepted its terms.*HF_TOKEN"):
        get()
    monkeypatch.setenv("HF_TOKEN", "hf_another")
    with pytest.raises(CheckpointError, match=r"403.*accepted its terms"):
        get()
    monkeypatch.setenv("HF_TOKEN", hub.token)
    get()
    assert hub.asked[-1][1] == hub.token


def test_without_a_network_what_is_here_is_used_and_else_one_error(hub, files, monkeypatch):
    hub.add("owner/small", files)
    folder = get()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert get() == folder
    with pytest.raises(CheckpointError, match=r"http://127.0.0.1:9 cannot be reached .* is there a network\?"):
        get("hf:owner/other")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(CheckpointError, match="HF_HUB_OFFLINE is set"):
        get("hf:owner/other")
    LOCK.unlink()
    assert resolve("hf:owner/small")[0] == folder, "without a lock file the commit of the last fetch"


def test_nothing_is_fetched_unasked(hub, files):
    hub.add("owner/small", files)
    record = get_record("hf:owner/small")
    with pytest.raises(CheckpointError, match=r"it is not here yet; fetch it with `paddock zoo fetch hf:owner/small`"):
        resolve("hf:owner/small")
    assert not offer_record(record) and not hub.asked
    questions = []
    assert not offer_record(record, ask=lambda question: bool(questions.append(question)))
    assert "MB, licence apache-2.0 from" in questions[0]
    assert offer_record(record, fetch_all=True) and is_here(get_record("hf:owner/small"))


@pytest.mark.parametrize(
    "name", ["hf:", "hf:bert", "hf:a/b/c", "hf:../x", "hf:a/..", "hf:a/b@", "hf:a/b@../x", "hf:a b/c", "hf:a/b\n"]
)
def test_names_that_are_none(name):
    with pytest.raises(ConfigError, match="is no name on the hub"):
        parse(name)


def test_a_revision_is_no_word_on_the_network():
    assert divided("hf:a/b@v1") == ("hf:a/b@v1", None, None)
    assert divided("hf:a/b@refs/pr/1#teacher") == ("hf:a/b@refs/pr/1", "teacher", None)


def test_the_hubs_library_is_imported_where_the_hub_is_asked():
    import subprocess

    code = "import sys, suites.engine.weights.fetching, suites.engine.cli.zoo; print('huggingface_hub' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_damaged_list_of_what_was_fetched_is_an_error(hub, files):
    hub.add("owner/small", files)
    (get() / ".fetched.json").write_text('{"commit": 1}')
    with pytest.raises(CheckpointError, match=r"\.fetched\.json: is damaged"):
        resolve("hf:owner/small")


def test_a_file_of_the_hubs_own_cache_is_copied_and_not_fetched(hub, files, tmp_path):
    commit = hub.add("owner/small", files)
    snapshot = tmp_path / "hf" / "models--owner--small" / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(files["model.safetensors"])
    get()
    assert not [path for path, _ in hub.asked if path.endswith("model.safetensors")]


def test_a_token_follows_to_the_same_server_only(hub, files, monkeypatch, tmp_path):
    from suites.engine.weights.downloads import Wanted, download

    monkeypatch.setenv("HF_TOKEN", hub.token)
    commit = hub.add("owner/small", files)
    with played_hub() as other:
        other.add("owner/small", files)
        path = f"/owner/small/resolve/{commit}/vocab.txt"
        hub.moved = {"/here": path, "/there": other.address + path}
        for place in ("/here", "/there"):
            download(Wanted(hub.address + place, tmp_path / place[1:], token=hub.token))
        assert (path, hub.token) in hub.asked and other.asked == [(path, "")]
