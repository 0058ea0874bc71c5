"""The work of a fused operation, described for code that repeats it."""

FUSED_LAYOUT: tuple[int, int, int, int, int, int, int]

def read_fused(described: bytes) -> tuple[int, tuple[int, ...]]:
    """Return the number of rows, the rows of a block, and the width of each register: negative for a single row for
    all.
    """
