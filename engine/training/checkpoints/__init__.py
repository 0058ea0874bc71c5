"""Checkpoints: files of a session's state between steps, written while training continues.

See docs/design/0031-queues-and-checkpoints.md.
"""

from .checkpointer import Checkpointer
from .records import CheckpointStatistics, Mismatch, Restored
from .saving import Saving

__all__ = ["CheckpointStatistics", "Checkpointer", "Mismatch", "Restored", "Saving"]
