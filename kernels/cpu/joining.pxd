"""Kernels that join what a loop has left, a row or some for each iteration."""

from tagflow.kernels.scheduler.table cimport Native

cdef Native find_join(str type, list outputs)
