"""Products of matrices."""

from tagflow.kernels.core.table cimport Native, Work
from tagflow.kernels.cpu.arrays cimport ArrayObject

cdef Native find_matmul(dict attrs, list inputs, list outputs)
cdef void multiply_columns(ArrayObject* a, ArrayObject* b, int rows, ArrayObject* total, Work* work) noexcept nogil
