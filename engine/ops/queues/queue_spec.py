"""What a queue is: its order, what it holds, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from .elements import ElementSpec
from .orders import FirstInFirstOut, InRing, Shuffled, SmallestFirst

ORDERS = ("fifo", "padding", "priority", "shuffle")


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """What a queue is; those of one shared name must agree (rule 130).

    Attributes
    ----------
    order : {'fifo', 'padding', 'priority', 'shuffle', 'staging'}
    elements : ElementSpec
    capacity : int
        Most elements; below 0 there is no bound.
    capacity_bytes : int
        Most bytes; below 0 there is no bound.
    min_after_dequeue : int
        Elements that stay in until the queue is closed, where it shuffles.
    seed : int
    kind : str
        What it is called in errors, unless it is named by its order.
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
        """Whether batches are padded to the largest of their elements."""
        return self.order == "padding"

    @property
    def what(self) -> str:
        """What it is called in errors."""
        return self.kind or ("staging area" if self.stages else "queue")

    @property
    def gathers(self) -> bool:
        """Whether a batch that waits takes what there is; not where all have room, and smaller ones may still come."""
        return self.order != "priority" or self.capacity >= 0 or self.capacity_bytes >= 0

    @property
    def stages(self) -> bool:
        """Whether it is a staging area."""
        return self.order == "staging"

    def make_order(self) -> FirstInFirstOut:
        """Return what gives elements in this order."""
        if self.order == "shuffle":
            return Shuffled(self.seed, self.min_after_dequeue)
        if self.order == "priority":
            return SmallestFirst()
        fixed = self.order == "fifo" and self.capacity_bytes < 0 and self.elements.is_small
        return InRing(self.elements.make_ring(self.capacity)) if fixed else FirstInFirstOut()
