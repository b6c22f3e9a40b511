"""Signs against the package xxhash, which is XXH64's own C code."""

import numpy as np
import pytest
import xxhash

from framework.errors import AttributeValueError
from suites.ctr.schema.signs import crossed, hash52, missing_sign, sign_of_number, signs_of, slot_of, xxh64

MASK = (1 << 52) - 1
RNG = np.random.default_rng(0)


def test_hashes_are_xxh64_at_every_length():
    texts = [RNG.bytes(length) for length in [*range(100), 1000] for _ in range(3)]
    assert xxh64(texts).tolist() == [xxhash.xxh64_intdigest(text) for text in texts]


def test_a_sign_is_slot_and_hash_for_every_slot():
    for slot in (1, 2047, 2048, 4095):
        (sign,) = signs_of([b"News"], slot)
        assert int(sign) & (2**64 - 1) == slot << 52 | xxhash.xxh64_intdigest(b"News") & MASK
        assert slot_of(np.array([sign])) == slot


def test_a_cross_hashes_the_signs_of_its_members_in_order():
    members = RNG.integers(-(2**63), 2**63 - 1, (5, 3))
    expected = [7 << 52 | xxhash.xxh64_intdigest(row.astype("<i8").tobytes()) & MASK for row in members]
    assert crossed(members, 7).tolist() == expected
    assert (crossed(members[:, ::-1], 7) != crossed(members, 7)).all()


@pytest.mark.parametrize("number", [0, 2**64 - 1, 1, 2**63])
def test_every_number_of_a_slot_log_is_an_ordinary_one(number):
    (sign,) = sign_of_number(np.array([number], np.uint64), 3)
    assert sign == 3 << 52 | xxhash.xxh64_intdigest(number.to_bytes(8, "little")) & MASK
    assert sign != missing_sign(3)


def test_a_hash_of_0_belongs_to_missing_values_alone():
    # No text with these 52 bits is known, so the rule is tried where it stands.
    from suites.ctr.schema.signs import with_slot

    assert with_slot(np.array([1 << 52, 5], np.uint64), 1).tolist() == [1 << 52 | 1, 1 << 52 | 5]
    assert missing_sign(1) == 1 << 52 and hash52([b"a"]).min() > 0


@pytest.mark.parametrize("slot", [0, 4096, -1])
def test_a_slot_outside_of_its_range_is_refused(slot):
    with pytest.raises(AttributeValueError, match=f"slot is {slot}; it must be 1 to 4095"):
        signs_of([b"a"], slot)
