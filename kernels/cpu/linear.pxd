"""Products of matrices."""

from tagflow.kernels.core.table cimport Work
from tagflow.kernels.cpu.arrays cimport ArrayObject

cdef void multiply_columns(ArrayObject* a, ArrayObject* b, int rows, ArrayObject* total, Work* work) noexcept nogil
