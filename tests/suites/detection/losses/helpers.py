"""What tests of losses share."""

import numpy as np


def differences(function, x, step=1e-6):
    """The gradient of a scalar function of a float64 array by central differences."""
    gradient = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        ends = []
        for sign in (1, -1):
            moved = x.copy()
            moved[at] += sign * step
            ends.append(function(moved))
        gradient[at] = (ends[0] - ends[1]) / (2 * step)
    return gradient
