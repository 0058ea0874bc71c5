"""Steps that users make once and await many times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...base.errors import GraphError
from ...compile import compile_until
from ...compile.partition import Partitioned, to_dot, to_text
from ...ir.program import Program
from ...ir.tensor import Tensor
from ..observe.trace import Trace
from .request import Request

if TYPE_CHECKING:
    from .runner import StepRunner


class Step:
    """A compiled step of a session; await it with the fed values in the order of `feeds`.

    Examples
    --------
    >>> import tagflow as tg
    >>> with tg.Graph().as_default() as graph, tg.device("/cpu:1"):
    ...     y = tg.identity(tg.placeholder("float32", [], name="x"), name="y")
    >>> step = tg.Session(graph, devices=2).make_step(y, feeds=["x:0"])
    >>> print(step.to_text().splitlines()[0])
    # /job:localhost/task:0/device:CPU:1
    """

    __slots__ = ("_compiled", "_feeds", "_request", "_runner", "_version", "_watched")

    def __init__(self, runner: StepRunner, request: Request, feeds: tuple[Tensor, ...]) -> None:
        self._runner = runner
        self._request = request
        self._feeds = feeds
        self._compile()

    def _compile(self) -> None:
        self._version = self._runner.graph.version
        self._watched = self._runner.watched
        self._compiled = self._runner.compiled(self._request, self._feeds)

    async def __call__(self, *values: Any, timeout: float | None = None, trace: Trace | None = None) -> Any:
        """Run the step and return the fetched values; see :meth:`Session.run`.

        An edge of the graph changed by ``Operation.update_input`` since the last call has it compiled again.
        """
        runner = self._runner
        runner.check_open()
        if len(values) != len(self._feeds):
            raise GraphError(
                "wrong number of fed values",
                wanted=f"{len(self._feeds)}: {[t.name for t in self._feeds]}",
                got=len(values),
                hint="give one value for each of the feeds of make_step, in their order",
            )
        if self._version != runner.graph.version or self._watched is not runner.watched:
            self._compile()
        return await runner.run(self._request, self._compiled, values, timeout, trace)

    def to_text(self) -> str:
        """Return what each device does, an operation a line, and the channels between them."""
        return to_text(self._partitioned())

    def to_dot(self) -> str:
        """Return the same as text that Graphviz draws: ``dot -Tsvg``."""
        return to_dot(self._partitioned())

    def _partitioned(self) -> Partitioned:
        runner = self._runner
        program = Program(runner.graph, self._feeds, self._request.tensors, self._request.targets)
        found: Partitioned = compile_until("partition", program, runner.environment.target())
        return found
