"""Random draws by a key as steps."""

from libc.stdint cimport uint64_t

from tagloom.kernels.native.run cimport Run


cdef struct Philox:  # a generator of NumPy's name, with the same words
    uint64_t counter[4]
    uint64_t key[2]
    uint64_t words[4]  # of the last block
    int position  # of the next word in it
    bint has_half
    unsigned int half  # the upper half of a word, of which the lower one was drawn


cdef Philox* append_start(Run run, key, counter) except NULL
cdef int append_draw(Run run, Philox* philox, str kind, list parameters, output) except -1
