"""Access of swapping to a device's memory."""

from tagloom.kernels.memory.pool cimport Pool


cpdef charge_reader(Pool pool, array)
