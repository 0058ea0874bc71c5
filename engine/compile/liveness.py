"""Liveness of tensors of the user's graph, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..base import nest
from ..base.errors import GraphError
from ..deadness.analysis import analyse
from ..deadness.predicates import Predicate
from ..ir.entry import public
from ..ir.frames import assign_frames
from ..ir.operation import Operation
from ..ir.program import Program, copy_program, needed
from ..ir.tensor import Tensor
from ..ir.topological import topological_order
from .lower.lowering import lower


@public
def liveness(tensors: Any) -> Any:
    """Return the predicate under which a tensor is alive, in terms of the deciding tensors.

    An output that `switch` did not choose is dead, and so are results computed from it; `cond` and `while_loop` consist
    of switches. The predicate is found without running the graph. Tensors with equal predicates are alive and dead
    together; tensors with different predicates may be as well, since comparing formulas is NP-complete.

    Parameters
    ----------
    tensors : Tensor or nested structure of Tensors
        Of one graph; tensors inside a branch or a loop as well.

    Returns
    -------
    str or structure of str
        With these parts:

        ``#true``, ``#false``
            The tensor is always alive, or never.
        ``*p:0``
            The bool tensor ``p:0`` is alive and true; ``(p:0=1)``: an integer is alive and equal to 1.
        ``~A``, ``(A & B)``, ``(A | B)``
            Not A; A and B; A or B.
        ``{A,&,B}<frame>``
            In an iteration of this frame's loop: A held when the loop began, and B in all earlier iterations. Outer
            frames follow inner ones, ``<inner;outer>``.
        ``name`` or ``name:0``
            This operation is alive, on conditions unknown here: it receives from another device, reads a value saved by
            a branch, or closes a loop unlike those of `while_loop`.

    Raises
    ------
    GraphError
        If `tensors` holds other objects than tensors of one graph, or a loop is still being built.

    Notes
    -----
    The rules are numbers 132 to 138 of the semantics: the rules of TensorFlow's deadness analysis, by which TensorFlow
    chooses operations to compile together.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     p, x = tg.placeholder("bool", [], "p"), tg.placeholder("float32", [], "x")
    ...     untrue, true = tg.switch(x, p)
    ...     merged, _ = tg.merge([tg.negative(untrue), true])
    >>> tg.liveness([x, untrue, true, merged])
    ['#true', '~*p:0', '*p:0', '#true']
    """
    leaves = nest.flatten(tensors)
    for leaf in leaves:
        _refuse_foreign_tensors(leaf, leaves[0])
    predicates = _collect_predicates(list(dict.fromkeys(leaves)))
    return nest.map_structure(lambda tensor: str(predicates[tensor]), tensors)


def _refuse_foreign_tensors(leaf: Any, first: Any) -> None:
    """Refuse objects other than tensors of the first tensor's graph, and tensors of unfinished regions."""
    if not isinstance(leaf, Tensor) or leaf.graph is not first.graph:
        raise GraphError(
            "liveness is of tensors of one graph",
            wanted="a Tensor, or tensors of one graph",
            got=leaf,
            hint="give tensors that operations returned; for an operation, one of its outputs",
        )
    for region in leaf.region.ancestors():
        if region.owner is None and region.parent is not None:
            raise GraphError(
                f"{leaf.name} is in a {region.role} that is still being built",
                wanted="a tensor of a cond or while_loop that is complete",
                operation=leaf.op,
                hint="call liveness after it",
            )


def _collect_predicates(tensors: Sequence[Tensor]) -> dict[Tensor, Predicate]:
    """Return the predicates of tensors of the same graph."""
    if not tensors:
        return {}
    graph = tensors[0].graph
    outside = [t for t in tensors if t.region is graph.root]
    inside = [t for t in tensors if t.region is not graph.root]
    # Targets, so that the copy keeps their regions.
    owners = dict.fromkeys(owner for t in inside for owner in _enclosing_structures(t))
    # Each tensor in a region gets a Watch there, by which it is identified in the lowered program.
    program = lower(copy_program(Program(graph, (), outside, list(owners), inside)))
    operations = topological_order(needed(program))
    predicates = analyse(operations, assign_frames(operations))
    watches = {op.attrs["key"]: op.inputs[0] for op in program.targets if "key" in op.attrs}
    lowered = dict(zip(outside, program.fetches, strict=True)) | {t: watches[t.name] for t in inside}
    return {tensor: predicates[counterpart] for tensor, counterpart in lowered.items()}


def _enclosing_structures(tensor: Tensor) -> Iterator[Operation]:
    """Yield the Conds and Whiles around a tensor."""
    for region in tensor.region.ancestors():
        if region.owner is not None:
            yield region.owner
