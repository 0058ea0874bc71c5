"""Checkpoints: files of what a session keeps from step to step, written while it goes on.

See docs/design/0031-queues-and-checkpoints.md.
"""

from .checkpointer import Checkpointer
from .records import CheckpointStatistics, Mismatch, Restored
from .saving import Saving

__all__ = ["CheckpointStatistics", "Checkpointer", "Mismatch", "Restored", "Saving"]
