"""Specification of a queue: order, components of the elements, capacity."""

from __future__ import annotations

from dataclasses import dataclass, field

from .elements import ElementSpec
from .orders import FirstInFirstOut, InRing, Shuffled, SmallestFirst

ORDERS = ("fifo", "padding", "priority", "shuffle")


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """Order, elements and bounds of a queue; queues with one shared name need equal specifications (rule 130).

    Attributes
    ----------
    order : {'fifo', 'padding', 'priority', 'shuffle', 'staging'}
    elements : ElementSpec
    capacity : int
        Largest number of elements; negative for no bound.
    capacity_bytes : int
        Largest number of bytes; negative for no bound.
    min_after_dequeue : int
        Elements which stay in a shuffling queue until the queue is closed.
    seed : int
    kind : str
        Label used in error messages; empty for a label derived from the order.
    """

    order: str
    elements: ElementSpec
    capacity: int = -1
    capacity_bytes: int = -1
    min_after_dequeue: int = 0
    seed: int = field(default=0, compare=False)
    kind: str = ""

    @property
    def pads(self) -> bool:
        """True if a batch is padded to the largest of its elements."""
        return self.order == "padding"

    @property
    def what(self) -> str:
        """Label used in error messages."""
        return self.kind or ("staging area" if self.stages else "queue")

    @property
    def gathers(self) -> bool:
        """True if a waiting batch takes elements as they arrive.

        False for unbounded priority queues: every element has room, and smaller elements may still arrive.
        """
        return self.order != "priority" or self.capacity >= 0 or self.capacity_bytes >= 0

    @property
    def stages(self) -> bool:
        """True for a staging area."""
        return self.order == "staging"

    def make_order(self) -> FirstInFirstOut:
        """Return an empty container which returns elements in this order."""
        if self.order == "shuffle":
            return Shuffled(self.seed, self.min_after_dequeue)
        if self.order == "priority":
            return SmallestFirst()
        # A ring has places of one size in one block of memory: no padding, no other order, no count of bytes.
        fixed = self.order == "fifo" and self.capacity_bytes < 0 and self.elements.is_small
        return InRing(self.elements.make_ring(self.capacity)) if fixed else FirstInFirstOut()
