"""Python functions, plain or ``async def``, as operations."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable
from functools import wraps
from itertools import islice
from typing import Any

from ...base import dtypes, nest
from ...base.errors import GraphError
from ...base.shapes import Shape
from ...ir.apply import build, convert_to_tensor
from ...ir.entry import public
from ...ops.control import py_function as _operations  # noqa: F401  declares the operation type used below


@public
def py_function(
    func: Callable[..., Any],
    inp: Any,
    Tout: Any,
    stateful: bool = True,
    name: str | None = None,
    *,
    output_shapes: Any = None,
    blocking: bool = False,
) -> Any:
    """Call a Python function each time the operation runs.

    An ``async def`` function is awaited in its own task, while other operations run; they also run while a `blocking`
    function runs in its thread. Calls of a step begin and end in the order in which they were built, and in a loop
    iteration after iteration (rule 144), like calls of `print_`; with ``stateful=False`` they overlap.

    Parameters
    ----------
    func : callable
        Called with a read-only array for each input, in the containers of `inp`; returns a value for each dtype in
        `Tout`. Literals and NumPy scalars take the dtype, arrays must have the dtype. The returned arrays must not be
        changed afterwards.
    inp : list of Tensor or container
        The inputs, of any dtypes and shapes. A dict, named tuple, dataclass or registered container among them is a
        single argument; lists and tuples are tensors. A container in place of the list is the only argument.
    Tout : dtype-like or list of them, or container
        Dtypes of the outputs; an empty list for a function called for its effect. With a dict, named tuple, dataclass
        or registered container, `func` returns such a container, and so does `py_function`.
    stateful : bool
        True if a call waits for earlier stateful calls. False for a function whose calls are independent: calls of
        several iterations then run at the same time. Calls are never merged or folded.
    name : str, optional
        Name of the operation.
    output_shapes : shape or list of shapes, optional
        Static shapes of the outputs, checked at run time; unknown by default.
    blocking : bool
        True to call the function in a thread of the session, with the context variables of the step's caller; for
        functions that wait for a disk or a socket, or compute long in code that releases the interpreter's lock. Such a
        call cannot be interrupted: if its step ends before the call, the call finishes in the background, its result
        is dropped, and meanwhile ``statistics().orphaned`` counts the call.

    Returns
    -------
    Tensor, list of Tensor, container or Operation
        A tensor for a single dtype, a list for a list, a container for a container, the operation for an empty list.

    Raises
    ------
    GraphError
        For a blocking ``async def`` function.
    OpError
        When a step runs the operation: the function raised (its error is ``__cause__``), or the result does not fit
        `Tout`, in dtypes, shapes or containers.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> async def look_up(key):
    ...     await asyncio.sleep(0)
    ...     return {1: "one", 2: "two"}[int(key)]
    >>> f = tg.function(lambda key: tg.py_function(look_up, [key], "string", output_shapes=[]))
    >>> f.sync(2).item()
    'two'
    """
    if blocking and inspect.iscoroutinefunction(func):
        raise GraphError(
            "an async function does not block",
            wanted="a plain function",
            got=func,
            hint="leave blocking out: other operations go on while it waits",
        )
    inputs = [inp] if _is_argument(inp) else list(inp)
    packed = _is_argument(Tout)
    single = not packed and not isinstance(Tout, (list, tuple))
    kinds = tuple(map(dtypes.as_dtype, [Tout] if single else nest.flatten(Tout)))
    shapes = _output_shapes(output_shapes, len(kinds), single)
    op = build(
        "PyFunction",
        [convert_to_tensor(leaf) for value in inputs for leaf in _leaves_of(value)],
        name=name or _operation_name(func),
        function=_with_containers(func, inputs, Tout if packed else None),
        Tout=kinds,
        output_shapes=shapes,
        single=single,
        blocking=blocking,
        stateful=bool(stateful),
    )
    if packed:
        return nest.pack_as(Tout, list(op.outputs)) if op.outputs else op
    return op.outputs[0] if single else list(op.outputs) or op


def _is_argument(value: Any) -> bool:
    """Return True for a container whose leaves are inputs: lists and tuples are tensors, and so are sparse tensors."""
    is_listed = type(value) in (list, tuple, deque) or isinstance(value, Shape)
    return not is_listed and nest.is_container(value) and not hasattr(value, "dtype")


def _leaves_of(value: Any) -> list[Any]:
    return nest.flatten(value) if _is_argument(value) else [value]


def _with_containers(func: Callable[..., Any], inputs: list[Any], result: Any) -> Callable[..., Any]:
    """Return a function of an array for each leaf that calls `func` with containers, and flattens its result."""
    if result is None and not any(map(_is_argument, inputs)):
        return func
    # For each container its packer and its number of leaves, by which the flat arrays are divided; None for an array.
    packers = [(nest.make_packer(v), len(nest.flatten(v))) if _is_argument(v) else None for v in inputs]
    like = None if result is None else nest.map_structure(dtypes.as_dtype, result)

    def pack_arguments(arrays: tuple[Any, ...]) -> list[Any]:
        queue = iter(arrays)
        return [next(queue) if p is None else p[0](list(islice(queue, p[1]))) for p in packers]

    def flatten_results(found: Any) -> Any:
        if like is None:
            return found
        try:
            return nest.flatten_up_to(like, found)
        except ValueError as error:
            raise GraphError(
                f"{_operation_name(func)} returned another structure than Tout: {error}",
                wanted=like,
                got=found,
                hint="return the container that Tout is, with a value for each dtype",
            ) from None

    # An async wrapper, because there is no result to flatten before the end of the await.
    if inspect.iscoroutinefunction(func):

        @wraps(func)
        async def call_coroutine(*arrays: Any) -> Any:
            return flatten_results(await func(*pack_arguments(arrays)))

        return call_coroutine

    @wraps(func)
    def call_function(*arrays: Any) -> Any:
        return flatten_results(func(*pack_arguments(arrays)))

    return call_function


def _output_shapes(given: Any, count: int, single: bool) -> tuple[Shape, ...]:
    """Return a static shape for each output; GraphError if their number differs from that of the dtypes."""
    if given is None:
        return (Shape(None),) * count
    if single and isinstance(given, (list, tuple)) and len(given) == 1 and isinstance(given[0], (list, tuple, Shape)):
        given = given[0]  # a list of one shape, as several results have a list
    listed = given if not single and isinstance(given, (list, tuple)) else [given]
    shapes = tuple(Shape(shape) for shape in listed)
    if len(shapes) != count:
        raise GraphError(
            "py_function needs one output shape for each dtype in Tout",
            wanted=count,
            got=len(shapes),
            hint="give a list as long as Tout, or leave output_shapes out",
        )
    return shapes


def _operation_name(func: Any) -> str:
    # Lambdas and callable objects have no name that could be an operation's.
    name = getattr(func, "__name__", "")
    return name if name.isidentifier() else "PyFunction"
