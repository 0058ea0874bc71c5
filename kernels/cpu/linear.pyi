"""Products of matrices."""

def vector_bits() -> int:
    """Return the bits of the vectors used by products, 0 where BLAS computes them."""

def is_own_product(terms: int) -> bool:
    """Return True if sums of `terms` terms are computed by vector instructions of our own, and in one piece."""

def has_equal_rows(terms: int, columns: int) -> bool:
    """Return True if a row of a product of floats has the same bits for any number of rows: not those of BLAS."""

def limit_vectors(bits: int) -> int:
    """Compute with vectors of at most `bits` bits, for tests; return the bits of the vectors now, 0 for BLAS alone."""
