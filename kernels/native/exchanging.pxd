"""Loop variables that change places with their next values, so that nobody copies these."""

from tagloom.kernels.native.run cimport Run
from tagloom.kernels.native.sights cimport Sights

cdef int exchange_variables(Run run, const Sights* sights) except -1
cdef void put_variables_back(Run run) noexcept
