"""Starting other programs: the only module that does. A text from outside can be an operand, never an option.

A program gets its words in three groups: `options`, which stand in our source; `typed`, which a person gave on the
command line or in their own configuration; and `operands`, which may come from a file or a request.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any

from framework.errors import AttributeValueError
from framework.system.memory import bound_files

PYTHON = sys.executable
Process = subprocess.Popen[bytes]
ProgramError, TimeoutExpired = subprocess.SubprocessError, subprocess.TimeoutExpired
PIPE, DEVNULL, TO_STDOUT = subprocess.PIPE, subprocess.DEVNULL, subprocess.STDOUT


def module(name: str) -> tuple[str, ...]:
    """Python's options to run one of our modules: nothing is imported from the working folder (`-P`)."""
    return ("-P", "-m", name)


def module_paths(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment in which a Python finds the modules that this one finds, whatever folder it works in."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**(os.environ if environment is None else environment), "PYTHONPATH": paths}


def run(
    program: str,
    options: Sequence[str],
    operands: Sequence[str] = (),
    *,
    seconds: float,
    typed: Sequence[str] = (),
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    file_bytes: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, without input; its output is text, and with it its exit status.

    Args:
        program: its name, or its path.
        options: words of our own source.
        operands: words from outside, after the options.
        seconds: after which it is killed.
        typed: words of the user's own command line or configuration, between the two.
        cwd: the folder it works in.
        env: its environment; by default this process's.
        file_bytes: of the largest file that it may write, where the system can bound that.

    Raises:
        AttributeValueError: an operand could be taken for an option.
        OSError: the program cannot be started.
        TimeoutExpired: it took longer; it is ended.
    """
    process = subprocess.Popen(
        line(program, options, operands, typed), stdin=DEVNULL, stdout=PIPE, stderr=PIPE, text=True, cwd=cwd, env=env
    )
    with process:
        try:
            if file_bytes is not None:
                bound_files(process.pid, file_bytes)
            out, err = process.communicate(timeout=seconds)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def start(
    program: str,
    options: Sequence[str],
    operands: Sequence[str] = (),
    *,
    typed: Sequence[str] = (),
    stdin: int | None = None,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    process_group: int | None = None,
    start_new_session: bool = False,
) -> Process:
    """Start a program and return at once; arguments and errors as `run` and `subprocess.Popen` have them."""
    return subprocess.Popen(
        line(program, options, operands, typed),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=env,
        pass_fds=pass_fds,
        process_group=process_group,
        start_new_session=start_new_session,
    )


def start_child(program: str, options: Sequence[str], *, env: Mapping[str, str] | None = None) -> Process:
    """Start a program of ours that is asked by its input and answers by its output, in a session of its own.

    It finds the modules that this process finds; env: its environment, by default this process's.
    """
    return start(
        program,
        options,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env=module_paths(env),
        start_new_session=True,
    )


def line(program: str, options: Sequence[str], operands: Sequence[str] = (), typed: Sequence[str] = ()) -> list[str]:
    """The words of a command; raises AttributeValueError for an operand that could be taken for an option."""
    for word in operands:
        if not word or word.startswith("-") or "\0" in word:
            raise AttributeValueError(
                f"{os.path.basename(program)}: {word!r} cannot be handed to it: it is empty, begins with '-' like an "
                "option, or has a null character"
            )
    return [program, *options, *typed, *operands]
