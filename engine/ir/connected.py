"""Connected sets of operations in a region, each of which can run as a unit: no path leaves a set and returns.

Passes define which operations may be fused into a set, and which properties the members share. Each operation has a
level, growing along every path leaving a set (`ConnectedSets._find_levels`), so a connected set of equal kind and level
never waits for its own results.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .operation import Operation
from .topological import Captured, captures


class ConnectedSets:
    """The fusible sets of operations of a region.

    Parameters
    ----------
    operations : list of Operation
        Operations of the region, in order.
    members : set of Operation
        Candidates for membership in a set.
    captured : dict
        Outside operations used by the regions of each operation, as a growing cache.
    """

    def __init__(self, operations: list[Operation], members: set[Operation], captured: Captured) -> None:
        self.operations = operations
        self.members = members
        self.captured = captured
        self.levels = self._find_levels()
        self.leader: dict[Operation, Operation] = {}

    def kind(self, op: Operation) -> Any:
        """Return the set's shared property which may change along a path and back; a change raises the level."""
        raise NotImplementedError

    def key(self, op: Operation) -> Any:
        """Return the set's shared property which only grows along a path, and so needs no level."""
        raise NotImplementedError

    def reads(self, op: Operation) -> Iterable[Operation]:
        """Return the operations whose results a member computes with."""
        raise NotImplementedError

    def sources(self, op: Operation) -> Iterable[Operation]:
        """Return the operations awaited by an operation, or by operations inside its regions."""
        yield from (t.op for t in op.inputs)
        yield from op.control_inputs
        if op.regions:
            yield from captures(op, self.captured)

    def sets(self) -> list[list[Operation]]:
        """Return the sets, each in the order of the region."""
        for op in self.operations:
            if op in self.members:
                self._connect_to_sources(op)
        found: dict[Operation, list[Operation]] = {}
        for op in self.operations:
            if op in self.members:
                found.setdefault(self._find_leader(op), []).append(op)
        return list(found.values())

    def _find_levels(self) -> dict[Operation, int]:
        """Return a level for each operation; no path between two of equal kind and level leaves this level.

        The invariant of both passes: ``level(op) >= level(source) + rise(source, op)`` for every source of every
        operation. Levels never fall along a path, and entering a non-member, or a member of another
        kind, raises them. A path leaving a set could only return at a higher level, so none returns, and the set
        can run as a unit.

        The first pass, in the region's order, computes the lowest levels: how early each operation could run. Alone
        they would put a product with a number feeding only the last layer into the first level, apart from its
        reader. The second pass, from the last operation to the first, raises members to the level of the members
        reading them. The invariant still holds: the readers of an operation have their final level when its turn comes,
        ``highest`` is the bound allowed by all of them, and raising an operation takes nothing from its own sources.
        Operations reached by the back edges of hand-made loops, where a source comes after its reader, are no members.
        """
        levels: dict[Operation, int] = {}
        for op in self.operations:
            least = [levels.get(source, 0) + self._rises_level(source, op) for source in self.sources(op)]
            levels[op] = max(least, default=int(op not in self.members))
        last = max(levels.values(), default=0)
        highest: dict[Operation, int] = {}
        read_by_members: set[Operation] = set()
        for op in reversed(self.operations):
            # A member without member readers is the end of its set, and stays with its sources.
            if op in read_by_members:
                levels[op] = highest[op]
            # An assignment with an unread value must not hold back its sources: a moment of Adam is read by the
            # update, which may be levels above, and only the end of the step waits for both.
            elif op not in self.members and not any(t._consumers for t in op.outputs):
                levels[op] = highest.get(op, last)
            for source in self.sources(op):
                bound = levels[op] - self._rises_level(source, op)
                highest[source] = min(highest.get(source, bound), bound)
                if op in self.members and source in self.members:
                    read_by_members.add(source)
        return levels

    def _rises_level(self, source: Operation, op: Operation) -> bool:
        """True if an operation is a level above a source: no member, or a member of another kind."""
        return op not in self.members or (source in self.members and self.kind(source) != self.kind(op))

    def _connect_to_sources(self, op: Operation) -> None:
        mine = self._full_key(op)
        for source in self.members.intersection(self.reads(op)):
            if self._full_key(source) == mine:
                self.leader[self._find_leader(source)] = self._find_leader(op)

    def _find_leader(self, op: Operation) -> Operation:
        """Return the leader of a set; each look-up halves the path to the leader, which keeps chains cheap."""
        leader = self.leader
        while (above := leader.get(op, op)) is not op:
            leader[op] = op = leader.get(above, above)
        return op

    def _full_key(self, op: Operation) -> Any:
        return self.levels[op], self.kind(op), self.key(op)
