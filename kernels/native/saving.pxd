"""Series that a run of a native program writes and reads."""

from libc.stdint cimport int64_t

from tagloom.kernels.native.compiled cimport Instruction
from tagloom.kernels.native.run cimport Run


cdef struct Reader:  # of a series
    const char** rows  # NULL where there is none, or no more
    int64_t count
    int64_t* starts  # of a series of series: where the rows of each begin, and the last ones end
    int64_t num_parts
    bint is_last
    bint is_maybe  # missing rows are skipped
    bint gives_zeros  # where there is nothing
    int series  # register that has the series
    int row  # register of the row that is read


cdef int record_push(Run run, const Instruction* each) except -1
cdef int record_read(Run run, const Instruction* each) except -1
cdef int make_room(Run run) except -1
cdef int close_series(Run run) except -1
cdef int release_rows(Run run) except -1
cdef bint may_see_others(Run run) except -1
cdef int see_series(Run run) except -1
cdef int forget_series(Run run) except -1
