"""Registry of the operations with a C kernel, or with an inner loop of our own."""

def registered_types() -> frozenset[str]:
    """Return the types of all operations with a C kernel or a loop of our own for some of their dtypes."""

def values_read(type: str) -> tuple[int, ...] | None:
    """Return the inputs read by a C kernel before its work is left; None if they depend on more than the type."""
