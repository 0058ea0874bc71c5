"""Products of matrices."""

def is_own_product(terms: int) -> bool:
    """Say whether a product whose elements are sums of so many terms is computed by vectors of our own, in one piece."""

def limit_vectors(bits: int) -> int:
    """Compute with vectors of at most so many bits, for tests; return how many they have now, 0 for BLAS alone."""
