"""The file of a teacher's answers: completed where it was begun, refused where it belongs to something else."""

import numpy as np
import pytest

from framework.errors import CheckpointError, DataError
from framework.io import save_tensors
from suites.nlp.datasets import Labelled
from suites.nlp.slim import labels
from suites.nlp.slim.labels import Kept, teacher_labels


class Counting:
    """A teacher whose answer to a text is its length; it counts what it is asked."""

    digest = b"t" * 32

    def __init__(self):
        self.asked = 0

    def probabilities(self, examples):
        self.asked += len(examples)
        return np.array([[len(e.text), 1] for e in examples], np.float32)


EXAMPLES = [Labelled("x" * i) for i in range(10)]


def silent(line):
    pass


def test_a_begun_file_is_completed_and_a_whole_one_is_only_read(tmp_path, monkeypatch):
    monkeypatch.setattr(labels, "_CHUNK", 4)
    path, teacher = tmp_path / "l.safetensors", Counting()
    Kept(path, teacher.digest, EXAMPLES).write(teacher.probabilities(EXAMPLES[:6]))
    found = teacher_labels(path, teacher, EXAMPLES, silent)
    assert found[:, 0].tolist() == list(range(10)) and teacher.asked == 10
    assert (teacher_labels(path, teacher, EXAMPLES, silent) == found).all() and teacher.asked == 10
    teacher_labels(None, teacher, EXAMPLES, silent)
    assert teacher.asked == 20


def test_labels_of_other_texts_or_another_teacher_are_refused(tmp_path):
    path, teacher = tmp_path / "l.safetensors", Counting()
    teacher_labels(path, teacher, EXAMPLES, silent)
    with pytest.raises(DataError, match=r"l.safetensors: holds labels of other texts .* remove it to label anew"):
        teacher_labels(path, teacher, EXAMPLES[::-1], silent)
    teacher.digest = b"u" * 32
    with pytest.raises(DataError, match="holds labels of another teacher"):
        teacher_labels(path, teacher, EXAMPLES, silent)
    save_tensors(path, {})
    with pytest.raises(CheckpointError, match="lacks scores, teacher, texts, so it is no file of a teacher's labels"):
        teacher_labels(path, teacher, EXAMPLES, silent)
