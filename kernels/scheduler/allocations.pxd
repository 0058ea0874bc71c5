"""What has memory of a device."""

from tagloom.kernels.memory.pool cimport Pool
from tagloom.kernels.scheduler.delivery cimport Machine
from tagloom.kernels.scheduler.plan cimport CompiledPlan


cdef list allocations_of(Machine* m, CompiledPlan compiled, Pool pool, object step)
