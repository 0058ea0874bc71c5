"""What is sure to have happened before what, in a program that reads and assigns variables.

A touch is a read or an assignment. Whoever reads a variable has to come after the assignment before, whoever assigns
it after the reads since as well; so a program means the same whatever runs first of what may. A name comes after
the touches that its statement waits for, by arguments or by ``after``. A Cond or a While that touches variables is a
touch as a whole: one of its names, the token, comes after all touches inside.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

Names = frozenset[str]
NONE: Names = frozenset()


@dataclass
class Order:
    """What is known in one block.

    Attributes
    ----------
    behind : dict of str to set of str
        The touches that a name comes after; all blocks share it, as names differ.
    given : set of str
        What all touches of this block come after.
    assigned : dict of str to str
        The last assignment of each variable, if there was one.
    reads : dict of str to tuple of str
        The reads since.
    touched : set of str
        The variables that this block touched.
    """

    behind: dict[str, Names] = field(default_factory=dict)
    given: Names = NONE
    assigned: dict[str, str] = field(default_factory=dict)
    reads: dict[str, tuple[str, ...]] = field(default_factory=dict)
    touched: Names = NONE

    def inner(self, given: Names = NONE) -> Order:
        """Return the order at the start of a branch."""
        return replace(
            self, given=self.given | given, assigned=dict(self.assigned), reads=dict(self.reads), touched=NONE
        )

    def iteration(self, token: str, variables: Iterable[str]) -> Order:
        """Return the order at the start of an iteration, where `token` comes after the one before."""
        order = self.inner()
        order.assigned, order.reads = dict.fromkeys(variables, token), {}
        if order.assigned:
            self.behind[token] = frozenset([token])
        return order

    def body(self, params: Iterable[str], test: str) -> Order:
        """Return the order at the start of a loop's body, which comes after the `test` of its predicate."""
        for param in params:
            self.behind[param] = self.of([param, test])
        return replace(self.inner(self.of([test])), touched=self.touched)

    def follow(self, name: str, names: Iterable[str]) -> None:
        """Note that a name comes after others."""
        self.behind[name] = self.of(names)

    def of(self, names: Iterable[str]) -> Names:
        """Return the touches that names come after, between them."""
        return NONE.union(*(self.behind.get(name, NONE) for name in names))

    def pending(self, variables: Iterable[str], reading: bool = False) -> Names:
        """Return the touches that the next one of these variables has to come after."""
        found = {self.assigned[v] for v in variables if v in self.assigned}
        return frozenset(found if reading else found.union(*(self.reads.get(v, ()) for v in variables)))

    def missing(self, touches: Names, names: Iterable[str]) -> list[str]:
        """Return those of the touches that a touch with these arguments would not come after."""
        return sorted(touches - self.given - self.of(names))

    def touch(self, name: str, variables: Iterable[str], names: Iterable[str], reading: bool = False) -> None:
        """Note a touch that comes after `names`."""
        self.behind[name] = self.of(names) | self.given | {name}
        for variable in variables:
            if reading:
                self.reads[variable] = (*self.reads.get(variable, ()), name)
            else:
                self.assigned[variable] = name
                self.reads.pop(variable, None)
        self.touched |= frozenset(variables)
