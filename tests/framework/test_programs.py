"""Other programs: texts from outside are operands, a hanging program ends, files and environment are bounded."""

import subprocess
import sys

import pytest

from framework import programs
from framework.errors import AttributeValueError

PYTHON = programs.PYTHON


@pytest.mark.parametrize("word", ["-rhttp://x", "--upload-pack=touch x", "-", "", "a\0b"])
def test_an_operand_that_could_be_an_option_starts_nothing(word, tmp_path):
    with pytest.raises(AttributeValueError, match="cannot be handed to it"):
        programs.run(PYTHON, ("-c", f"open({str(tmp_path / 'mark')!r}, 'w')"), [word], seconds=10)
    with pytest.raises(AttributeValueError, match="cannot be handed to it"):
        programs.start(PYTHON, ("-c", f"open({str(tmp_path / 'mark')!r}, 'w')"), [word])
    assert not list(tmp_path.iterdir())


def test_a_program_has_its_words_in_order_no_input_and_its_output_comes_back():
    code = "import sys; print(sys.argv[1:], sys.stdin.read()); sys.exit(3)"
    done = programs.run(PYTHON, ("-c", code, "--fixed=1"), ["from outside"], typed=["--mine"], seconds=60)
    assert done.returncode == 3 and done.stdout == "['--fixed=1', '--mine', 'from outside'] \n"


def test_a_program_that_hangs_is_ended():
    with pytest.raises(programs.TimeoutExpired):
        programs.run(PYTHON, ("-c", "import time; time.sleep(600)"), seconds=0.5)


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit is Linux's")
def test_a_program_writes_no_larger_file_than_it_may(tmp_path):
    code = "import time; time.sleep(0.5); open('big', 'wb').write(bytes(1 << 20))"
    done = programs.run(PYTHON, ("-c", code), seconds=60, cwd=str(tmp_path), file_bytes=1000)
    assert done.returncode != 0 and (tmp_path / "big").stat().st_size <= 1000


def test_a_module_of_ours_imports_nothing_from_the_working_folder(tmp_path):
    (tmp_path / "framework").mkdir()
    (tmp_path / "framework" / "__init__.py").write_text("print('a stranger')")
    (tmp_path / "numpy.py").write_text("print('a stranger')")
    options = programs.module("framework.extend")
    done = programs.run(PYTHON, options, seconds=60, cwd=str(tmp_path), env=programs.module_paths())
    assert "a stranger" not in done.stdout and "No module" not in done.stderr


def test_a_process_is_one_of_the_standard_library():
    process = programs.start(PYTHON, ("-c", "pass"), stdout=programs.DEVNULL)
    assert isinstance(process, subprocess.Popen) and process.wait(60) == 0
