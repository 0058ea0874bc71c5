"""Kernels that only move elements: concat, split, stack, transpose."""

from tagflow.kernels.core.table cimport Native

cdef Native find_concat(dict attrs, list inputs, list outputs)
cdef Native find_split(dict attrs, list inputs, list outputs)
cdef Native find_transpose(dict attrs, list inputs, list outputs)
cdef bint are_plain(list dtypes)
