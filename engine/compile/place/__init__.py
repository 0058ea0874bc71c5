"""Layer 4: a device for each operation of a lowered program."""

from .placement import anywhere, place

__all__ = ["anywhere", "place"]
