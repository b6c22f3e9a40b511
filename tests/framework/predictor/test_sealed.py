"""Sealed exports in C++: what Python opens is opened with the same bits, what it refuses is refused."""

import base64
import json
import random
import shutil
import subprocess
import sys
from ctypes import byref, c_void_p
from pathlib import Path

import pytest

from framework.graph.files import save_program
from framework.predictor import Predictor
from framework.sealing import Seal, write_sealed
from tests.framework.sealing.test_sealing import (
    HARMS,
    SECRET,
    WAYS,
    X,
    harmed,
    pem,
    random_changes,
    sealed,
    secret,
)
from tests.framework.sealing.test_sealing import owner as owner
from tests.framework.sealing.test_sealing import program as program
from tests.native import LIBRARY, C, FileRefused, NativeError, NativePredictor, checked, set_key

pytest.importorskip("cryptography", reason="the extra seal is not installed")

ROOT = Path(__file__).resolve().parents[3]
SEALING = ROOT / "framework" / "native" / "predictor" / "sealing"


@pytest.mark.parametrize(("encrypt", "sign"), WAYS)
def test_it_gives_the_bits_of_the_plain_export_also_in_a_clone(program, owner, tmp_path, encrypt, sign):
    save_program(program, tmp_path / "plain", extra={"classes": ["a"]})
    folder = sealed(program, tmp_path / "sealed", owner, encrypt=encrypt, sign=sign)
    model = NativePredictor(folder, decrypt=SECRET if encrypt else None, verify=owner[1] if sign else None)
    expected = Predictor(tmp_path / "plain").run([X])[0].tobytes()
    assert model.metadata == {"classes": ["a"]}
    assert model.run([X])[0].tobytes() == model.clone().run([X])[0].tobytes() == expected
    form = json.loads((folder / "seal.json").read_text())
    assert model.signer == form["signer"] and (model.signer is not None) == sign


def test_a_key_comes_from_bytes_a_file_a_variable_a_command_or_a_function(program, owner, tmp_path, monkeypatch):
    folder = sealed(program, tmp_path / "e", owner, sign=False)
    forms = {"raw": SECRET, "hex": SECRET.hex().encode() + b"\n", "upper": SECRET.hex().upper().encode()}
    forms["base64"] = base64.b64encode(SECRET)
    for name, content in forms.items():
        (tmp_path / name).write_bytes(content)
    # The library reads the environment of the process, which Python's os.environ writes through to.
    monkeypatch.setenv("THE_KEY", SECRET.hex())
    told = f"command:{sys.executable} -c 'print(bytes(range(32)).hex())'"
    words = f'command:{sys.executable}\t-c "print(\\"00\\" \'{SECRET[1:].hex()}\')" \'not "read\' a\\ b'
    sources = [*(tmp_path / name for name in forms), *forms.values(), "env:THE_KEY", told, words, lambda: SECRET]
    for source in sources:
        NativePredictor(folder, decrypt=source)


@pytest.mark.parametrize(
    ("given", "verified", "message"),
    [
        (None, None, "is encrypted; name its key"),
        (bytes(32), None, "was encrypted with another key"),
        (b"short", None, "holds 5 bytes that are no key"),
        (b"", None, "holds 0 bytes that are no key"),
        (lambda: bytes(70_000), None, "says that it wrote 70000 bytes; there is room for 65536"),
        (lambda: 1 / 0, None, "the function failed with status 1"),
        ("env:NO_SUCH_KEY", None, "the environment variable NO_SUCH_KEY is not set"),
        ("no/such/file", None, "the key cannot be read: no/such/file: cannot be opened"),
        (ROOT, None, "is a folder, a pipe or a device"),
        ("command:", None, "names no program"),
        ("command:''", None, "names no program"),
        ("command:no_such_program_here", None, "the command no_such_program_here gave none"),
        ("command:false", None, "ended with status 1"),
        ("command:sh -c 'echo why >&2; kill -9 $$'", None, "ended with status -9: why$"),
        ("command:echo 'open", None, "a quote is not closed"),
        ("command:echo \\", None, "nothing stands behind its last backslash"),
        ("command:yes", None, "printed over 65536 bytes"),
        (SECRET, "other", "is signed by another key"),
        (SECRET, "private", "is a private key, which only its owner may have"),
        (SECRET, "nonsense", "is no public key in PEM"),
        (SECRET, "rsa", "is a key of another kind"),
    ],
)
def test_another_key_is_one_error(program, owner, tmp_path, given, verified, message):
    folder = sealed(program, tmp_path / "e", owner)
    (tmp_path / "nonsense").write_text("nonsense")
    (tmp_path / "rsa").write_text("-----BEGIN PUBLIC KEY-----\nMFww\n-----END PUBLIC KEY-----\n")
    sources = {name: str(tmp_path / name) for name in ("nonsense", "rsa")}
    sources |= {"other": pem(tmp_path, "other")[1], "private": owner[0]}
    with pytest.raises(FileRefused, match=message) as caught:
        NativePredictor(folder, decrypt=given, verify=sources.get(verified))
    assert SECRET.hex() not in str(caught.value)


def test_a_name_of_no_key_and_null_pointers_are_errors():
    options = c_void_p()
    checked(C.paddock_options_new(byref(options)))
    with pytest.raises(NativeError, match="there is no key 'open'; there are decrypt and verify"):
        set_key(options, b"open", b"1")
    for call in (
        lambda: C.paddock_options_set_text(None, b"decrypt", b"a"),
        lambda: C.paddock_options_set_text(options, b"decrypt", None),
        lambda: C.paddock_options_set_text(options, None, b"a"),
        lambda: C.paddock_options_set_key(options, b"decrypt", None, 3),
    ):
        with pytest.raises(NativeError, match="is a null pointer"):
            checked(call())
    C.paddock_options_free(options)
    assert C.paddock_signer(None) is None


def test_with_verify_only_what_the_owner_signed_is_opened(program, owner, tmp_path):
    save_program(program, tmp_path / "plain")
    sealed(program, tmp_path / "unsigned", owner, sign=False)
    for name, message in (("plain", "is not sealed"), ("unsigned", "is not signed")):
        with pytest.raises(FileRefused, match=message):
            NativePredictor(tmp_path / name, decrypt=SECRET, verify=owner[1])


def refused(folder, owner, *, encrypt=True, sign=True):
    """Whether the seal is; what these files hold is no program, which is told after the seal was checked."""
    try:
        NativePredictor(folder, decrypt=SECRET if encrypt else None, verify=owner[1] if sign else None)
    except FileRefused as error:
        return "program.json: " not in str(error) and "names no program.json" not in str(error)
    raise AssertionError("a program was read that is none")


@pytest.mark.parametrize(("encrypt", "sign"), WAYS)
def test_twelve_hundred_random_changes_in_all_are_refused(owner, tmp_path, encrypt, sign):
    rng, folder = random.Random(0), tmp_path / "e"
    folder.mkdir()
    files = {"program.json": b"{}" + b" " * 5000, "weights.safetensors": rng.randbytes(30_000), "none.txt": b""}
    write_sealed(folder, files, Seal(secret if encrypt else None, owner[0] if sign else None), segment=8192)
    way = {"encrypt": encrypt, "sign": sign}
    with pytest.raises(FileRefused, match=r"program\.json: 'shape_reads' is no list"):
        NativePredictor(folder, decrypt=SECRET if encrypt else None)
    passed, number = [], 0
    for told in random_changes(folder, rng, 400, seal_too=sign):
        number += 1
        try:
            NativePredictor(folder, decrypt=SECRET if encrypt else None, verify=owner[1] if sign else None)
        except FileRefused as error:
            if "'shape_reads' is no list" not in str(error):
                continue
        passed.append(told)
    assert passed == [] and number > 300
    assert not refused(folder, owner, **way)


@pytest.mark.parametrize("sign", [True, False])
def test_segments_that_are_moved_and_files_that_are_swapped_are_refused(owner, tmp_path, sign):
    folder = tmp_path / "e"
    for harm in harmed(folder, tmp_path / "f", owner, sign=sign):
        assert refused(folder, owner, sign=sign), harm
    assert not refused(folder, owner, sign=sign)


def test_who_has_the_key_but_not_the_signature_cannot_change_a_signed_export(program, owner, tmp_path):
    folder = sealed(program, tmp_path / "e", owner)
    forged = sealed(program, tmp_path / "forged", owner, sign=False)
    shutil.copy(folder / "seal.sig", forged / "seal.sig")
    again = sealed(program, tmp_path / "again", pem(tmp_path, "stranger"))
    for each, message in ((forged, "is not signed"), (again, "is signed by another key")):
        with pytest.raises(FileRefused, match=message):
            NativePredictor(each, decrypt=SECRET, verify=owner[1])


@pytest.mark.parametrize(("harm", "message"), HARMS)
def test_a_seal_that_says_something_else_is_refused_before_anything_is_read(program, owner, tmp_path, harm, message):
    folder = sealed(program, tmp_path / "e", owner, sign=False)
    data = json.loads((folder / "seal.json").read_text())
    harm(data)
    (folder / "seal.json").write_text(json.dumps(data))
    other = {"its version is None": "its version is no number", "segment_bytes": "'segment_bytes' is"}
    with pytest.raises(FileRefused, match=other.get(message, message)):
        NativePredictor(folder, decrypt=SECRET)


def test_limits_hold_for_what_is_sealed(program, owner, tmp_path):
    folder = sealed(program, tmp_path / "e", owner)
    with pytest.raises(FileRefused, match="it has too many bytes"):
        NativePredictor(folder, decrypt=SECRET, weight_bytes=1000)
    with pytest.raises(FileRefused, match="it has too many bytes"):
        NativePredictor(folder, decrypt=SECRET, text_bytes=1000)


def regions_with(text):
    """Mappings of this process that can be read and hold the text, with the kernel's flags of them."""
    found, entry, flags = [], None, ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        word = line.split()[0]
        if "-" in word and not word.endswith(":"):
            entry = line.split()
        elif word == "VmFlags:":
            flags = line.split()[1:]
            first, last = (int(n, 16) for n in entry[0].split("-"))
            if "r" in entry[1] and last - first < 1 << 28 and (entry[-1] not in ("[vvar]", "[vsyscall]")):
                with open("/proc/self/mem", "rb", 0) as memory:
                    try:
                        memory.seek(first)
                        if text in memory.read(last - first):
                            found.append((entry[0], flags))
                    except (OSError, ValueError):
                        continue
    return found


def test_decrypted_weights_lie_out_of_core_dumps_and_are_gone_afterwards(program, owner, tmp_path):
    """In a process of its own, whose memory is searched."""
    folder = sealed(program, tmp_path / "e", owner)
    plain = tmp_path / "plain"
    save_program(program, plain)
    code = f"""
import sys, random
from tests.framework.predictor.test_sealed import NativePredictor, SECRET, regions_with
weights = open({str(next(plain.glob("weights*")))!r}, "rb").read()
needle = bytes(b ^ 0x5A for b in weights[-1200:-1100])
del weights
def present():
    return regions_with(bytes(b ^ 0x5A for b in needle))
before = present()
model = NativePredictor({str(folder)!r}, decrypt=SECRET)
during = present()
del model
after = present()
dumped = [r for r in during if r not in before and "dd" not in r[1]]
print(len([r for r in during if "dd" in r[1]]), len([r for r in after if "dd" in r[1]]), len(dumped))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:2] == ["1", "0"], done.stdout


def test_the_library_needs_no_libcrypto_until_a_sealed_export_is_opened(program, owner, tmp_path):
    save_program(program, tmp_path / "plain")
    folder = sealed(program, tmp_path / "sealed", owner)
    readelf = shutil.which("readelf")
    if readelf:
        needed = subprocess.run([readelf, "-d", LIBRARY], capture_output=True, text=True, check=True).stdout
        assert "NEEDED" in needed and "crypto" not in needed
    # A machine without it, in a process whose loader finds a file in its place that is no library.
    (tmp_path / "libcrypto.so.3").write_bytes(b"no library")
    code = f"""
import ctypes
C = ctypes.CDLL({str(LIBRARY)!r})
C.paddock_last_error.restype = ctypes.c_char_p
made = ctypes.c_void_p()
print(C.paddock_load({str(tmp_path / "plain").encode()!r}, None, ctypes.byref(made)))
print(C.paddock_load({str(folder).encode()!r}, None, ctypes.byref(made)), C.paddock_last_error().decode())
"""
    environment = {"LD_LIBRARY_PATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    plain, told = done.stdout.splitlines()
    assert plain == "0" and told.startswith("5 sealed exports need OpenSSL 3: its libcrypto.so.3 cannot be loaded (")


def test_functions_of_libcrypto_are_declared_as_its_headers_do(tmp_path):
    compiler = shutil.which("c++")
    if compiler is None or not Path("/usr/include/openssl/evp.h").exists():
        pytest.skip("no headers of OpenSSL on this machine")
    (tmp_path / "check.cc").write_text(
        """#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <type_traits>
#define PADDOCK_CRYPTO(name, result, arguments) static_assert(std::is_same_v<decltype(&::name), result(*) arguments>);
#include "crypto_functions.inc"
static_assert(EVP_PKEY_ED25519 == 1087 && EVP_CTRL_AEAD_SET_TAG == 0x11);
"""
    )
    words = [compiler, "-std=c++20", "-fsyntax-only", f"-I{SEALING}", tmp_path / "check.cc"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
