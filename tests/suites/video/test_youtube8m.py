"""YouTube-8M's records are read as protobuf and TensorFlow's format define them; damaged files are named."""

import contextlib
import struct

import numpy as np
import pytest

from framework.errors import DataError
from suites.video.datasets import YouTube8M
from suites.video.datasets.tfrecord import masked_crc32c, read_sequence_example

RNG = np.random.default_rng(0)
SIZES = {"rgb": 6, "audio": 3}


def messages():
    """The classes of TensorFlow's example.proto and feature.proto, made with Google's protobuf."""
    descriptor_pb2 = pytest.importorskip(
        "google.protobuf.descriptor_pb2", reason="the package protobuf is not installed"
    )
    from google.protobuf import descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto

    def add(name, *fields):
        message = file.message_type.add(name=name)
        for number, (field, kind, of, repeated) in enumerate(fields, start=1):
            made = message.field.add(name=field, number=number, type=kind)
            made.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            if of:
                made.type_name = f".t.{of}"
        return message

    add("BytesList", ("value", kinds.TYPE_BYTES, None, True))
    add("FloatList", ("value", kinds.TYPE_FLOAT, None, True))
    add("Int64List", ("value", kinds.TYPE_INT64, None, True))
    message = kinds.TYPE_MESSAGE
    add(
        "Feature",
        ("bytes_list", message, "BytesList", False),
        ("float_list", message, "FloatList", False),
        ("int64_list", message, "Int64List", False),
    )
    add("FeatureList", ("feature", message, "Feature", True))
    for name, of in (("Features", "Feature"), ("FeatureLists", "FeatureList")):
        add(f"{name}Entry", ("key", kinds.TYPE_STRING, None, False), ("value", message, of, False))
        add(name, ("entry", message, f"{name}Entry", True))
    add("SequenceExample", ("context", message, "Features", False), ("feature_lists", message, "FeatureLists", False))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("t.SequenceExample"))


def example(labels, rows, sizes=SIZES):
    """A SequenceExample's bytes, and its features as uint8."""
    made, quantised = messages()(), {}
    entry = made.context.entry.add(key="labels")
    entry.value.int64_list.value.extend(labels)
    made.context.entry.add(key="id").value.bytes_list.value.append(b"abcd")
    made.context.entry.add(key="mean").value.float_list.value.extend([0.5, -1.0])
    for name, size in sizes.items():
        quantised[name] = RNG.integers(0, 256, (rows, size)).astype(np.uint8)
        found = made.feature_lists.entry.add(key=name)
        for row in quantised[name]:
            found.value.feature.add().bytes_list.value.append(row.tobytes())
    return made.SerializeToString(), quantised


def record(data):
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def test_the_checksum_is_crc_32c():
    """Of "123456789" 0xE3069283 (RFC 3720, appendix B.4 has more), unmasked."""
    crc = (masked_crc32c(b"123456789") - 0xA282EAD8) & 0xFFFFFFFF
    assert (crc >> 17 | crc << 15) & 0xFFFFFFFF == 0xE3069283


def test_videos_come_back_with_their_classes_and_numbers(tmp_path):
    made = [example(labels, rows) for labels, rows in (([3, 0], 4), ([], 1), ([2], 9))]
    (tmp_path / "a.tfrecord").write_bytes(record(made[0][0]) + record(made[1][0]))
    (tmp_path / "b.tfrecord").write_bytes(record(made[2][0]))
    data = YouTube8M(str(tmp_path / "*.tfrecord"), SIZES, classes=4, most_rows=8)
    assert len(data) == 3 and data.multi_label and data.num_classes == 4
    assert [data.name_of(i) for i in range(3)] == ["a.tfrecord:0", "a.tfrecord:1", "b.tfrecord:0"]
    assert [data[i].labels.tolist() for i in range(3)] == [[0, 3], [], [2]]
    for i, (_, quantised) in enumerate(made):
        for name, values in quantised.items():
            expected = values[:8] * (4 / 255) + 4 / 512 - 2
            np.testing.assert_allclose(data[i].features[name], expected, atol=1e-6)


def test_context_and_lists_are_read_whatever_their_type():
    data, quantised = example([5, -1], 2)
    context, lists = read_sequence_example(data)
    assert (
        context["labels"].tolist() == [5, -1] and context["id"] == [b"abcd"] and context["mean"].tolist() == [0.5, -1]
    )
    assert [len(lists[name]) for name in SIZES] == [2, 2] and lists["rgb"][1] == quantised["rgb"][1].tobytes()


def test_damaged_files_are_named(tmp_path):
    path = tmp_path / "a.tfrecord"
    with pytest.raises(DataError, match="there are no such files"):
        YouTube8M(str(path))
    whole = record(example([1], 3)[0])
    for data, match in (
        (b"", "hold no records"),
        (whole[:-9], "is cut off in record 0"),
        (whole + b"abc", r"byte \d+ begins no TFRecord"),
        (b"x" * 100, "byte 0 begins no TFRecord"),
        (
            struct.pack("<Q", 1 << 60) + struct.pack("<I", masked_crc32c(struct.pack("<Q", 1 << 60))),
            "begins no TFRecord",
        ),
    ):
        path.write_bytes(data)
        with pytest.raises(DataError, match=match):
            YouTube8M(str(path), SIZES, classes=4)
    for data, match in (
        (example([7], 3)[0], r"a\.tfrecord:0: its labels \[7\] are not of the 4 classes"),
        (example([1], 0)[0], "has no rows of rgb, audio"),
        (example([1], 2, {"rgb": 5, "audio": 3})[0], "a row of rgb has not the 6 bytes"),
        (b"\xff" * 40, "is no SequenceExample message"),
        (b"\x0a\x7f", "is no SequenceExample message"),
    ):
        path.write_bytes(record(data))
        with pytest.raises(DataError, match=match):
            YouTube8M(str(path), SIZES, classes=4)[0]


def test_random_bytes_are_an_error_or_a_message_but_never_a_crash():
    data, _ = example([1, 2], 2)
    for _ in range(300):
        broken = bytearray(data)
        for at in RNG.integers(0, len(data), 4):
            broken[at] = RNG.integers(0, 256)
        with contextlib.suppress(DataError):
            read_sequence_example(bytes(broken))
