"""Products of matrices."""

def vector_bits() -> int:
    """Return the bits of the vectors that products compute with, 0 where BLAS computes them."""

def limit_vectors(bits: int) -> int:
    """Compute with vectors of at most `bits` bits, for tests; return the bits of the vectors now, 0 for BLAS alone."""
