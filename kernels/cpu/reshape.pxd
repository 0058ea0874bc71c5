"""Shapes: reading them, giving an array another, filling one."""

from libc.stdint cimport int64_t

from tagflow.kernels.core.table cimport Native

cdef Native find_shaping(str type, dict attrs, list outputs, int64_t* params) except *
