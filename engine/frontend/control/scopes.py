"""``control_dependencies``, ``device``, ``colocate_with`` and ``name_scope``: defaults for operations made inside."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ...base.device_names import parse_device
from ...base.errors import GraphError
from ...ir import scopes
from ...ir.entry import region_for
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...streams.kinds import find_kind

_SCOPE_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.\\/-]*")


@contextmanager
def control_dependencies(control_inputs: Any) -> Iterator[None]:
    """Make operations built inside wait until others have run.

    Nested scopes add up. Operations in a branch or a loop body built inside do not wait individually: the whole
    loop or conditional waits.

    Parameters
    ----------
    control_inputs : list of Operation, Tensor, Variable or name, or None
        Operations that must have run; None clears the dependencies of the surrounding scopes.

    Raises
    ------
    GraphError
        If an operation is of another graph, or in a branch or loop body that does not enclose the current region.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     first = tg.no_op()
    ...     with tg.control_dependencies([first]):
    ...         second = tg.identity(1.0)
    >>> second.op.control_inputs == [first]
    True
    """
    if control_inputs is None:
        controls: tuple[Operation, ...] = ()
    else:
        items = control_inputs if isinstance(control_inputs, (list, tuple)) else [control_inputs]
        added = [_require_visible(item) for item in items]
        # Each dependency once, in the order of the scopes.
        controls = tuple(dict.fromkeys((*scopes.current().control_inputs, *added)))
    with scopes.within(control_inputs=controls):
        yield


def _require_visible(item: Any) -> Operation:
    """Return the operation of a control input; GraphError unless its region encloses the current region."""
    if hasattr(item, "with_flow"):
        # An array is waited for through its flow, which its last write made.
        item = item.flow
    elif hasattr(item, "_as_tensor") and not hasattr(item, "_as_graph_element"):
        item = item._as_tensor()
    region = region_for(item)
    element = region.graph.as_graph_element(item)
    op = element.op if isinstance(element, Tensor) else element
    if not op.region.encloses(region):
        raise GraphError(
            f"{op.name} cannot be waited for outside the {op.region.role} it was made in",
            wanted=f"an operation of the {region.path()} or of a region around it",
            got=f"an operation of the {op.region.path()}",
            operation=op,
            hint="return it from the branch or body, and depend on the result of cond or while_loop",
        )
    return op


@contextmanager
def device(device_name_or_function: str | Callable[[Operation], str | None] | None) -> Iterator[None]:
    """Request a device for operations built inside.

    Nested scopes are merged: an inner scope's fields take precedence, the outer scope fills in the others.

    Parameters
    ----------
    device_name_or_function : str, callable or None
        A device name or a part, as ``"/job:worker"`` or ``"/cpu:0"``; or a function of the new operation (whose
        `device` is the request of the scopes inside this scope) that returns a name, or None or "" for no request;
        or None, which clears the requests of the surrounding scopes.

    Raises
    ------
    GraphError
        If the argument is of another type, or no device has such a name.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default(), tg.device("/job:worker/cpu:0"):
    ...     x = tg.identity(1.0)
    ...     with tg.device("/cpu:1"):
    ...         y = tg.identity(x)
    >>> x.device, y.device
    ('/job:worker/device:CPU:0', '/job:worker/device:CPU:1')
    """
    asked = device_name_or_function
    # None undoes the devices of the scopes around, as in TensorFlow 1.
    if asked is None:
        chosen: tuple[Any, ...] = ()
    else:
        chosen = (*scopes.current().device, _device_function(asked) if callable(asked) else _device_name(asked))
    with scopes.within(device=chosen):
        yield


def _device_name(asked: Any) -> str:
    """Return a normalized device name; GraphError for anything that is no device name."""
    if not isinstance(asked, str):
        raise GraphError(
            "not a device",
            wanted="a name, a function of an operation, or None",
            got=repr(asked),
            hint="give a name, as '/cpu:0'",
        )
    spec = parse_device(asked)
    # Without a slash a misspelt name, such as 'gup:0', would pass as a device of another type.
    if not asked.strip().startswith("/") and spec.type is not None and find_kind(spec.type) is None:
        raise GraphError(
            "no device has such a name",
            wanted="a name as '/cpu:0' or '/job:worker/cpu:1', or a part of one",
            got=repr(asked),
            hint="devices of kinds that are not registered are named with a slash, as '/disk:0'",
        )
    return str(spec)


def _device_function(function: Callable[[Operation], str | None]) -> Callable[[Operation], str]:
    """Return a function of an operation that checks the result of a user's device function."""

    def choose_device(op: Operation) -> str:
        name = function(op)
        if name is not None and not isinstance(name, str):
            raise GraphError(
                "a device function gives a name or None",
                wanted="str or None",
                got=repr(name),
                operation=op,
                hint="return None to leave the choice to the scopes around",
            )
        return name or ""

    return choose_device


@contextmanager
def colocate_with(op: Any, ignore_existing: bool = False) -> Iterator[None]:
    """Place operations built inside on the device of another operation.

    Colocation overrides the surrounding scopes: their devices and colocations do not hold inside. A `device` scope
    inside adds to the other operation's request.

    Parameters
    ----------
    op : Operation, Tensor, Variable or None
        Operation to colocate with. None clears the colocation of the surrounding scopes, but not their devices.
    ignore_existing : bool, optional
        With None: clear the devices too.

    Raises
    ------
    GraphError
        If `op` is of another graph.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default():
    ...     with tg.device("/cpu:1"):
    ...         x = tg.identity(1.0)
    ...     with tg.device("/cpu:0"), tg.colocate_with(x):
    ...         y = tg.identity(2.0)
    >>> y.device
    '/device:CPU:1'
    """
    # Colocation replaces the devices of the scopes around.
    devices = scopes.current().device if op is None and not ignore_existing else ()
    with scopes.within(colocate=None if op is None else _operation_of(op), device=devices):
        yield


def _operation_of(op: Any) -> Operation:
    element = region_for(op).graph.as_graph_element(op)
    return element.op if isinstance(element, Tensor) else element


@contextmanager
def name_scope(name: str | None, default_name: str | None = None, values: Any = None) -> Iterator[str]:
    """Prefix the names of operations built inside.

    Nested scopes are joined with ``/``; a scope whose name is taken gets ``_1``, ``_2``, ...

    Parameters
    ----------
    name : str or None
        A name; a whole scope ending in ``/`` (as yielded), entered again unchanged; "" or None (with no
        `default_name`) for no prefix at all.
    default_name : str, optional
        The name when `name` is None.
    values : structure of Tensor, optional
        Inputs of the operations inside: where no graph is open, they determine the graph of the names.

    Yields
    ------
    str
        The whole scope, ending in ``/``; "" for no prefix.

    Raises
    ------
    GraphError
        If the name has other characters than letters, digits and ``_.\\/-``.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default(), tg.name_scope("layer") as scope:
    ...     x = tg.identity(1.0, name="x")
    >>> scope, x.op.name
    ('layer/', 'layer/x')
    """
    name = default_name if name is None else name
    if name and not (isinstance(name, str) and _SCOPE_NAME.fullmatch(name)):
        raise GraphError(
            "not a name for a scope",
            wanted="letters, digits and _.\\/-",
            got=repr(name),
            hint="replace the other characters",
        )
    full = _full_scope(name, values)
    with scopes.within(name=full):
        yield f"{full}/" if full else ""


def _full_scope(name: str | None, values: Any) -> str:
    if not name:
        return ""
    # An existing scope is entered again, so its name is not made unique.
    if name.endswith("/"):
        return name.rstrip("/")
    outer = scopes.current().name
    return region_for(values).graph.unique_name(f"{outer}/{name}" if outer else name)
