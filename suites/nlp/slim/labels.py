"""The teacher's answers to all training texts, computed once and kept in a file, also when labelling was cut off."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from framework import from_numpy
from framework.errors import CheckpointError, DataError
from framework.io import load_tensors, save_tensors
from suites.nlp.datasets import Labelled
from suites.nlp.slim.teacher import Teachers

_CHUNK = 1024  # texts between two looks at the clock
_SECONDS = 20  # between two writes of the file


def teacher_labels(
    path: Path | None, teachers: Teachers, examples: Sequence[Labelled], say: Callable[[str], None]
) -> np.ndarray:
    """The teachers' probabilities, float32 [N, K]: from the file where it has them, computed and kept there else.

    Args:
        path: a safetensors file, or None to keep nothing; one that was begun is completed.
        teachers: who answers.
        examples: the texts, N of them.
        say: takes lines for people.

    Raises:
        DataError: the file has answers to other texts, or of another teacher.
    """
    kept = Kept(path, teachers.digest, examples)
    parts = [kept.read()] if path is not None and path.exists() else []
    done = sum(len(part) for part in parts)
    started = last = time.monotonic()
    if done < len(examples):
        say(f"the teacher labels {len(examples)} texts; {done} are labelled already")
    while done < len(examples):
        parts.append(teachers.probabilities(examples[done : done + _CHUNK]))
        done += len(parts[-1])
        if done >= len(examples) or time.monotonic() - last > _SECONDS:
            parts, last = [np.concatenate(parts)], time.monotonic()
            kept.write(parts[0])
            say(f"  {done} of {len(examples)} texts, {last - started:.0f} s")
    return np.concatenate(parts)


class Kept:
    """The file of answers, which says what they are answers to.

    Args:
        path: the file, or None for none.
        teacher: digest of the teacher, 32 bytes.
        examples: the texts.
    """

    def __init__(self, path: Path | None, teacher: bytes, examples: Sequence[Labelled]) -> None:
        self._path, self._count = path, len(examples)
        self._digests = {"teacher": teacher, "texts": digest_of(examples)}

    def read(self) -> np.ndarray:
        """The answers in the file, float32 [n, K] with n <= N."""
        assert self._path is not None
        kept = {name: tensor.numpy() for name, tensor in load_tensors(self._path).items()}
        missing = {"scores", *self._digests} - kept.keys()
        if missing:
            raise CheckpointError(
                f"{self._path}: lacks {', '.join(sorted(missing))}, so it is no file of a teacher's labels"
            )
        for name, digest in self._digests.items():
            if kept[name].tobytes() != digest:
                whose = {"teacher": "another teacher", "texts": "other texts"}[name]
                raise DataError(
                    f"{self._path}: holds labels of {whose} ({kept[name].tobytes().hex()[:12]}, not "
                    f"{digest.hex()[:12]}); remove it to label anew, or name another file in distil.labels"
                )
        return np.array(kept["scores"][: self._count])

    def write(self, scores: np.ndarray) -> None:
        """Keep the answers to the first texts."""
        if self._path is not None:
            digests = {name: np.frombuffer(digest, np.uint8) for name, digest in self._digests.items()}
            save_tensors(self._path, {name: from_numpy(a) for name, a in {"scores": scores, **digests}.items()})


def digest_of(examples: Sequence[Labelled]) -> bytes:
    """SHA-256 of the texts in order, 32 bytes; labels do not count."""
    total = hashlib.sha256()
    for example in examples:
        total.update(json.dumps([example.text, example.pair]).encode())
    return total.digest()
