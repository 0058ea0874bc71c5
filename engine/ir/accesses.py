"""Ordered reads and writes: they run in the order of building, and a plain use of a variable becomes a read.

The rule `Ordered` of an operation type returns the key of the state accessed, such as ("variables", "w").

See docs/design/0021-effects-in-order.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .operation import Operation
from .region import Region
from .rules.ordering import Ordered
from .tensor import Tensor
from .traits import Effect

Key = tuple[str, str]  # the kind of state, and its name


def key_of(op: Operation) -> Key | None:
    """Return the key of the state read or written by an operation in the order of building; None if free."""
    ordered = op.rule(Ordered)
    return None if ordered is None else ordered.key(op)


def is_write(op: Operation) -> bool:
    """True if an operation has an effect other than reading."""
    return bool(op.definition.effects & ~Effect.READS)


def note_access(op: Operation) -> None:
    """Record a new operation of the user's graph: after a write, the next plain use reads anew."""
    key = key_of(op)
    if key is not None and is_write(op):
        _note_write(op.region, key)


def plain_read(region: Region, key: Key, make: Callable[[Region], Tensor]) -> Tensor:
    """Return the tensor for a plain use of a variable in a region.

    Parameters
    ----------
    region : Region
        A region still being built.
    key : tuple of str
        The key of the state read.
    make : callable
        ``make(region)`` appends a read to a region; called when no read may be shared.
    """
    home = _region_of_shared_read(region, key)
    reads = home.reads.setdefault(key, [])
    # One read serves all plain uses up to the next write: their values are equal.
    if not reads:
        reads.append(make(home))
    return reads[0]


def _region_of_shared_read(region: Region, key: Key) -> Region:
    """Return the region whose read a plain use shares: a loop's, as a write may follow there, or the graph's."""
    while region.parent is not None and not (key in region.reads or key in region.written or region.params):
        region = region.parent
    return region


def close_branches(parent: Region, branches: Iterable[Region]) -> None:
    """Record the finished branches of a Cond: their writes count as writes of the Cond in `parent`."""
    for branch in branches:
        for key in branch.written:
            _note_write(parent, key)


def close_loop(parent: Region, cond: Region, body: Region) -> None:
    """Record the finished regions of a While; plain reads of state written in neither region move before the While."""
    written = cond.written | body.written
    # A read was built in the loop because a later operation of the body might have written its key; now
    # that no write followed, one read before the loop serves all iterations.
    for region in (cond, body):
        moving = {t.op: key for key, reads in region.reads.items() if key not in written for t in reads}
        region.operations = [op for op in region.operations if op not in moving]
        for op, key in moving.items():
            op.region = _region_of_shared_read(parent, key)
            op.region.operations.append(op)
            op.region.reads.setdefault(key, []).append(op.outputs[0])
    for key in written:
        _note_write(parent, key)


def _note_write(region: Region, key: Key) -> None:
    # Only this region's shared read is dropped: operations built before the write keep the older value.
    region.written.add(key)
    region.reads.pop(key, None)
