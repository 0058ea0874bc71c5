"""What all kernels stand on: values, the tables of a plan, frames, conversion, cost; no memory pool, no numerics."""
