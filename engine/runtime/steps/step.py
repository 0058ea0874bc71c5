"""Steps that users make once and await many times."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...base import nest, registrations
from ...base.errors import GraphError
from ...base.pages.tables import make_text
from ...compile import compile_until
from ...compile.partition import Partitioned, to_dot, to_text
from ...ir.program import Program
from ...ir.tensor import Tensor
from ..observe.trace import Trace
from ..observe.watch import Watch
from .feeds import fed_parts
from .outcomes import names_of
from .report.report import Report
from .request import Request
from .run_options import NO_OPTIONS, make_run_options

if TYPE_CHECKING:
    from .runner import StepRunner
    from .stream import StepStream


R_co = TypeVar("R_co", covariant=True)


class Step(Generic[R_co]):
    """A compiled step of a session; await a call with the fed values in the order of `feeds`.

    Examples
    --------
    >>> import tagloom as tg
    >>> with tg.Graph().as_default() as graph, tg.device("/cpu:1"):
    ...     y = tg.identity(tg.placeholder("float32", [], name="x"), name="y")
    >>> step = tg.Session(graph, devices=2).make_step(y, feeds=["x:0"])
    >>> print(step.to_text().splitlines()[0])
    # /job:localhost/task:0/device:CPU:1
    """

    __slots__ = ("_compiled", "_feeds", "_keys", "_registered", "_request", "_runner", "_version", "_watched")

    def __init__(
        self, runner: StepRunner, request: Request, feeds: tuple[Tensor, ...], keys: Sequence[Any] = ()
    ) -> None:
        self._runner = runner
        self._request = request
        self._feeds = feeds
        self._keys = tuple(keys) if any(map(nest.is_container, keys)) else None  # with structures
        self._prepare()

    def __repr__(self) -> str:
        return (
            f"<Step of {', '.join(names_of(self._request))}; feeds: {', '.join(t.name for t in self._feeds) or 'none'}>"
        )

    def _repr_html_(self) -> str:
        """Return the text of `to_text` for a notebook, below a line with the names of fetches and feeds."""
        return make_text(f"{self!r}\n{self.to_text()}")

    def _prepare(self) -> None:
        self._version, self._registered = self._runner.graph.version, registrations.version()
        self._watched = self._runner.watches.tensors
        self._compiled = self._runner.prepare_step(self._request, self._feeds)

    async def __call__(
        self,
        *values: Any,
        timeout: float | None = None,
        trace: Trace | None = None,
        watch: Watch | Sequence[Watch] = (),
        report: Report | None = None,
        priority: int | None = None,
    ) -> R_co:
        """Run the step and return the fetched values; see :meth:`Session.run`.

        An edge of the graph changed by ``Operation.update_input`` since the last call causes a new compilation, as a
        kernel or pass registered by an outside package does.
        """
        runner = self._runner
        options = NO_OPTIONS
        has_watch = type(watch) is not tuple or bool(watch)
        if has_watch or not (timeout is None and trace is None and report is None and priority is None):
            options = make_run_options(runner.graph, timeout, trace, watch, report, priority)
        watch = ()  # a watch ends when nobody else holds it, and this frame lives as long as the step runs
        try:
            runner.running.check_admits()
            given = self._flatten_values(values)
            if (
                self._version != runner.graph.version
                or self._registered != registrations.version()
                or self._watched is not runner.watches.tensors
            ):
                self._prepare()
            compiled = self._compiled
            if options is not NO_OPTIONS and (options.watches or options.is_observed):
                compiled = runner.prepare_step(self._request, self._feeds, options)
            running = runner.run(self._request, compiled, given, options)
            del values, given  # this frame must not keep arrays that the step has used up
            result: R_co = await running
            return result
        finally:
            # Also of a refused run: else a reader of the watch would wait for ever.
            for each in options.watches:
                each.end()

    def stream(
        self,
        tensor: Any,
        *values: Any,
        limit: int = 16,
        policy: str = "block",
        timeout: float | None = None,
        trace: Trace | None = None,
        priority: int | None = None,
    ) -> StepStream:
        """Run the step, and read the values of a tensor in the step as they are computed.

        Any number of streams may run at once, also of the same tensor: each yields the values of its own run. The first
        stream of a tensor compiles the step with the tensor, unless ``Session.compile(..., watch=[tensor])`` did so.

        Parameters
        ----------
        tensor : Tensor or name
            Tensor of any dtype with values, in a loop or branch of the step, or outside.
        *values : array-like
            A value for each of the step's feeds, in their order.
        limit : int, optional
            Most values kept for the reader.
        policy : {'block', 'latest'}, optional
            Rule for a full buffer: the run waits for the reader, at most a window of iterations ahead; or the oldest
            value is dropped.
        timeout : float, optional
            Seconds until StepTimeout, as for :meth:`Session.run`; while the run waits for the reader they go on.
        trace : Trace, optional
            Gets a span for each operation instance of the run.
        priority : int, optional
            As for :meth:`Session.run`.

        Returns
        -------
        StepStream
            Iterate with ``async for``, which raises the error of the run; leaving early ends the run. ``await
            stream.result()`` returns the fetched values.

        Raises
        ------
        GraphError
            If `tensor` is no tensor with values of this graph, an option is out of range, or the number of values is
            wrong.

        Examples
        --------
        >>> import asyncio, tagloom as tg
        >>> inside = []
        >>> with tg.Graph().as_default() as graph:
        ...     n = tg.placeholder("int32", [])
        ...     y = tg.while_loop(lambda i: i < n, lambda i: inside.append(i * i) or i + 1, [0])
        >>> async def squares(step, n):
        ...     stream = step.stream(inside[0], n)
        ...     return [int(value) async for value in stream], int(await stream.result())
        >>> async def main():
        ...     async with tg.Session(graph) as session:
        ...         step = session.make_step(y, feeds=[n])
        ...         return await asyncio.gather(squares(step, 2), squares(step, 4))
        >>> asyncio.run(main())
        [([0, 1], 2), ([0, 1, 4, 9], 4)]
        """
        from .stream import StepStream  # here, as few programs read the values of a running step

        self._runner.running.check_admits()
        self._flatten_values(values)
        watch = Watch(self._runner.graph.as_graph_element(tensor), limit=limit, policy=policy)
        return StepStream(watch, partial(self, *values, timeout=timeout, trace=trace, watch=watch, priority=priority))

    def _flatten_values(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return a value for each fed tensor; GraphError if the number of values is not the number of feeds."""
        feeds = self._feeds if self._keys is None else self._keys
        if len(values) != len(feeds):
            raise GraphError(
                "wrong number of fed values",
                wanted=f"{len(feeds)}: {[getattr(t, 'name', t) for t in feeds]}",
                got=len(values),
                hint="give one value for each of the feeds of make_step, in their order",
            )
        if self._keys is None:
            return values
        return [value for key, given in zip(feeds, values, strict=True) for _, value in fed_parts(key, given)]

    def forget(self, elements: Container[Any]) -> None:
        """Drop the compiled steps with feeds or fetches among some graph elements."""
        self._runner.compiler.cache.forget(elements)

    def to_text(self) -> str:
        """Return a text of the operations of each device, an operation a line, and of the channels between devices."""
        return to_text(self._partition_step())

    def to_dot(self) -> str:
        """Return the graph of `to_text` as text for Graphviz: ``dot -Tsvg``."""
        return to_dot(self._partition_step())

    def _partition_step(self) -> Partitioned:
        runner = self._runner
        program = Program(runner.graph, self._feeds, self._request.tensors, self._request.targets)
        found: Partitioned = compile_until("partition", program, runner.environment.target())
        return found
