"""The errors of tagloom.

Every message states the problem, the expected and the actual value, the operation and the line of the user's program
concerned, and one thing to try. The parts are fields; the text is built from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .source_lines import Source, user_source
from .wording import format_number, short_device


class TagloomError(Exception):
    """Root of all errors raised by tagloom.

    Parameters
    ----------
    what : str
        The problem, in one sentence.
    wanted, got : object, optional
        The expected and the actual value.
    operation : object, optional
        The operation concerned (its ``name`` and ``type`` are shown), or a plain name.
    source : Source, optional
        The user's line; defaults to the operation's, "built at", else to the line now running, "called at".
    hint : str, optional
        One thing to try.
    """

    def __init__(
        self,
        what: str,
        *,
        wanted: Any = None,
        got: Any = None,
        operation: Any = None,
        source: Source | None = None,
        hint: str | None = None,
    ) -> None:
        self.what = what
        self.wanted = wanted
        self.got = got
        self.operation = operation
        self.source: Source | None = source or getattr(operation, "source", None) or user_source()
        self.hint = hint
        super().__init__(what)

    def details(self) -> list[tuple[str, Any]]:
        """Return the labelled lines after the first sentence."""
        return [
            ("wanted", self.wanted),
            ("got", self.got),
            ("operation", _describe_operation(self.operation)),
            (self._source_label(), self.source),
            ("try", self.hint),
        ]

    def _source_label(self) -> str:
        """Return the label of the source line: where the operation was built, or where the failing call was made."""
        return "built at" if self.source == getattr(self.operation, "source", None) else "called at"

    def __str__(self) -> str:
        lines = [f"  {label}: {value}" for label, value in self.details() if value is not None]
        return "\n".join([self.what, *lines])


def _describe_operation(operation: Any) -> str | None:
    if operation is None or isinstance(operation, str):
        return operation
    return f"{operation.name} ({operation.type})"


class GraphError(TagloomError):
    """The graph cannot be built or compiled as asked."""


class ShapeError(GraphError, ValueError):
    """Shapes do not fit."""


class DtypeError(GraphError, TypeError):
    """Dtypes do not fit; tagloom never promotes silently."""


class BranchMismatchError(GraphError):
    """The branches of a ``cond`` return different structures or dtypes."""


class LoopVariableError(GraphError):
    """A loop body returns variables unlike its arguments."""


class VectorizationError(GraphError):
    """A function cannot be computed for many examples at once."""


class OpError(TagloomError):
    """An operation failed while a step ran; the original error is ``__cause__``.

    Attributes
    ----------
    tag : str or None
        The instance: ``node@frame/iteration``.
    input_shapes : sequence of tuple of int, optional
        Shapes of the instance's inputs.
    device : str or None
        Full name of the device of the instance, for steps on several devices.
    """

    def __init__(self, what: str, *, tag: str | None = None, input_shapes: Any = None, **fields: Any) -> None:
        self.tag = tag
        self.input_shapes = input_shapes
        self.device: str | None = None
        super().__init__(what, **fields)

    def details(self) -> list[tuple[str, Any]]:
        device = None if self.device is None else short_device(self.device)
        own = [("instance", self.tag), ("device", device), ("input shapes", self.input_shapes)]
        return [*own, *super().details()]


class DeadFetchError(OpError):
    """A fetched value was never produced: it lies on a branch not taken."""


class TensorArrayError(OpError):
    """A TensorArray was used against its rules (write once, bounds, shapes, use after close)."""


class StackError(OpError):
    """A stack was popped empty, overflowed, given another dtype, or used after close."""


class UninitializedVariableError(OpError):
    """A variable was read before it was assigned."""


class StepTimeout(TagloomError, TimeoutError):
    """A step did not end within its timeout; the session stays usable."""


class QueueClosed(OpError):
    """A queue was closed: no element can be added any longer, or too few elements are left."""


class PipelineError(OpError):
    """An element of an input pipeline could not be made; the next request returns the following elements.

    Attributes
    ----------
    element : int
        Number of the element at the failing stage, from 0.
    origin : str or None
        Origin of the element: a file and a line, or the like.
    """

    def __init__(self, what: str, *, element: int, origin: str | None = None, **fields: Any) -> None:
        self.element = element
        self.origin = origin
        super().__init__(what, **fields)

    def details(self) -> list[tuple[str, Any]]:
        return [("element", self.element), ("comes from", self.origin), *super().details()]


class Overloaded(TagloomError):
    """More steps were requested than the session admits; the session stays usable.

    Attributes
    ----------
    retry_after : float
        Seconds after which a place may be free: an estimate from the current rate at which steps end.
    """

    def __init__(self, what: str, *, retry_after: float, **fields: Any) -> None:
        self.retry_after = retry_after
        super().__init__(what, **fields)

    def details(self) -> list[tuple[str, Any]]:
        return [*super().details(), ("retry after", f"{format_number(self.retry_after)} s")]


@dataclass(frozen=True, slots=True)
class Allocation:
    """An array in the memory of a device.

    Attributes
    ----------
    operation : str
        Name of the operation, variable or feed with the array.
    tag : str or None
        Tag of the instance, ``node@frame/iteration``, for an array of a step.
    bytes : int
    source : Source or None
        The user's line at which the operation was built.
    """

    operation: str
    tag: str | None
    bytes: int
    source: Source | None = None

    def __str__(self) -> str:
        line = f", built at {self.source}" if self.source is not None else ""
        return f"{self.bytes} bytes: {self.tag or self.operation}{line}"


class DeviceMemoryError(OpError):
    """A device's memory limit cannot hold the values of a step; the session and its other steps go on.

    Attributes
    ----------
    device : str
        Full name.
    requested, live, limit : int
        Bytes requested without success, in use then, and allowed.
    allocations : tuple of Allocation
        The largest arrays in use then, largest first.
    """

    def __init__(
        self,
        what: str,
        *,
        device: str,
        requested: int,
        live: int,
        limit: int,
        allocations: tuple[Allocation, ...] = (),
        **fields: Any,
    ) -> None:
        self.requested = requested
        self.live = live
        self.limit = limit
        self.allocations = allocations
        super().__init__(what, **fields)
        # After the constructor of OpError, which sets None.
        self.device: str = device

    def details(self) -> list[tuple[str, Any]]:
        *lines, last = super().details()
        return [*lines, *(("holds", allocation) for allocation in self.allocations), last]


class SwapError(OpError):
    """A saved value could not be moved out of a device's memory, or back; the session and its other steps go on.

    Attributes
    ----------
    device : str
        Full name.
    """

    def __init__(self, what: str, *, device: str, **fields: Any) -> None:
        super().__init__(what, **fields)
        # After the constructor of OpError, which sets None.
        self.device: str = device


class CheckpointError(TagloomError):
    """Saved values cannot be written, read back, or assigned to the variables of a graph.

    Attributes
    ----------
    file : str or None
        The file or directory concerned.
    variable : str or None
        Name of the variable or other saved value.
    """

    def __init__(self, what: str, *, file: object = None, variable: str | None = None, **fields: Any) -> None:
        self.file = None if file is None else str(file)
        self.variable = variable
        super().__init__(what, **fields)

    def details(self) -> list[tuple[str, Any]]:
        return [("file", self.file), ("variable", self.variable), *super().details()]


class SessionClosed(TagloomError):
    """A session was used after it was closed."""
