"""Holders of a device's memory, for the report of a step out of memory."""

from tagloom.kernels.memory.pool cimport Pool
from tagloom.kernels.scheduler.delivery cimport Machine
from tagloom.kernels.scheduler.plan cimport CompiledPlan


cdef list allocations_of(Machine* m, CompiledPlan compiled, Pool pool, object step)
