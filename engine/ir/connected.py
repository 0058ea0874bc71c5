"""Connected sets of operations of a region that can run at one go: no way between two of one set leaves it.

Passes that make sets of operations one operation say which may be in a set, and what those of one set have in common.
Each operation has a level, which grows along every way that leaves a set (`ConnectedSets._levels`), so a connected set
of one kind and level waits for nothing that it makes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .operation import Operation
from .topological import Captured, captures


class ConnectedSets:
    """The sets of operations of one region.

    Parameters
    ----------
    operations : list of Operation
        Of the region, in order.
    members : set of Operation
        Those that may be in a set.
    captured : dict
        What regions use from outside, as far as that is known.
    """

    def __init__(self, operations: list[Operation], members: set[Operation], captured: Captured) -> None:
        self.operations = operations
        self.members = members
        self.captured = captured
        self.levels = self._levels()
        self.leader: dict[Operation, Operation] = {}

    def kind(self, op: Operation) -> Any:
        """Return what operations of one set have in common and may change along a way and back."""
        raise NotImplementedError

    def key(self, op: Operation) -> Any:
        """Return what they have in common besides, which along a way only ever grows."""
        raise NotImplementedError

    def reads(self, op: Operation) -> Iterable[Operation]:
        """Return the operations whose results a member computes with."""
        raise NotImplementedError

    def sources(self, op: Operation) -> Iterable[Operation]:
        """Return what an operation, or what is in its regions, waits for."""
        yield from (t.op for t in op.inputs)
        yield from op.control_inputs
        if op.regions:
            yield from captures(op, self.captured)

    def sets(self) -> list[list[Operation]]:
        """Return the sets, each in the order of the region."""
        for op in self.operations:
            if op in self.members:
                self._connect(op)
        found: dict[Operation, list[Operation]] = {}
        for op in self.operations:
            if op in self.members:
                found.setdefault(self._find(op), []).append(op)
        return list(found.values())

    def _levels(self) -> dict[Operation, int]:
        """Return a level for each operation, such that no way between two of one kind and level leaves them.

        The invariant of both passes: ``level(op) >= level(source) + rise(source, op)`` for every source of every
        operation. Levels never fall along a way, and entering an operation that is no member, or a member of another
        kind, raises them. So a way from a set that comes back to it would have to come back to a lower level: there is
        none, and the set can run at one go.

        The first pass, in the region's order, gives the lowest levels: how early each operation could run. By these a
        product with a number that only feeds the last layer would be in the first level, apart from what reads it.
        The second pass, from the last operation to the first, raises members to the level of the members that read
        them. It keeps the invariant: the readers of an operation have their final level when its turn comes,
        ``highest`` is what all of them allow, and raising an operation takes nothing from its own sources. What is
        behind the back edges of hand-made loops, where a source comes after its reader, is no member.
        """
        levels: dict[Operation, int] = {}
        for op in self.operations:
            least = [levels.get(source, 0) + self._rise(source, op) for source in self.sources(op)]
            levels[op] = max(least, default=int(op not in self.members))
        last = max(levels.values(), default=0)
        highest: dict[Operation, int] = {}
        read_by_members: set[Operation] = set()
        for op in reversed(self.operations):
            # A member that no member reads is the end of its set, and stays with what it reads.
            if op in read_by_members:
                levels[op] = highest[op]
            # An assignment whose value nobody reads must not hold back what it reads: a moment of Adam is read by the
            # update, which may be levels above, and only what ends the step waits for both.
            elif op not in self.members and not any(t._consumers for t in op.outputs):
                levels[op] = highest.get(op, last)
            for source in self.sources(op):
                bound = levels[op] - self._rise(source, op)
                highest[source] = min(highest.get(source, bound), bound)
                if op in self.members and source in self.members:
                    read_by_members.add(source)
        return levels

    def _rise(self, source: Operation, op: Operation) -> bool:
        """Whether an operation is a level above one it waits for: it is no member, or a member of another kind."""
        return op not in self.members or (source in self.members and self.kind(source) != self.kind(op))

    def _connect(self, op: Operation) -> None:
        mine = self._key(op)
        for source in self.members.intersection(self.reads(op)):
            if self._key(source) == mine:
                self.leader[self._find(source)] = self._find(op)

    def _find(self, op: Operation) -> Operation:
        """Return the leader of a set; each look shortens the way to it (path halving), so that chains stay cheap."""
        leader = self.leader
        while (above := leader.get(op, op)) is not op:
            leader[op] = op = leader.get(above, above)
        return op

    def _key(self, op: Operation) -> Any:
        return self.levels[op], self.kind(op), self.key(op)
