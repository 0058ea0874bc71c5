"""Tensors that a session keeps for holders of their handles, as ``get_session_handle`` of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from weakref import WeakSet

import numpy as np

from ...base import dtypes
from ...base.resources import Resource
from ...ir.apply import apply
from ...ir.definition import NotDifferentiable, define
from ...ir.entry import public
from ...ir.rules.edges import Fetchable
from ...ir.tensor import Tensor
from ...ir.traits import Effect
from ...kernels.core.continuation import Continuation
from ..support.common import infer_scalar
from ..support.context import KernelContext, LongCall
from ..support.copies import is_large

_CONTAINER = "session handles"


class KeptTensor:
    """A value kept by a session, in the memory of its computation, during the life of this object.

    Attributes
    ----------
    name : str
        Name of the keeping operation.
    value : array or None
        Read-only; None after its release.
    """

    __slots__ = ("__weakref__", "name", "value")

    def __init__(self, name: str, value: Any) -> None:
        self.name: str = name
        self.value: Any = value


class KeptTensors(Resource):
    """The values kept by a session for handles; the entry of a handle disappears with its last holder."""

    __slots__ = ("_kept", "name")

    def __init__(self, name: str) -> None:
        self.name: str = name
        self._kept: WeakSet[KeptTensor] = WeakSet()

    @property
    def label(self) -> str:
        """Label in error messages."""
        return "tensors kept for handles"

    def keep(self, name: str, value: Any) -> KeptTensor:
        """Keep a value as long as the returned object lives."""
        kept = KeptTensor(name, value)
        self._kept.add(kept)
        return kept

    def arrays(self) -> Iterable[Any]:
        """Return the values."""
        # A list first: the last holder of a handle may release it during the iteration.
        return [kept.value for kept in list(self._kept) if kept.value is not None]

    async def aclose(self) -> None:
        """Release all values."""
        for kept in list(self._kept):
            kept.value = None


def _keep_copy(xp: Any, context: KernelContext, value: Any) -> Any:
    """Keep a copy: the original may be a feed, a variable's buffer or a view of a larger array."""
    if context.step.long_calls is None or not is_large(value):
        return _store_copy(context, _frozen_copy(value))
    return _keep_later(context, context.step.later(_frozen_copy), value)


async def _keep_later(context: KernelContext, call: Callable[..., LongCall], value: Any) -> Continuation:
    return Continuation(partial(_store_copy, context, await call(value)))


def _frozen_copy(value: Any) -> Any:
    if not isinstance(value, (np.ndarray, np.generic)):
        return value.copy()
    copy = np.array(value, order="C")
    copy.flags.writeable = False
    return copy


def _store_copy(context: KernelContext, copy: Any) -> KeptTensor:
    return context.step.resources.get_or_create(_CONTAINER, "all", KeptTensors).keep(context.operation, copy)


define(
    "GetSessionHandle",
    "value: T -> handle: resource",
    where={"T": dtypes.VALUES},
    shape=infer_scalar,
    kernel=_keep_copy,
    gradient=NotDifferentiable("a handle has no elements; the gradient is that of the value"),
    effects=Effect.WRITES,
    rules=[Fetchable()],
)


@public
def get_session_handle(value: Any, name: str | None = None) -> Tensor:
    """Return a tensor to fetch as a handle: the session keeps the value in place, for steps fed with the handle.

    ``handle = await session.run(get_session_handle(y))`` is a :class:`TensorHandle`. A later step, as in
    ``await session.run(z, feeds={x: handle})``, computes with the value itself, which on its device is neither copied
    nor converted. The memory counts as the session's until nobody holds the handle, or ``handle.delete()``.

    Parameters
    ----------
    value : Tensor
        Value to keep, of any dtype with values.
    name : str, optional
        Name of the operation.

    Returns
    -------
    Tensor
        To be fetched.

    Raises
    ------
    DtypeError
        If `value` has no elements to keep, such as a handle.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.placeholder("float32", [])
    ...     kept, y = tg.get_session_handle(x * 2.0), x + 1.0
    >>> async def main():
    ...     async with tg.Session(graph) as session:
    ...         handle = await session.run(kept, {x: 3.0})
    ...         return float(await session.run(y, {x: handle}))
    >>> asyncio.run(main())
    7.0
    """
    return apply("GetSessionHandle", value, name=name or "get_session_handle")
