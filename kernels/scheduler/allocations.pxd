"""What has memory of a device."""

from tagflow.kernels.memory.pool cimport Pool
from tagflow.kernels.scheduler.delivery cimport Machine
from tagflow.kernels.scheduler.plan cimport CompiledPlan


cdef list allocations_of(Machine* m, CompiledPlan compiled, Pool pool, object step)
