"""Runs of native programs."""

def limit_values(size: int) -> None:
    """See rows of more bytes than this where they lie, and keep no more in a value of compiled code; for tests."""
