"""Layer 4: which device each operation of a lowered program runs on."""

from .placement import anywhere, place

__all__ = ["anywhere", "place"]
