"""Operations which wait for elements of input pipelines: the iterators of `tagloom.data` in a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ...base.errors import GraphError
from ...base.shapes import SCALAR, Shape
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.operation import Operation
from ...ir.rules.placing import OutlivesStep
from ...ir.traits import Effect
from ...kernels.core.async_result import AsyncResult
from ...kernels.memory.contexts import outside
from ...kernels.queues.queue_base import Taken
from ..support.common import infer_nothing
from ..support.context import KernelContext
from ..support.shared import SharedKind, SharedResource
from .figures import IteratorStatistics
from .taking import kernel_outputs

CONTAINER = "iterators"

_REASON = NotDifferentiable("an iterator brings values in from outside the graph")


class Elements(Protocol):
    """A source of elements, which are tuples of arrays; implemented by `DatasetIterator`."""

    def take_loan(self, operation: str) -> Any:
        """Return a loan with the next ``element``, for `put_back` if unused, or an AsyncResult of a loan."""
        ...

    def put_back(self, loan: Any) -> None:
        """Return a loan; its element is the next one again."""

    def deferred_state(self) -> Any:
        """Return the state which determines the remaining elements; parts of the state may be `Deferred`."""
        ...

    def prepare(self, state: Any, dataset: Any = None) -> Callable[[], None]:
        """Prepare to continue from a state, perhaps of another pipeline; return a callable which does so."""
        ...

    def begin_again(self, dataset: Any, iteration: int) -> None:
        """Begin at the first element of a pipeline."""

    def statistics(self) -> IteratorStatistics:
        """Return the iterator's statistics; callable from any thread."""
        ...

    def cancel(self, error: BaseException) -> None:
        """Wake all waiting takes with an error."""

    async def aclose(self) -> None:
        """End tasks and threads, close files."""


class OpensElements(Protocol):
    """A runnable pipeline, such as a Dataset."""

    def open_iterator(self, name: str, iteration: int) -> Elements:
        """Return an iterator over the pipeline's iteration of a number."""
        ...


class Sources:
    """The pipelines of an iterator, in order of their registration with the graph.

    Attributes
    ----------
    pipelines : list of OpensElements
        A session begins with the first pipeline.
    """

    __slots__ = ("pipelines",)

    def __init__(self, pipelines: list[OpensElements]) -> None:
        self.pipelines: list[OpensElements] = pipelines

    def add(self, pipeline: OpensElements) -> int:
        """Return the number of a pipeline; a new pipeline is appended."""
        if pipeline not in self.pipelines:
            self.pipelines.append(pipeline)
        return self.pipelines.index(pipeline)

    def __repr__(self) -> str:
        return repr(self.pipelines[0])


class IteratorStorage(SharedResource):
    """The iterator of a session.

    Attributes
    ----------
    name : str
    spec : Sources
        The pipelines; iterators with one shared name need the same Sources.
    elements : Elements
        The iterator itself.
    source : int
        Number of the current pipeline.
    iterations : dict of int to int
        Number of iterations begun over each pipeline, by the pipeline's number.
    """

    __slots__ = ("elements", "iterations", "name", "source", "spec")

    def __init__(self, name: str, spec: Sources) -> None:
        self.name: str = name
        self.spec: Sources = spec
        self.source = 0
        # The session begins with the first iteration over pipeline 0.
        self.iterations: dict[int, int] = {0: 1}
        self.elements: Elements = outside(spec.pipelines[0].open_iterator, name, 0)

    @property
    def label(self) -> str:
        """Label used in error messages."""
        return f"iterator {self.name}"

    def cancel(self, error: BaseException) -> None:
        """Wake all waiting takes with an error."""
        self.elements.cancel(error)

    async def aclose(self) -> None:
        """End the iterator's tasks and threads, and close its files."""
        await self.elements.aclose()

    def statistics(self) -> IteratorStatistics:
        """Return the iterator's statistics."""
        return self.elements.statistics()

    def snapshot(self) -> Any:
        """Return the iterator's state, the number of its pipeline, and the numbers of iterations."""
        state = self.elements.deferred_state()
        return {**state, "source": self.source, "iterations": sorted(self.iterations.items())}

    def restore(self, saved: Any) -> Callable[[], object]:
        """Return a callable which continues from a saved state; old states may lack the numbers of iterations."""
        try:
            source = int(saved.get("source", 0))
            begun = saved.get("iterations", [(source, int(saved.get("iteration", 0)) + 1)])
            iterations = {int(key): int(count) for key, count in begun}
        except (AttributeError, TypeError, ValueError):
            source, iterations = 0, {0: 1}
            self.elements.prepare(saved)  # raises the error about a malformed state
        if not 0 <= source < len(self.spec.pipelines):
            raise GraphError(
                f"the state of {self.label} is of a Dataset that the graph does not have",
                wanted=f"one of {len(self.spec.pipelines)} that it was made of or may begin",
                got=f"number {source}",
                hint="build the same begin(dataset) operations before the state is restored",
            )
        change = self.elements.prepare(saved, self.spec.pipelines[source])

        def changed() -> None:
            change()
            self.source, self.iterations = source, iterations

        return changed

    def begin(self, source: int) -> None:
        """Begin the next iteration over the pipeline of a number."""
        number = self.iterations.get(source, 0)
        self.elements.begin_again(self.spec.pipelines[source], number)
        # Noted last, because the call above may raise.
        self.source, self.iterations[source] = source, number + 1


class ComingElement(AsyncResult):
    """An element of a pipeline, which arrives without the help of other steps, unlike the elements of a queue."""

    def then(self, function: Callable[[Any], Any]) -> ComingElement:
        """Return a ComingElement of ``function(element)``."""
        both = super().then(function)
        return ComingElement(both.source, both.convert, both.give_up, both.in_order)


_ITERATORS = SharedKind(CONTAINER, IteratorStorage, "Dataset")


def _handle(xp: Any, context: KernelContext, *, shared_name: str, dataset: Sources) -> IteratorStorage:
    return _ITERATORS.get(context.step.resources, shared_name, dataset, context.operation)


def _next(xp: Any, context: KernelContext, iterator: IteratorStorage, *, only_fetched: bool, **_: Any) -> Any:
    """Take the next element; components enter the step's memory pool by adoption, without a copy."""
    elements, pool = iterator.elements, context.step.contexts.pool

    def adopt_components(loans: list[Any]) -> Any:
        components = loans[0].element
        return tuple(components) if pool is None else tuple(map(pool.adopt, components))

    def taken_of_loan(loan: Any) -> Taken:
        # Number 0 for every loan: the iterator itself puts returned loans in order.
        return Taken([loan], adopt_components, lambda loans, _: outside(elements.put_back, *loans), 0)

    # The pipeline's own work is not of this step, nor under its limit of memory.
    loan = outside(elements.take_loan, context.operation)
    if isinstance(loan, AsyncResult):
        loan = ComingElement(loan.source, loan.convert, loan.give_up, loan.in_order)
        return kernel_outputs(context, loan.then(taken_of_loan), only_fetched)
    return kernel_outputs(context, taken_of_loan(loan), only_fetched)


def _infer_element_shapes(op: Operation) -> list[Shape]:
    return list(op.attrs["shapes"])


define(
    "IteratorHandle",
    "-> handle: resource",
    attrs={"shared_name": REQUIRED, "dataset": REQUIRED},
    shape=lambda op: SCALAR,
    kernel=_handle,
    gradient=_REASON,
    effects=Effect.READS,
    rules=[OutlivesStep(from_outside=True)],
)

define(
    "IteratorReset",
    "handle: resource ->",
    attrs={"source": 0},
    shape=infer_nothing,
    kernel=lambda xp, context, iterator, *, source: outside(iterator.begin, source),
    gradient=_REASON,
    effects=Effect.READS | Effect.WRITES,
)

define(
    "IteratorGetNext",
    "handle: resource -> components: host *@dtypes_",
    attrs={"dtypes_": REQUIRED, "shapes": REQUIRED, "only_fetched": False},
    shape=_infer_element_shapes,
    kernel=_next,
    gradient=_REASON,
    effects=Effect.READS | Effect.WRITES | Effect.WAITS,
)
