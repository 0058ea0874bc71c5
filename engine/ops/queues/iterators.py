"""Elements of input pipelines as operations that wait: the iterators of `tagloom.data` in a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ...base.errors import GraphError
from ...base.shapes import SCALAR, Shape
from ...ir.definition import REQUIRED, NotDifferentiable, define
from ...ir.operation import Operation
from ...ir.traits import Effect
from ...kernels.core.async_result import AsyncResult
from ...kernels.cpu.queue_base import Taken
from ...kernels.memory.contexts import outside
from ..support.common import nothing
from ..support.context import KernelContext
from ..support.shared import SharedResource, shared
from .figures import IteratorStatistics
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

    def prepare(self, state: Any, dataset: Any = None) -> Callable[[], None]:
        """Make what it takes to go on from a state, perhaps of another pipeline; return what does that."""

    def begin_again(self, dataset: Any, iteration: int) -> None:
        """Begin at the first element of a pipeline."""

    def statistics(self) -> IteratorStatistics:
        """Return its figures; from any thread."""

    def cancel(self, error: BaseException) -> None:
        """Let all who wait raise an error."""

    async def aclose(self) -> None:
        """End tasks and threads, close files."""


class OpensElements(Protocol):
    """A pipeline that can be run; a Dataset."""

    def open_iterator(self, name: str, iteration: int) -> Elements:
        """Return one way through it, the iteration of a number."""


class Sources:
    """The pipelines that an iterator may go through, in the order in which the graph was told of them.

    Attributes
    ----------
    pipelines : list of OpensElements
        The first is the one that a session begins with.
    """

    __slots__ = ("pipelines",)

    def __init__(self, pipelines: list[OpensElements]) -> None:
        self.pipelines: list[OpensElements] = pipelines

    def add(self, pipeline: OpensElements) -> int:
        """Return the number of a pipeline, which is noted if it is new."""
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
        Its pipelines; iterators of one shared name must have the same.
    elements : Elements
        The iterator itself.
    source : int
        Number of the pipeline that it goes through.
    iterations : dict of int to int
        How many iterations over each pipeline have begun, by its number.
    """

    __slots__ = ("elements", "iterations", "name", "source", "spec")

    def __init__(self, name: str, spec: Sources) -> None:
        self.name: str = name
        self.spec: Sources = spec
        self.source = 0
        self.iterations: dict[int, int] = {0: 1}
        self.elements: Elements = outside(spec.pipelines[0].open_iterator, name, 0)

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
        """Return its state, with the numbers of its pipeline and of its iterations."""
        state = self.elements.deferred_state()
        return {**state, "source": self.source, "iterations": sorted(self.iterations.items())}

    def restore(self, saved: Any) -> Callable[[], object]:
        """Return what lets it go on from a state, which may be of before iterations were counted."""
        try:
            source = int(saved.get("source", 0))
            begun = saved.get("iterations", [(source, int(saved.get("iteration", 0)) + 1)])
            iterations = {int(key): int(count) for key, count in begun}
        except (AttributeError, TypeError, ValueError):
            source, iterations = 0, {0: 1}
            self.elements.prepare(saved)  # raises the error about what is no state
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
        """Begin the next iteration over one of its pipelines."""
        number = self.iterations.get(source, 0)
        self.elements.begin_again(self.spec.pipelines[source], number)
        self.source, self.iterations[source] = source, number + 1


class ComingElement(AsyncResult):
    """An element that a pipeline makes, whoever else goes on: unlike one of a queue, which other steps put in."""

    def then(self, function: Callable[[Any], Any]) -> ComingElement:
        """Return what gives ``function(element)``."""
        both = super().then(function)
        return ComingElement(both.source, both.convert, both.give_up, both.in_order)


def _handle(xp: Any, context: KernelContext, *, shared_name: str, dataset: Sources) -> IteratorStorage:
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
    if isinstance(loan, AsyncResult):
        loan = ComingElement(loan.source, loan.convert, loan.give_up, loan.in_order)
        return given(context, loan.then(taken), only_fetched)
    return given(context, taken(loan), only_fetched)


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
    "IteratorReset",
    "handle: resource ->",
    attrs={"source": 0},
    shape=nothing,
    kernel=lambda xp, context, iterator, *, source: outside(iterator.begin, source),
    gradient=_REASON,
    effects=Effect.READS | Effect.WRITES,
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
