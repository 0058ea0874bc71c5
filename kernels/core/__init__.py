"""Foundations of all kernels: values, plan tables, frames, conversion, cost; no memory pool, no numerics."""
