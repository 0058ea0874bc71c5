"""Products of matrices."""

def limit_vectors(bits: int) -> int:
    """Compute with vectors of at most so many bits, for tests; return how many they have now, 0 for BLAS alone."""
