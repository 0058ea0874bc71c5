"""Control flow: the primitives of the dataflow machine and the structured Cond and While.

Switch, Merge, Enter, Exit and NextIteration are public: a program may close a loop by hand, as in the white
paper of 2016. ``cond`` and ``while_loop`` build Cond and While, which lowering turns into primitives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError, ShapeError
from ...base.settings import AUTO, WINDOW
from ...base.shapes import SCALAR, Shape
from ...ir.apply import apply
from ...ir.definition import OPTIONAL, REQUIRED, NotDifferentiable, define
from ...ir.entry import public
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...ir.traits import Role
from ..support.arguments import list_argument
from ..support.common import same_as, zeros_like

_ANY = {"T": dtypes.ALL}
_BY_EXECUTOR = None  # no kernel: the executors implement these operations
_HAND_MADE = "this is a piece of a hand-made loop; use while_loop, or cut the path with stop_gradient"


def _scalar_predicate(op: Operation, index: int) -> None:
    """Raise ShapeError unless input `index` is a scalar or of unknown rank."""
    predicate = op.inputs[index]
    if predicate.rank not in (0, None):
        raise ShapeError(
            "a predicate must be a scalar",
            wanted="[]",
            got=predicate.shape,
            operation=op,
            hint="use reduce_all or reduce_any",
        )


def _switch_shape(op: Operation) -> list[Shape]:
    _scalar_predicate(op, 1)
    return [op.inputs[0].shape] * len(op.outputs)


def _switch_gradient(op: Operation, *cotangents: Any) -> list[Any]:
    """Return the cotangent of the input of a Switch: a Merge of the cotangents of its outputs."""
    data, predicate = op.inputs
    if None in cotangents:
        # The Merge below needs a live input whichever side ran, also a side without a cotangent.
        zeros = zeros_like(data)
        cotangents = tuple(zeros if each is None else each for each in cotangents)
    # A cotangent may be live although its side is dead, for instance ones of a known shape: hence a Switch for each.
    sides = [apply(op.type, each, predicate, **op.own_attrs)[i] for i, each in enumerate(cotangents)]
    return [apply("Merge", sides)[0], None]


define(
    "Switch",
    "data: T, pred: host bool -> output_false: T, output_true: T",
    where=_ANY,
    attrs={"dead_silent": OPTIONAL},
    shape=_switch_shape,
    role=Role.SWITCH,
    kernel=_BY_EXECUTOR,
    gradient=_switch_gradient,
)


@public
def switch(data: Any, pred: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Send `data` to one of two outputs; operations on the other output are dead (Yu et al., 2018, section 4.1).

    In Python: ``(DEAD, data) if pred else (data, DEAD)``.

    Parameters
    ----------
    data : Tensor of any dtype and shape
    pred : Tensor of bool, scalar

    Returns
    -------
    tuple of Tensor
        Output 0 is live when `pred` is false, output 1 when `pred` is true.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.placeholder("float32", [])
    ...     small, large = tg.switch(x, x > 10.0)
    ...     y, _ = tg.merge([small * 2.0, large])
    >>> with tg.SyncSession(graph) as session:
    ...     [float(session.run(y, feeds={x: value})) for value in (3.0, 30.0)]
    [6.0, 30.0]
    """
    false, true = apply("Switch", data, pred, name=name)
    return false, true


define(
    "SwitchN",
    "data: T, index: host int32 -> outputs: num*T",
    where=_ANY,
    attrs={"num": REQUIRED, "dead_silent": OPTIONAL},
    shape=_switch_shape,
    role=Role.SWITCH_N,
    kernel=_BY_EXECUTOR,
    gradient=_switch_gradient,
)


def _merge_shape(op: Operation) -> list[Shape]:
    shape = op.inputs[0].shape
    # Any input may be the one that arrives: the result has only what all shapes have in common.
    for tensor in op.inputs[1:]:
        shape = shape.relax(tensor.shape)
    return [shape, SCALAR]


def _merge_gradient(op: Operation, g: Any, _: Any) -> list[Any]:
    if any(t.op.type == "NextIteration" for t in op.inputs):
        raise GraphError("no gradient through a hand-made loop", operation=op, hint=_HAND_MADE)
    # The index of the live input tells whose cotangent is live.
    return list(apply("SwitchN", g, op.outputs[1], num=len(op.inputs)))


define(
    "Merge",
    "inputs: *T -> output: T, value_index: host int32",
    where=_ANY,
    shape=_merge_shape,
    role=Role.MERGE,
    kernel=_BY_EXECUTOR,
    gradient=_merge_gradient,
)


@public
def merge(inputs: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Forward the first live input on its arrival; the output is dead only when all inputs are dead.

    Parameters
    ----------
    inputs : list of Tensor
        Same dtype.

    Returns
    -------
    output : Tensor
        The live input.
    value_index : Tensor of int32, scalar
        Index of the live input.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     small, large = tg.switch(tg.constant(30.0), tg.placeholder("bool", [], name="is_large"))
    ...     value, index = tg.merge([small * 2.0, large])
    >>> with tg.SyncSession(graph) as session:
    ...     [int(session.run(index, feeds={"is_large:0": each})) for each in (False, True)]
    [0, 1]
    """
    inputs = list_argument(inputs, "merge")
    if not inputs:
        raise GraphError("merge needs at least one input", wanted="one or more", got=inputs, hint="merge([a, b])")
    output, index = apply("Merge", inputs, name=name)
    return output, index


def _no_loop_gradient(op: Operation, *_: Any) -> list[Any]:
    raise GraphError("no gradient through a hand-made loop", operation=op, hint=_HAND_MADE)


def checked_window(given: Any) -> int | str:
    """Return a valid ``parallel_iterations``, an integer or "auto"; GraphError for other values."""
    # A comparison of an array with a string would be an array.
    if isinstance(given, str) and given == AUTO:
        return AUTO
    if not isinstance(given, (int, np.integer)) or given < 1:
        raise GraphError(
            "parallel_iterations must be a positive integer",
            got=repr(given),
            wanted="1 or more, or 'auto'",
            hint="1 runs one iteration after the other; the default is fine for most loops",
        )
    return int(given)


def _enter_shape(op: Operation) -> Shape:
    # A loop variable may change its shape from iteration to iteration, a loop invariant cannot.
    return op.inputs[0].shape if op.attrs["is_constant"] else Shape(None)


define(
    "Enter",
    "data: T -> output: T",
    where=_ANY,
    attrs={"frame_name": REQUIRED, "is_constant": False, "parallel_iterations": WINDOW},
    shape=_enter_shape,
    role=Role.ENTER,
    kernel=_BY_EXECUTOR,
    gradient=_no_loop_gradient,
)


@public
def enter(
    data: Any,
    frame_name: str,
    is_constant: bool = False,
    parallel_iterations: int | str = WINDOW,
    name: str | None = None,
) -> Tensor:
    """Bring a value into the loop frame `frame_name`, which the first Enter creates.

    Parameters
    ----------
    data : Tensor of any dtype and shape
    frame_name : str
        Not empty; part of the tag of everything inside.
    is_constant : bool
        True to deliver the value to every iteration (a loop invariant), False to iteration 0 alone.
    parallel_iterations : int or 'auto'
        Largest number of iterations alive at once, at least 1; "auto" for as many as memory allows.

    Returns
    -------
    Tensor
        The value, inside the frame.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     y = tg.exit(tg.enter(3.0, "square") * tg.enter(3.0, "square"))
    >>> with tg.SyncSession(graph) as session:
    ...     trace = tg.Trace()
    ...     float(session.run(y, trace=trace)), {span.path for span in trace.spans if span.type == "Mul"}
    (9.0, {'root/0/square'})
    """
    if not frame_name:
        raise GraphError("a frame needs a name", got=repr(frame_name), hint="give every loop its own name")
    return apply(
        "Enter",
        data,
        name=name,
        frame_name=frame_name,
        is_constant=is_constant,
        parallel_iterations=checked_window(parallel_iterations),
    )


for _type, _role in (("Exit", Role.EXIT), ("NextIteration", Role.NEXT_ITERATION)):
    define(
        _type,
        "data: T -> output: T",
        where=_ANY,
        role=_role,
        shape=same_as(0),
        kernel=_BY_EXECUTOR,
        gradient=_no_loop_gradient,
    )


@public
def exit(data: Any, name: str | None = None) -> Tensor:
    """Return a value from a loop frame to the frame around it, once.

    Parameters
    ----------
    data : Tensor of any dtype and shape

    Returns
    -------
    Tensor
        The value, in the parent frame and iteration.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     doubled = tg.enter(3.0, "frame") * tg.enter(2.0, "frame")
    ...     y = tg.exit(doubled) + 1.0
    >>> with tg.SyncSession(graph) as session:
    ...     float(session.run(y))
    7.0
    """
    return apply("Exit", data, name=name)


@public
def next_iteration(data: Any, name: str | None = None) -> Tensor:
    """Pass a value on to the next iteration; a dead value goes no further.

    Parameters
    ----------
    data : Tensor of any dtype and shape

    Returns
    -------
    Tensor
        The value, one iteration later.

    Examples
    --------
    A loop made by hand, which counts to 10:

    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     begin = tg.enter(0, "count")
    ...     one, ten = (tg.enter(k, "count", is_constant=True) for k in (1, 10))
    ...     i, _ = tg.merge([begin, begin])
    ...     done, body = tg.switch(i, tg.loop_cond(i < ten))
    ...     i.op.update_input(1, tg.next_iteration(body + one))
    ...     y = tg.exit(done)
    >>> with tg.SyncSession(graph) as session:
    ...     int(session.run(y))
    10
    """
    return apply("NextIteration", data, name=name)


def _loop_cond_shape(op: Operation) -> Shape:
    _scalar_predicate(op, 0)
    return SCALAR


define(
    "LoopCond",
    "pred: host bool -> output: host bool",
    shape=_loop_cond_shape,
    role=Role.LOOP_COND,
    kernel=_BY_EXECUTOR,
    gradient=NotDifferentiable("a predicate is not differentiable"),
)


@public
def loop_cond(pred: Any, name: str | None = None) -> Tensor:
    """Mark the predicate of a hand-made loop; forwards the predicate, and ends the loop when the step is cancelled.

    Parameters
    ----------
    pred : Tensor of bool, scalar

    Returns
    -------
    Tensor
        The predicate.

    Examples
    --------
    The example of `next_iteration` is a whole loop.

    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     i, ten = tg.enter(0, "count"), tg.enter(10, "count", is_constant=True)
    ...     done, body = tg.switch(i, tg.loop_cond(i < ten))
    >>> done.op.inputs[1].op
    <Operation LoopCond (LoopCond)>
    """
    return apply("LoopCond", pred, name=name)


define(
    "ControlTrigger",
    "->",
    shape=lambda op: [],
    role=Role.CONTROL_TRIGGER,
    kernel=_BY_EXECUTOR,
    gradient=NotDifferentiable("it has no value"),
)


@public
def control_trigger(name: str | None = None) -> Operation:
    """Return an operation which waits for its control inputs and is live even if they are dead.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     dead, live = tg.switch(1.0, True)
    ...     with tg.control_dependencies([dead, live]):
    ...         both = tg.control_trigger()
    ...     with tg.control_dependencies([both]):
    ...         y = tg.constant(5.0)
    >>> with tg.SyncSession(graph) as session:
    ...     float(session.run(y))
    5.0
    """
    return apply("ControlTrigger", name=name)


def _refuse_direct_gradient(op: Operation, *_: Any) -> list[Any]:
    raise GraphError("Cond and While are differentiated by their regions", operation=op, hint="use gradients()")


define(
    "Cond",
    "pred: host any -> outputs: *@dtypes",
    attrs={"dtypes": REQUIRED, "saved_outputs": (), "recompute": OPTIONAL, "dead_silent": OPTIONAL},
    shape=lambda op: [t.shape for t in op.outputs],
    role=Role.COND,
    kernel=_BY_EXECUTOR,
    gradient=_refuse_direct_gradient,
)

define(
    "While",
    "inits: *any -> outputs: *@dtypes",
    attrs={
        "dtypes": REQUIRED,
        "saved_outputs": (),
        "parallel_iterations": WINDOW,
        "back_prop": True,
        "swap_memory": False,
        "checkpoint_every": OPTIONAL,
    },
    shape=lambda op: [t.shape for t in op.outputs],
    role=Role.WHILE,
    kernel=_BY_EXECUTOR,
    gradient=_refuse_direct_gradient,
)
