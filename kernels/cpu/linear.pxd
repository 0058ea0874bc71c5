"""Products of matrices."""

from tagflow.kernels.cpu.arrays cimport ArrayObject
from tagflow.kernels.scheduler.table cimport Native, Work

cdef Native find_matmul(dict attrs, list inputs, list outputs)
cdef void multiply_columns(ArrayObject* a, ArrayObject* b, int rows, ArrayObject* total, Work* work) noexcept nogil
