"""Products of matrices."""

from tagflow.kernels.core.table cimport Table, Work
from tagflow.kernels.cpu.arrays cimport ArrayObject

cdef void multiply_columns(
    const Table* table, ArrayObject* a, ArrayObject* b, int rows, ArrayObject* more_a, ArrayObject* more_b,
    ArrayObject* total, const void* before, Work* work) noexcept nogil
