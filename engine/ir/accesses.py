"""Reads and writes that happen in the order in which they were built, and where a plain use of a variable reads it.

An operation type says by ``define(ordered=)`` what its operations have to do with: a key, as ("variables", "w").

See docs/design/0021-effects-in-order.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .operation import Operation
from .region import Region
from .tensor import Tensor
from .traits import Effect

Key = tuple[str, str]  # the kind, and the name of one of that kind


def key_of(op: Operation) -> Key | None:
    """Return what an operation reads or writes in the order of building; None if it is free."""
    ordered = op.definition.ordered
    return None if ordered is None else ordered(op)


def is_write(op: Operation) -> bool:
    """Whether an operation does more than read."""
    return bool(op.definition.effects & ~Effect.READS)


def note_access(op: Operation) -> None:
    """Note a new operation of the user's graph: a plain use behind a write reads anew."""
    key = key_of(op)
    if key is not None and is_write(op):
        _note_write(op.region, key)


def plain_read(region: Region, key: Key, make: Callable[[Region], Tensor]) -> Tensor:
    """Return the value that a plain use in a region stands for.

    Parameters
    ----------
    region : Region
        Still being built.
    key : tuple of str
        What is read.
    make : callable
        ``make(region)`` appends a read to a region, if there is none that may be shared.
    """
    home = _home(region, key)
    reads = home.reads.setdefault(key, [])
    if not reads:
        reads.append(make(home))
    return reads[0]


def _home(region: Region, key: Key) -> Region:
    """Return the region whose read a plain use shares: a loop's, as a write may follow there, or the graph's."""
    while region.parent is not None and not (key in region.reads or key in region.written or region.params):
        region = region.parent
    return region


def close_branches(parent: Region, branches: Iterable[Region]) -> None:
    """Note that the branches of a Cond are built: what they write, it writes where it stands."""
    for branch in branches:
        for key in branch.written:
            _note_write(parent, key)


def close_loop(parent: Region, cond: Region, body: Region) -> None:
    """Note that predicate and body of a While are built; plain reads of what neither writes move in front of it."""
    written = cond.written | body.written
    for region in (cond, body):
        moving = {t.op: key for key, reads in region.reads.items() if key not in written for t in reads}
        region.operations = [op for op in region.operations if op not in moving]
        for op, key in moving.items():
            op.region = _home(parent, key)
            op.region.operations.append(op)
            op.region.reads.setdefault(key, []).append(op.outputs[0])
    for key in written:
        _note_write(parent, key)


def _note_write(region: Region, key: Key) -> None:
    region.written.add(key)
    region.reads.pop(key, None)
