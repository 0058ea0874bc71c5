"""A saved array, perhaps outside the device's memory. See docs/design/0012-swap.md."""


cdef class SwappableArray:
    """A saved array, perhaps outside the device's memory; a slot holds this object in the array's place.

    Parameters
    ----------
    array : numpy.ndarray

    Attributes
    ----------
    array : numpy.ndarray or None
        None while the array is elsewhere.
    """

    def __init__(self, array):
        self.array = array

    @property
    def nbytes(self):
        """Bytes of the device's memory taken by the array now."""
        return 0 if self.array is None else self.array.nbytes

    def now(self):
        """Return the array, read at once from its present place."""
        raise NotImplementedError

    def copy_to(self, target):
        """Copy the array at once, from its present place, to a contiguous array."""
        raise NotImplementedError
