"""Layer 4: a placed program cut into a program for each device, connected by channels only."""

from .cut import partition
from .drawing import to_dot
from .partitioned import Channel, Partitioned, to_text

__all__ = ["Channel", "Partitioned", "partition", "to_dot", "to_text"]
