"""Arrays of other libraries by DLPack: on their memory where it can be, else a copy, else a clear error."""

import numpy as np
import pytest

from framework import from_dlpack
from framework.errors import AttributeValueError, DTypeError

A = np.arange(12, dtype=np.float32).reshape(3, 4)


class Foreign:
    """An array of another library: NumPy's behind the protocol alone."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **wanted):
        return self._array.__dlpack__(**wanted)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("wrap", [np.asarray, Foreign])
@pytest.mark.parametrize(
    "array", [A, A[:, ::2], A.T, A[::-1], A[:0], np.broadcast_to(A[0], (3, 4)), A.astype(np.int64)[1:, 1:]]
)
def test_arrays_of_any_strides_are_taken(wrap, array):
    np.testing.assert_array_equal(from_dlpack(wrap(array)).numpy(), array)


@pytest.mark.parametrize("wrap", [np.asarray, Foreign])
def test_an_array_that_is_read_only_is_copied(wrap):
    array = A.copy()
    array.flags.writeable = False
    try:
        taken = from_dlpack(wrap(array))
    except AttributeValueError as error:  # NumPy before 2.1 hands out no such array
        assert wrap is Foreign, error
        return
    np.testing.assert_array_equal(taken.numpy(), A)
    taken.numpy()[0, 0] = 7
    assert array[0, 0] == 0


def test_a_contiguous_array_shares_its_memory():
    array = A.copy()
    from_dlpack(Foreign(array)).numpy()[0, 0] = 7
    assert array[0, 0] == 7


def test_what_cannot_be_taken_says_why():
    with pytest.raises(DTypeError):
        from_dlpack(Foreign(A.astype(np.complex64)))
    with pytest.raises(AttributeValueError, match="a str cannot be taken as it is"):
        from_dlpack("text")
