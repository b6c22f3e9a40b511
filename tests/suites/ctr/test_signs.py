"""Signs against the package xxhash, which is XXH64's own C code."""

import numpy as np
import pytest
import xxhash

from framework.data.logs.schema import LogSchema
from framework.errors import AttributeValueError
from suites.ctr.schema.signs import missing_sign, signs_of

MASK = (1 << 52) - 1
RNG = np.random.default_rng(0)


def unsigned(signs):
    return np.asarray(signs).astype(np.int64).view(np.uint64).tolist()


def encoded(cells, **fields):
    """The signs [N, F] that the native reader makes of rows in memory."""
    batch, wrong = LogSchema(fields).encode(cells)
    assert not wrong
    return batch["sparse"]


def test_hashes_are_xxh64_at_every_length():
    texts = [RNG.bytes(length) for length in [*range(100), 1000] for _ in range(3)]
    expected = [1 << 52 | xxhash.xxh64_intdigest(text) & MASK for text in texts]
    assert unsigned(signs_of(texts, 1)) == expected


def test_rows_in_memory_have_the_signs_of_their_texts():
    texts = ["News", "naïve", "新闻", "\udcff\udcfe", "\ud800", "a" * 200]
    raw = [b"News", "naïve".encode(), "新闻".encode(), b"\xff\xfe", b"\xed\xa0\x80", b"a" * 200]
    found = encoded([texts], columns=["a"], sparse=[{"name": "a", "slot": 9, "column": 0}])
    assert unsigned(found[:, 0]) == unsigned(signs_of(raw, 9))


def test_a_sign_is_slot_and_hash_for_every_slot():
    for slot in (1, 2047, 2048, 4095):
        (sign,) = unsigned(signs_of([b"News"], slot))
        assert sign == slot << 52 | xxhash.xxh64_intdigest(b"News") & MASK


def test_a_cross_hashes_the_signs_of_its_members_in_order():
    sparse = [{"name": name, "slot": slot, "column": slot - 1} for name, slot in (("a", 1), ("b", 2))]
    crosses = [{"name": f"cross{order}", "slot": 7, "members": order} for order in ([0, 1], [1, 0])]
    found = encoded([["x", "y"], ["u", "v"]], columns=["a", "b"], sparse=[*sparse, *crosses])
    for place, order in ((2, [0, 1]), (3, [1, 0])):
        members = [row[order].astype("<i8").tobytes() for row in found]
        assert unsigned(found[:, place]) == [7 << 52 | xxhash.xxh64_intdigest(each) & MASK for each in members]


@pytest.mark.parametrize("number", [0, 2**64 - 1, 1, 2**63])
def test_every_number_of_a_slot_log_is_an_ordinary_one(number):
    fields = {"kind": "slot", "head": ["label"], "columns": ["label", "3"]}
    sparse = [{"name": "three", "slot": 3, "column": 1}]
    ((sign,),) = encoded([["1"], [[str(number)]]], sparse=sparse, **fields)
    assert unsigned(sign) == 3 << 52 | xxhash.xxh64_intdigest(number.to_bytes(8, "little")) & MASK
    assert sign != missing_sign(3)


@pytest.mark.parametrize("slot", [0, 4096, -1])
def test_a_slot_outside_of_its_range_is_refused(slot):
    with pytest.raises(AttributeValueError, match=f"slot is {slot}; it must be 1 to 4095"):
        signs_of([b"a"], slot)
