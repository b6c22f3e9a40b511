"""Sealed exports: what is signed or encrypted opens as it was; what was changed, cut, moved or swapped is refused."""

import base64
import gc
import json
import os
import random
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import framework
from framework import ops
from framework.errors import CheckpointError
from framework.graph.files import is_export, load_program, save_program
from framework.io import save_tensors
from framework.predictor import Predictor
from framework.sealing import Seal, keys, open_sealed, write_sealed
from framework.sealing.opening import Wiped

pytest.importorskip("cryptography", reason="the extra seal is not installed")

SECRET = bytes(range(32))
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def pem(folder, name):
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private, public = folder / f"{name}.pem", folder / f"{name}.pub.pem"
    private.write_bytes(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo))
    return str(private), str(public)


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    """Paths of a private and a public key."""
    return pem(tmp_path_factory.mktemp("owner"), "owner")


@pytest.fixture(scope="module")
def program():
    rng = np.random.default_rng(0)
    w = framework.tensor(rng.standard_normal((3, 400)).astype(np.float32))
    half = framework.tensor(rng.standard_normal((400, 5)).astype(np.float32), dtype="bfloat16")
    whole = framework.tensor(np.arange(5, dtype=np.int64))
    for t in (w, half):
        t.persistable = True

    def step(x):
        y = ops.matmul(ops.relu(ops.matmul(x, w)), ops.cast(half, dtype="float32"))
        return y + ops.cast(whole, dtype="float32")

    return framework.program(step).program_for(framework.tensor(X)).program


def secret():
    return SECRET


def sealed(program, folder, owner, *, encrypt=True, sign=True):
    save_program(
        program, folder, extra={"classes": ["a"]}, seal=Seal(secret if encrypt else None, owner[0] if sign else None)
    )
    return folder


WAYS = [(True, True), (True, False), (False, True)]


@pytest.mark.parametrize(("encrypt", "sign"), WAYS)
def test_it_gives_the_bits_of_the_plain_export(program, owner, tmp_path, encrypt, sign):
    save_program(program, tmp_path / "plain", extra={"classes": ["a"]})
    sealed(program, tmp_path / "sealed", owner, encrypt=encrypt, sign=sign)
    with keys(decrypt=secret if encrypt else None, verify=owner[1] if sign else None):
        predictor = Predictor(tmp_path / "sealed")
    assert predictor.extra == {"classes": ["a"]} and is_export(tmp_path / "sealed")
    assert predictor.run([X])[0].tobytes() == Predictor(tmp_path / "plain").run([X])[0].tobytes()


def test_nothing_of_an_encrypted_export_can_be_read_on_the_disk(program, owner, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr("os.replace", lambda a, b, real=os.replace: (written.append(Path(a).read_bytes()), real(a, b)))
    sealed(program, tmp_path / "e", owner)
    assert sorted(p.name for p in (tmp_path / "e").iterdir()) == [
        "program.json.sealed", "seal.json", "seal.sig", "weights.safetensors.sealed",
    ]  # fmt: skip
    assert len(written) == 4
    for content in written:
        assert b"matmul" not in content and b"classes" not in content and b"BF16" not in content


def test_one_form_of_an_export_takes_the_place_of_the_other(program, owner, tmp_path):
    folder = tmp_path / "e"
    save_program(program, folder)
    sealed(program, folder, owner)
    with keys(decrypt=secret):
        load_program(folder)
    sealed(program, folder, owner, encrypt=False)
    load_program(folder)
    assert not list(folder.glob("*.sealed"))
    save_program(program, folder)
    load_program(folder)
    assert not list(folder.glob("seal*"))


def test_every_export_is_encrypted_otherwise(program, owner, tmp_path):
    a, b = (sealed(program, tmp_path / name, owner) for name in "ab")
    for name in ("program.json.sealed", "weights.safetensors.sealed"):
        assert (a / name).read_bytes()[:64] != (b / name).read_bytes()[:64]


@pytest.mark.parametrize(
    ("given", "verified", "message"),
    [
        (None, None, r"is encrypted; name its key: --decrypt SOURCE"),
        (lambda: bytes(32), None, "was encrypted with another key"),
        (lambda: b"short", None, "holds 5 bytes that are no key"),
        (lambda: "text", None, "gave a str; it must give bytes"),
        ("env:NO_SUCH_KEY", None, "the environment variable NO_SUCH_KEY is not set"),
        ("no/such/file", None, "no/such/file: the key cannot be read"),
        ("command:", None, "names no program"),
        ("command:no_such_program_here", None, "the command no_such_program_here gave none"),
        ("command:false", None, "ended with status 1"),
        (secret, "other", "is signed by another key"),
        (secret, "private", "is a private key, which only its owner may have"),
        (secret, "nonsense", "is no public key in PEM"),
    ],
)
def test_another_key_is_one_error(program, owner, tmp_path, given, verified, message):
    folder = sealed(program, tmp_path / "e", owner)
    (tmp_path / "nonsense").write_text("nonsense")
    sources = {"other": pem(tmp_path, "other")[1], "private": owner[0], "nonsense": str(tmp_path / "nonsense")}
    with keys(decrypt=given, verify=sources.get(verified)), pytest.raises(CheckpointError, match=message):
        load_program(folder)


def test_a_key_comes_from_a_file_a_variable_or_a_command(program, owner, tmp_path, monkeypatch):
    folder = sealed(program, tmp_path / "e", owner, sign=False)
    forms = {"raw": SECRET, "hex": SECRET.hex().encode() + b"\n", "base64": base64.b64encode(SECRET)}
    for name, content in forms.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setenv("THE_KEY", SECRET.hex())
    told = f"command:{sys.executable} -c 'print(bytes(range(32)).hex())'"
    for source in (*(str(tmp_path / name) for name in forms), tmp_path / "hex", "env:THE_KEY", told):
        with keys(decrypt=source):
            load_program(folder)


def test_with_verify_only_what_the_owner_signed_is_opened(program, owner, tmp_path):
    save_program(program, tmp_path / "plain")
    sealed(program, tmp_path / "unsigned", owner, sign=False)
    for name, message in (("plain", "is not sealed"), ("unsigned", "is not signed")):
        with keys(decrypt=secret, verify=owner[1]), pytest.raises(CheckpointError, match=message):
            load_program(tmp_path / name)


def refused(folder, owner, *, encrypt=True, sign=True):
    with keys(decrypt=secret if encrypt else None, verify=owner[1] if sign else None):
        try:
            open_sealed(folder)
        except CheckpointError:
            return True
    return False


def random_changes(folder, rng, count, *, seal_too):
    """Changes a file, says how, and puts it back, `count` times; `seal_too`: seal.json as well, which is signed."""
    names = [path.name for path in sorted(folder.iterdir()) if seal_too or path.name != "seal.json"]
    for number in range(count):
        path = folder / rng.choice(names)
        whole = path.read_bytes()
        data = bytearray(whole)
        kind = rng.randrange(6)
        at, size = rng.randrange(len(data) + 1), rng.choice((1, 16, 8208))
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at : at + size]
        elif kind == 2:
            data[at:at] = rng.randbytes(size)
        elif kind == 3:
            data = data[:at]
        elif kind == 4:
            data[at:at] = data[at : at + size]
        else:
            other = rng.randrange(len(data) + 1)
            data[at : at + size], data[other : other + size] = data[other : other + size], data[at : at + size]
        if bytes(data) == whole:
            continue
        path.write_bytes(data)
        yield number, path.name, kind, at, size
        path.write_bytes(whole)


@pytest.mark.parametrize(("encrypt", "sign"), WAYS)
def test_twelve_hundred_random_changes_in_all_are_refused(owner, tmp_path, encrypt, sign):
    rng = random.Random(0)
    folder = tmp_path / "e"
    folder.mkdir()
    files = {"program.json": rng.randbytes(5000), "weights.safetensors": rng.randbytes(30_000), "none.txt": b""}
    write_sealed(folder, files, Seal(secret if encrypt else None, owner[0] if sign else None), segment=8192)
    assert not refused(folder, owner, encrypt=encrypt, sign=sign)
    passed = [
        told
        for told in random_changes(folder, rng, 400, seal_too=sign)
        if not refused(folder, owner, encrypt=encrypt, sign=sign)
    ]
    assert passed == []
    assert not refused(folder, owner, encrypt=encrypt, sign=sign)


@pytest.mark.parametrize("sign", [True, False])
def test_segments_that_are_moved_and_files_that_are_swapped_are_refused(owner, tmp_path, sign):
    folder = tmp_path / "e"
    for harm in harmed(folder, tmp_path / "f", owner, sign=sign):
        assert refused(folder, owner, sign=sign), harm
    assert not refused(folder, owner, sign=sign)


def harmed(folder, other, owner, *, sign):
    """Seals files in both folders, then moves and swaps parts of the first one; yields after each, puts all back."""
    rng = random.Random(0)
    seal = Seal(secret, owner[0] if sign else None)
    for each in (folder, other):
        each.mkdir()
        write_sealed(each, {"a.bin": rng.randbytes(8192), "b.bin": rng.randbytes(8192)}, seal, segment=4096)
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    a, b, step = whole["a.bin.sealed"], whole["b.bin.sealed"], 4096 + 16
    harms = [
        {"a.bin.sealed": a[step:] + a[:step]},  # in another order
        {"a.bin.sealed": a[:step] * 2},  # one twice
        {"a.bin.sealed": a[:step] + b[step:]},  # the same place of another file
        {"a.bin.sealed": b, "b.bin.sealed": a},  # swapped
        {"a.bin.sealed": (other / "a.bin.sealed").read_bytes()},  # of another export of the same owner and key
        {"a.bin.sealed": a[:step]},  # cut between segments
        {"a.bin": b"plain"},  # a plain one beside it
    ]
    for harm in harms:
        for name, content in harm.items():
            (folder / name).write_bytes(content)
        yield list(harm)
        (folder / "a.bin").unlink(missing_ok=True)
        for name, content in whole.items():
            (folder / name).write_bytes(content)


def test_who_has_the_key_but_not_the_signature_cannot_change_a_signed_export(program, owner, tmp_path):
    folder = sealed(program, tmp_path / "e", owner)
    forged = sealed(program, tmp_path / "forged", owner, sign=False)
    shutil.copy(folder / "seal.sig", forged / "seal.sig")
    assert refused(forged, owner)
    strangers = pem(tmp_path, "stranger")
    assert refused(sealed(program, tmp_path / "again", strangers), owner)


HARMS = [
    (lambda d: d.update(version=2), "made by a newer version"),
    (lambda d: d.update(version=None), "its version is None"),
    (lambda d: d.update(format="zip"), "is no seal of an export"),
    (lambda d: d.update(segment_bytes=0), "segment_bytes"),
    (lambda d: d.update(segment_bytes=True), "segment_bytes"),
    (lambda d: d.update(files=[]), "no list of files"),
    (lambda d: d["files"][0].update(name="../x"), "no name of a sealed file"),
    (lambda d: d["files"][0].update(bytes=-1), "'bytes' is -1"),
    (lambda d: d["files"][0].update(bytes=1 << 49), "too many bytes|is cut"),
    (lambda d: d["files"].append(dict(d["files"][0])), "names one twice"),
    (lambda d: d.update(encryption=None), "neither encrypts nor signs"),
    (lambda d: d["encryption"].update(cipher="AES-128"), "is not AES-256-GCM"),
    (lambda d: d["encryption"].update(salt="00"), "'salt' is not 32 bytes"),
]


@pytest.mark.parametrize(("harm", "message"), HARMS)
def test_a_seal_that_says_something_else_is_refused_before_anything_is_read(program, owner, tmp_path, harm, message):
    folder = sealed(program, tmp_path / "e", owner, sign=False)
    data = json.loads((folder / "seal.json").read_text())
    harm(data)
    (folder / "seal.json").write_text(json.dumps(data))
    with keys(decrypt=secret), pytest.raises(CheckpointError, match=message):
        load_program(folder)


def test_a_key_that_nothing_is_encrypted_with_is_told(program, tmp_path, caplog):
    save_program(program, tmp_path / "plain")
    with keys(decrypt=secret):
        load_program(tmp_path / "plain")
    assert "plain: is not encrypted, so the key of --decrypt is not used" in caplog.text
    caplog.clear()
    load_program(tmp_path / "plain")
    assert not caplog.text


def test_a_changed_file_is_named(program, owner, tmp_path):
    folder = sealed(program, tmp_path / "e", owner, sign=False)
    for file in folder.glob("*.sealed"):
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with keys(decrypt=secret), pytest.raises(CheckpointError, match=rf"{file.name}: was changed \(segment"):
            load_program(folder)
        file.write_bytes(whole)


def test_weights_lie_in_memory_that_is_wiped_once_nobody_uses_it(program, owner, tmp_path, monkeypatch):
    """Weights of types that the core has are not copied out of it."""
    gc.collect()  # what other tests have left
    wiped = []
    real = Wiped.__del__

    def wipe(self):
        real(self)
        wiped.append(bytes(self[:]))

    monkeypatch.setattr(Wiped, "__del__", wipe)
    folder = sealed(program, tmp_path / "e", owner)
    with keys(decrypt=secret):
        predictor = Predictor(folder)
    gc.collect()
    assert len(wiped) == 1  # the text of the program; the weights are in use
    predictor.run([X])
    del predictor
    gc.collect()
    assert len(wiped) == 2 and not any(map(any, wiped))


def test_a_safetensors_header_that_lies_is_refused_in_memory_too(tmp_path, owner):
    path = tmp_path / "w.safetensors"
    save_tensors(path, {"a": framework.tensor(np.ones(3, np.float32))})
    whole = path.read_bytes()
    size = int.from_bytes(whole[:8], "little")
    entry = json.loads(whole[8 : 8 + size])
    from framework.io import tensors_in

    assert tensors_in(memoryview(bytearray(whole)), "w")["a"].numpy().tolist() == [1, 1, 1]
    harms = [
        {"shape": [4]},
        {"shape": [-3]},
        {"data_offsets": [0, 1 << 40]},
        {"data_offsets": [8, 4]},
        {"dtype": "C64"},
    ]
    harms += [{"shape": "x"}, {"data_offsets": [0]}, {"dtype": 7}, {"shape": [1.5, 2]}]
    for harm in harms:
        text = json.dumps({"a": entry["a"] | harm}).encode()
        content = len(text).to_bytes(8, "little") + text + whole[8 + size :]
        with pytest.raises(CheckpointError, match="w: "):
            tensors_in(memoryview(bytearray(content)), "w")
    for content in (b"", b"\xff" * 8, whole[:10], (1 << 60).to_bytes(8, "little") + whole[8:]):
        with pytest.raises(CheckpointError, match="w: "):
            tensors_in(memoryview(bytearray(content)), "w")
