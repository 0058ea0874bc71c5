"""Passes of outside packages: their registration at a place of the pipeline, and the rewriting of single operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..base.errors import GraphError, TagloomError
from ..base.registrations import Registration
from ..ir.builder import Builder
from ..ir.operation import Operation
from ..ir.program import Program, copy_program
from ..ir.substitute import substitute
from ..ir.tensor import Tensor
from ..ir.traits import Role
from ..ir.verify import check
from ..streams.kinds import find_kind, kind_names
from .passes import REGISTERED, Pass, PlacedPass, with_registered
from .pipeline import PIPELINE
from .target import Target

# From here on a pass changes a copy, never the user's graph, and the form of the step is a Program.
_FIRST, _LAST = "prune", "place"


def register_pass(
    name: str,
    run: Callable[[Program], Program],
    *,
    after: str | None = None,
    before: str | None = None,
    device_kind: str | None = None,
    about_loops: bool = False,
) -> Registration:
    """Register a compiler pass at a place of the pipeline, for all steps compiled from now on.

    The pass is a row of the pipeline as any other: :attr:`Settings.dump` prints the program after it,
    ``Settings().without(name)`` leaves it out, and errors list it. The program is checked after it, whatever
    ``Settings.check_passes`` says. The registration holds for the whole process until it is taken back.

    Parameters
    ----------
    name : str
        A Python identifier that no other pass has.
    run : callable
        ``run(program)`` returns the next form of the program and may change its argument; :func:`rewrite` serves passes
        that replace single operations. It may be called in several threads at once.
    after, before : str
        Name of the row that the pass follows or precedes; exactly one of the two. The rows are listed in
        ``tagloom info --passes``; places from after "prune" to before "place" are allowed. Up to "lower" loops and
        branches are operations with regions, afterwards primitives.
    device_kind : str, optional
        Run the pass only for steps of sessions with a device of this kind.
    about_loops : bool, optional
        True if the pass relies on the operations of a loop running in each of its iterations; it is then left out
        where a loop is made of primitives by hand.

    Returns
    -------
    Registration

    Raises
    ------
    GraphError
        If the name is taken or no identifier, there is no such row, no pass may stand there, or there is no such device
        kind. Compiling raises GraphError, which names the registering line, if `run` fails or returns an illegal
        program.

    Examples
    --------
    >>> import tagloom as tg
    >>> from tagloom import operations
    >>> def double(op, builder):
    ...     return builder.emit("Add", op.inputs[0], op.inputs[0]).outputs if op.type == "MyDouble" else None
    >>> with operations.register_pass("my_doubles", lambda p: operations.rewrite(p, double), before="fuse"):
    ...     tg.Settings().without("my_doubles").passes_off
    ('my_doubles',)
    """
    rows = with_registered(PIPELINE)
    names = [row.name for row in rows]
    _check_name(name, names)
    if not callable(run):
        raise GraphError(
            f"the pass {name} cannot be called",
            wanted="a function run(program)",
            got=repr(run),
            hint="pass the function itself, not its result",
        )
    anchor = _check_place(name, after, before, names)
    kind = None if device_kind is None else check_kind(device_kind, f"the pass {name}")
    # A pass between two rows sees the form that the row before it leaves.
    previous = rows[names.index(anchor) - (before is not None)]
    what = f"the pass {name}"
    row = Pass(
        name,
        partial(_run_registered, name, run, previous.stage),
        previous.stage,
        when=None if kind is None else partial(_has_kind, kind),
        about_loops=about_loops,
        is_registered=True,
    )
    return REGISTERED.add(name, PlacedPass(row, anchor, after is not None), what, partial(_check_not_anchor, name))


def rewrite(
    program: Program, replace: Callable[[Operation, Builder], Sequence[Tensor] | None], unless_fetched: bool = False
) -> Program:
    """Replace operations of a program, for passes.

    Parameters
    ----------
    program : Program
        Changed in place.
    replace : callable
        ``replace(op, builder)`` is called for each computation, also in loop bodies and branches. It returns a tensor
        for each output of the operation, of the output's dtype and computed by operations that
        ``builder.emit(type, *tensors, **attrs)`` appends or by earlier operations; or None to leave the operation
        alone.
        Operations with control inputs, and operations that others name as control inputs, are not offered.
    unless_fetched : bool, optional
        True to leave out operations whose results the step returns.

    Returns
    -------
    Program

    Raises
    ------
    GraphError
        If `replace` returns another number of tensors, or another dtype.

    Examples
    --------
    A pass that computes ``x - x`` as zeros:

    >>> from tagloom import operations
    >>> def replace_difference(op, builder):
    ...     if op.type == "Sub" and op.inputs[0] is op.inputs[1]:
    ...         return builder.emit("ZerosLike", op.inputs[0]).outputs
    >>> pass_ = operations.register_pass(
    ...     "differences", lambda program: operations.rewrite(program, replace_difference), after="merge"
    ... )
    >>> pass_.unregister()
    """
    operations = list(program.graph.root.walk())
    pinned = {c for op in operations for c in op.control_inputs} | set(program.targets)
    fetched = {t.op for t in program.fetches} if unless_fetched else set()
    moved: dict[Tensor, Tensor] = {}
    for op in operations:
        if not _is_computation(op) or op.control_inputs or op in pinned or op in fetched:
            continue
        outputs = replace(op, Builder(op.region, op))
        if outputs is not None:
            moved.update(_pair_outputs(op, list(outputs)))
    if not moved:
        return program
    # Replacements may read results that are replaced themselves.
    substitute(program, {old: _final_replacement(old, moved) for old in moved})
    return copy_program(program)


def _is_computation(op: Operation) -> bool:
    """Return True for operations with a kernel, and copies: not for feeds, constants, loops and primitives."""
    return op.definition.kernel is not None or op.role is Role.IDENTITY


def _final_replacement(tensor: Tensor, moved: dict[Tensor, Tensor]) -> Tensor:
    """Follow replacements to the last tensor; GraphError if they lead back to the first."""
    last = moved[tensor]
    while last in moved:
        last = moved[last]
        if last is tensor:
            raise GraphError(
                "a pass replaces operations by each other's results",
                wanted="replacements that lead to tensors which stay",
                got=f"{tensor.name} for itself",
                operation=tensor.op,
                hint="return None for one of them",
            )
    return last


def _pair_outputs(op: Operation, outputs: list[Any]) -> dict[Tensor, Tensor]:
    """Return the replacement of each output; GraphError for other numbers or dtypes."""
    wanted = [t.dtype.name for t in op.outputs]
    got = [t.dtype.name if isinstance(t, Tensor) else repr(t) for t in outputs]
    if wanted != got:
        raise GraphError(
            "a pass replaces an operation by other results than it has",
            wanted=f"tensors of {', '.join(wanted) or 'no dtype'}",
            got=", ".join(got) or "none",
            operation=op,
            hint="return a tensor for each output, such as builder.emit(...).outputs",
        )
    for old, new in zip(op.outputs, outputs, strict=True):
        # The static shape that later passes read is the better of both.
        if new.shape.is_compatible_with(old.shape):
            new.shape = new.shape.merge(old.shape)
    return dict(zip(op.outputs, outputs, strict=True))


def _run_registered(
    name: str, run: Callable[[Program], Program], stage: str, program: Program, target: Target
) -> Program:
    """Run a registered pass and check its result by the stage's rules; errors name the line of its registration."""
    try:
        result = run(program)
        if isinstance(result, Program):
            check(result.graph, stage)
    except TagloomError as error:
        details = [f"{label} {value}" for label, value in (("wanted", error.wanted), ("got", error.got)) if value]
        raise _failed(name, "; ".join([error.what, *details]), error.operation) from error
    except Exception as error:
        raise _failed(name, f"{type(error).__name__}: {error}") from error
    if not isinstance(result, Program):
        raise _failed(name, f"it returned {type(result).__name__}")
    return result


def _failed(name: str, got: str, operation: Any = None) -> GraphError:
    return GraphError(
        f"the pass {name}, registered at {REGISTERED.source_of(name)}, failed",
        wanted="a Program, the next form of its argument",
        got=got,
        operation=operation,
        hint=f"Settings().without({name!r}) leaves the pass out",
    )


def _check_name(name: str, names: Sequence[str]) -> None:
    """Refuse a name that is no identifier or belongs to another row."""
    if not isinstance(name, str) or not name.isidentifier() or name == "all":
        raise GraphError(
            "not the name of a pass",
            wanted="an identifier other than 'all'",
            got=repr(name),
            hint="name the pass after its effect, with the name of your package before it",
        )
    if name in names:
        line = REGISTERED.source_of(name)
        raise GraphError(
            f"there is a pass {name} already" + ("" if line is None else f", registered at {line}"),
            wanted="another name",
            got=name,
            hint="call unregister() on the earlier registration, or choose another name",
        )


def _check_place(name: str, after: str | None, before: str | None, names: list[str]) -> str:
    """Return the name of the row that a pass follows or precedes."""
    if (after is None) == (before is None):
        raise GraphError(
            f"the pass {name} needs a place",
            wanted="after= or before=, one of the two",
            got="both" if after is not None else "neither",
            hint=f"name one of the rows {', '.join(names)}",
        )
    anchor = after if after is not None else before
    if anchor not in names:
        raise GraphError(
            f"the pass {name} cannot be placed: there is no such row",
            wanted=", ".join(names),
            got=repr(anchor),
            hint="name one of these; the rows of other packages are there while they are registered",
        )
    number = names.index(anchor) + (after is not None)
    if not names.index(_FIRST) < number <= names.index(_LAST):
        raise GraphError(
            f"the pass {name} cannot be placed there",
            wanted=f"a place from after={_FIRST!r} to before={_LAST!r}",
            got=f"{'after' if after is not None else 'before'}={anchor!r}",
            hint="before, the program is the user's graph; afterwards it is cut by devices",
        )
    return anchor


def check_kind(kind: str, what: str) -> str:
    """Return the name of a registered device kind in capitals."""
    if not isinstance(kind, str) or find_kind(kind.upper()) is None:
        raise GraphError(
            f"{what} is for a device kind that is not registered",
            wanted=kind_names(),
            got=repr(kind),
            hint="call register_device_kind first",
        )
    return kind.upper()


def _has_kind(kind: str, target: Target) -> bool:
    return any(device.kernels.kind == kind for device in target.devices)


def _check_not_anchor(name: str) -> None:
    """Refuse to take back a pass that another pass follows or precedes."""
    for other, each in REGISTERED.entries.items():
        if each.anchor == name and other != name:
            raise GraphError(
                f"the pass {name} cannot be taken back: {other} is placed {'after' if each.is_after else 'before'} it",
                hint=f"take back {other} first",
            )
