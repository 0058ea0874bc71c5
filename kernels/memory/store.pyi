"""Blocks of array data, kept when freed."""

def block_counts() -> dict[str, int]:
    """Return how many pools and blocks in use the process has now."""
