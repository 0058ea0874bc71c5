"""Loop variables that exchange memory with their next values, so that no value is copied."""

from tagloom.kernels.native.run cimport Run
from tagloom.kernels.native.sights cimport Sights

cdef int exchange_variables(Run run, const Sights* sights) except -1
cdef void put_variables_back(Run run) noexcept
