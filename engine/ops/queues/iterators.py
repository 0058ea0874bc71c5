"""Elements of input pipelines as operations that wait: the iterators of `tagloom.data` in a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ...base.shapes import SCALAR, Shape
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.operation import Operation
from ...ir.traits import Effect
from ...kernels.core.async_result import AsyncResult
from ...kernels.cpu.queue_base import Taken
from ...kernels.memory.contexts import outside
from ..support.context import KernelContext
from .figures import IteratorStatistics
from .shared import SharedResource, shared
from .taking import given

CONTAINER = "iterators"

_REASON = NotDifferentiable("an iterator brings values in from outside the graph")


class Elements(Protocol):
    """What gives elements, tuples of arrays, to whoever asks; `DatasetIterator` is what there is."""

    def take_loan(self, operation: str) -> Any:
        """Return what has the next ``element`` and can be put back, or the AsyncResult that gives it."""

    def put_back(self, loan: Any) -> None:
        """Let an element be the next one again."""

    def deferred_state(self) -> Any:
        """Return what makes the elements to come what they are; parts of that may be `Deferred`."""

    def prepare(self, state: Any) -> Callable[[], None]:
        """Make what it takes to go on from a state; return what does that."""

    def statistics(self) -> IteratorStatistics:
        """Return its figures; from any thread."""

    def cancel(self, error: BaseException) -> None:
        """Let all who wait raise an error."""

    async def aclose(self) -> None:
        """End tasks and threads, close files."""


class OpensElements(Protocol):
    """A pipeline that can be run; a Dataset."""

    def iterator(self, name: str) -> Elements:
        """Return one way through it."""


class IteratorStorage(SharedResource):
    """The iterator of a session.

    Attributes
    ----------
    name : str
    spec : OpensElements
        The pipeline; iterators of one shared name must be of one.
    elements : Elements
        The iterator itself.
    """

    __slots__ = ("elements", "name", "spec")

    def __init__(self, name: str, spec: OpensElements) -> None:
        self.name: str = name
        self.spec: OpensElements = spec
        self.elements: Elements = outside(spec.iterator, name)

    @property
    def label(self) -> str:
        """What it is called in errors."""
        return f"iterator {self.name}"

    def cancel(self, error: BaseException) -> None:
        """Wake all who wait with an error."""
        self.elements.cancel(error)

    async def aclose(self) -> None:
        """End its tasks and threads, close its files."""
        await self.elements.aclose()

    def statistics(self) -> IteratorStatistics:
        """Return its figures."""
        return self.elements.statistics()

    def snapshot(self) -> Any:
        """Return its state."""
        return self.elements.deferred_state()

    def restore(self, saved: Any) -> Callable[[], object]:
        """Return what lets it go on from a state."""
        return self.elements.prepare(saved)


def _handle(xp: Any, context: KernelContext, *, shared_name: str, dataset: OpensElements) -> IteratorStorage:
    return shared(
        context.step.resources, CONTAINER, shared_name, dataset, IteratorStorage, "Dataset", context.operation
    )


def _next(xp: Any, context: KernelContext, iterator: IteratorStorage, *, only_fetched: bool, **_: Any) -> Any:
    elements, pool = iterator.elements, context.step.contexts.pool

    def adopted(loans: list[Any]) -> Any:
        components = loans[0].element
        return tuple(components) if pool is None else tuple(map(pool.adopt, components))

    def taken(loan: Any) -> Taken:
        return Taken([loan], adopted, lambda loans, _: outside(elements.put_back, *loans), 0)  # loans know their order

    loan = outside(elements.take_loan, context.operation)
    return given(context, loan.then(taken) if isinstance(loan, AsyncResult) else taken(loan), only_fetched)


def _shapes(op: Operation) -> list[Shape]:
    return list(op.attrs["shapes"])


define(
    "IteratorHandle",
    "-> handle: resource",
    attrs={"shared_name": REQUIRED, "dataset": REQUIRED},
    shape=lambda op: SCALAR,
    kernel=_handle,
    gradient=_REASON,
    effects=Effect.READS,
    outlives_step=True,
    comes_from_outside=True,
)

define(
    "IteratorGetNext",
    "handle: resource -> components: host *@dtypes_",
    attrs={"dtypes_": REQUIRED, "shapes": REQUIRED, "only_fetched": False},
    shape=_shapes,
    kernel=_next,
    gradient=_REASON,
    effects=Effect.READS | Effect.WRITES | Effect.WAITS,
)
