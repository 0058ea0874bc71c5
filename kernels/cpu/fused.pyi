"""Several elementwise operations as one kernel."""

FUSED_LAYOUT: tuple[int, int, int, int, int, int, int]

def read_fused(described: bytes) -> tuple[int, tuple[int, ...]]:
    """Return the number of rows, and the width of each register: less than 0 of one row that stands for all."""
