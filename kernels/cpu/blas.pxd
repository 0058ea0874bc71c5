"""Products by BLAS."""

ctypedef void (*Sgemm)(
    char*, char*, int*, int*, int*, float*, float*, int*, float*, int*, float*, float*, int*) noexcept nogil
ctypedef void (*Dgemm)(
    char*, char*, int*, int*, int*, double*, double*, int*, double*, int*, double*, double*, int*) noexcept nogil

cdef Sgemm sgemm  # both NULL until BLAS is loaded
cdef Dgemm dgemm

cdef int require_blas() except -1 nogil
