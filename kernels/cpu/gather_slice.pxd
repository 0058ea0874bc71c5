"""Parts of an array: elements by index, and what ``tensor[...]`` means."""

from libc.stdint cimport int64_t

from tagflow.kernels.core.table cimport Native

cdef Native find_gather(dict attrs, list inputs, list outputs, int64_t* params)
cdef Native find_slice(dict attrs, list outputs, int64_t* params, list kept) except *
