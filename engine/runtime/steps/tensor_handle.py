"""Handles of tensors that a session keeps between its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtypes import DType, as_dtype
from ...base.errors import GraphError
from ...base.shapes import Shape
from ...ir.tensor import Tensor
from ...ops.state.session_handles import KeptTensor
from ...streams.contract import Device
from ..scheduling.blocking_calls import BlockingCalls
from .values import copy_to_host

_GONE = "fetch get_session_handle(tensor) again, and hold the handle as long as it is used"


class TensorHandle:
    """A tensor that a session keeps, where it was computed; fetched as ``get_session_handle(tensor)``.

    Feed a handle in place of the value, to any placeholder of the handle's dtype and shape. The value is released when
    nobody holds the handle, when the handle is deleted, and with its session; running steps keep their fed arrays.

    Attributes
    ----------
    dtype : DType
    shape : Shape

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> with tg.Graph().as_default() as graph:
    ...     x = tg.placeholder("float32", [])
    ...     kept, y = tg.get_session_handle(x * 2.0), x + 1.0
    >>> async def main():
    ...     async with tg.Session(graph) as session:
    ...         handle = await session.run(kept, {x: 3.0})
    ...         return await session.run(y, {x: handle}), await handle.get()
    >>> [float(value) for value in asyncio.run(main())]
    [7.0, 6.0]
    """

    __slots__ = ("_calls", "_devices", "_kept", "dtype", "shape")

    def __init__(self, kept: KeptTensor, devices: Sequence[Device], calls: BlockingCalls | None) -> None:
        self._kept = kept
        self._devices = devices
        self._calls = calls
        self.dtype: DType = as_dtype(kept.value.dtype)
        self.shape: Shape = Shape(kept.value.shape)

    def __repr__(self) -> str:
        state = ", deleted" if self._kept.value is None else ""
        return f"<TensorHandle of {self._kept.name} {self.dtype}{self.shape}{state}>"

    @property
    def value(self) -> Any:
        """The array as the session keeps it, of its device's array library; GraphError if the value was released."""
        if self._kept.value is None:
            raise GraphError(
                "what this handle stands for is gone",
                got=f"{self!r}",
                wanted="one that was not deleted, of a session that is open",
                hint=_GONE,
            )
        return self._kept.value

    async def get(self) -> np.ndarray[Any, Any]:
        """Return a copy of the value in the host's memory; GraphError if the value is gone."""
        return await copy_to_host(self.value, self._devices, self._calls)  # type: ignore[no-any-return]

    def delete(self) -> None:
        """Release the value; a second call does nothing."""
        self._kept.value = None


def check_on_host(tensor: Tensor, value: Any) -> None:
    """Raise GraphError about a value fed for a tensor if no device of the session can read its memory."""
    if not isinstance(value, np.ndarray):
        raise GraphError(
            f"the handle fed for {tensor.name} is of a value that cannot be reached from here",
            wanted="a value of the host's memory, or of one of the session's devices",
            got=type(value).__name__,
            operation=tensor.op,
            hint="feed `await handle.get()`",
        )
