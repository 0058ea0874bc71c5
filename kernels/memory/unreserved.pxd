"""What the swapping of saved values asks of a device's memory."""

from tagloom.kernels.memory.pool cimport Pool


cpdef charge_reader(Pool pool, array)
