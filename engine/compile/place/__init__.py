"""Layer 4: which device each operation of a lowered program runs on."""

from .placement import on_cpu, place

__all__ = ["on_cpu", "place"]
