"""Registry of the operations that have a C kernel, or an inner loop of our own."""

def registered_types() -> frozenset[str]:
    """Return the types of all operations that may have a C kernel or a loop of our own."""

def values_read(type: str) -> tuple[int, ...] | None:
    """Return the inputs that a C kernel reads before it leaves its work; None if they depend on more than the type."""
