"""TensorArrays of which a run of a native program reads and writes elements."""

from libc.stdint cimport int64_t
from numpy cimport npy_intp

from tagloom.kernels.core.table cimport Loop
from tagloom.kernels.core.values cimport Value
from tagloom.kernels.cpu.elements cimport Elements, Rows, Slot
from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport Register, Run


cdef enum:  # accesses by the run, beside the earlier ones of elements.pxd
    BY_RUN = 2  # bits by which they are shifted
    WRITES = 4  # WRITTEN
    READS = 8  # READ


cdef struct State:  # of an array in a run
    Slot* slots
    int64_t count  # slots, for elements that are there or may be
    int64_t reached  # elements that are there
    int64_t wanted  # as many slots, if that are more
    bint grows
    bint clears  # after a read
    bint adds  # repeated writes add up, and reads make it grow
    char* block  # where elements are written
    const char* zeros  # an element to which nothing was written, or NULL: such a read is an error, or has another shape
    Loop add  # the inner loop of a sum, or NULL
    void* add_data
    npy_intp numbers  # of an element


cdef class TensorArrayRun:
    cdef State state
    cdef Elements elements  # None for an array that the program makes itself
    cdef Rows rows  # that the elements were, or None
    cdef object dtype
    cdef object pattern  # of an array that the program makes: sizes of an element, None where unknown; or None
    cdef TensorArrayRun primal  # of a gradient array that the program makes, or None
    cdef Value like  # borrowed from Run.kept: an array of the shape of the elements; EMPTY while that is not known
    cdef bint is_known  # whether the shape is known
    cdef object block  # owns state.block
    cdef char** found  # rows at the beginning, of an array that adds
    cdef int64_t num_found
    cdef bint is_sized  # made by the program, with a size that is known and stays
    cdef bint is_shared  # other code has written to its elements meanwhile
    cdef tuple shape
    cdef str reader
    cdef str writer

    cdef tuple exact(self)
    cdef tuple likely_shape(self)
    cdef bint takes(self, tuple shape) except -1


cdef TensorArrayRun open_array(Run run, int number)
cdef TensorArrayRun make_array(Run run, const Instruction* each)
cdef int take_slots(Run run, State* state, int64_t count) except -1
cdef int take_block(Run run, TensorArrayRun array, tuple shape) except -1
cdef int learn_shape(Run run, TensorArrayRun array, tuple shape) except -1
cdef int grow_tensor_arrays(Run run) except -1
cdef bint are_as_found(Run run) except -1
cdef int close_tensor_arrays(Run run) except -1
