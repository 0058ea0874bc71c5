"""What a node is, for Python too: ``Kind`` is the enum of ``table.pxd``. The tables themselves are C structs there."""

Kind.__doc__ = "What an executor does with a node; everything but KERNEL it does itself."
