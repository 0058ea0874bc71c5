"""The same values in arrays of every kind."""

import numpy as np

from tests.kernels.fuzzing import Subclass


def odd(array, kind):
    """Return the same values in another kind of array."""
    if kind == "fortran":
        return np.asfortranarray(array)
    if kind == "strided":
        wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    if kind == "backwards":
        return array[::-1].copy()[::-1]
    if kind == "readonly":
        copy = array.copy()
        copy.flags.writeable = False
        return copy
    if kind == "unaligned":
        raw = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
        raw[...] = array
        return raw
    if kind == "swapped":
        return array.astype(array.dtype.newbyteorder())
    return array.view(Subclass) if kind == "subclass" else array


KINDS = ["plain", "fortran", "strided", "backwards", "readonly", "unaligned", "swapped", "subclass"]
