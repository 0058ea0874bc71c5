"""Python functions that are traced, compiled and awaited."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial, update_wrapper
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from ...base.errors import GraphError, TagloomError
from ...base.source_lines import user_source
from ...frontend.tracing.function_scope import FunctionScope, is_inside, with_effects
from ...ir import scopes
from ...ir.graph import Graph
from ...ir.misuse import refuses_misuse
from ...ir.tensor import Tensor
from ..observe.watch import Watch, check_watch_options
from ..scheduling.running_loops import is_loop_here, refuse_running_loop
from ..session.session import Session
from ..session.sync import SyncSession
from ..steps.step import Step
from ..steps.stream import Run, StepStream
from ..steps.under_way import UnderWay
from .arguments import Arguments, Parameters, describe_changes
from .calls import Call
from .concrete import ConcreteFunction
from .options import DEFAULTS, FunctionOptions
from .sessions import FunctionState, default_session, state_of

_logger = logging.getLogger("tagloom")
_MANY = 8  # traces of a function; beyond, every doubling is logged as a warning: traces 9, 17, 33, ...
_common = Graph()  # shared by functions made while no graph is open, so they may call each other

P = ParamSpec("P")
Q = ParamSpec("Q")
V_co = TypeVar("V_co", covariant=True)  # values returned by an awaited call
C_co = TypeVar("C_co", covariant=True)  # the call itself, or tensors where a graph is built


class Function(Generic[P, V_co, C_co]):
    """Python function traced for each new combination of its arguments' dtypes and shapes.

    Made by :func:`function`, whose documentation describes its behaviour. Types cover its parameters, values and calls.

    Attributes
    ----------
    graph : Graph
        Graph of the traces.
    traces : int
        Number of traces made.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> double = tg.function(lambda x: x * 2)
    >>> double.sync(np.array([1.0, 2.0])), double.sync(np.array([3.0, 4.0])), double.sync(5)
    (array([2., 4.]), array([6., 8.]), array(10, dtype=int32))
    >>> double.traces
    2
    """

    @refuses_misuse
    def __init__(
        self,
        function: Callable[P, Any],
        options: FunctionOptions = DEFAULTS,
    ) -> None:
        if not callable(function):
            raise GraphError(
                "this is not a function",
                wanted="a Python function that builds operations",
                got=repr(function),
                hint="tagloom.function(lambda x: x * 2), or @tagloom.function above a def",
            )
        self.options: FunctionOptions = options
        update_wrapper(self, function)
        self.python_function = function
        self._name = getattr(function, "__name__", type(function).__name__).strip("<>")
        self._parameters = Parameters(function, options.input_signature, options.static_argnames)
        self.graph: Graph = _graph_of(options.graph, options.session)
        self._session = options.session
        self._scope = FunctionScope(self._name)
        self.traces: int = 0
        self._most_traces = _checked_max_traces(options.max_traces)
        self._blocking = options.blocking
        self._concrete: OrderedDict[Any, ConcreteFunction] = OrderedDict()  # the most recently used trace last
        self._tracing: UnderWay[ConcreteFunction] = UnderWay()
        self._newest_arguments: dict[str, str] = {}  # descriptions of the newest trace's arguments, for the log
        self._state: FunctionState = state_of(self.graph)  # shared by the graph's functions, which keep it alive

    def __repr__(self) -> str:
        return f"<Function {self._name}: {self.traces} traces>"

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Function[P, V_co, C_co]: ...
    @overload
    def __get__(
        self: Function[Concatenate[Any, Q], V_co, C_co], instance: object, owner: type | None = None
    ) -> Function[Q, V_co, C_co]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Return the function bound to an object, with traces and variables of its own."""
        if instance is None:
            return self
        bound: Function[..., Any, Any] = Function(MethodType(self.python_function, instance), self.options)
        vars(instance)[self.python_function.__name__] = bound  # later look-ups find the same bound function
        return bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C_co:
        """Return a coroutine of the results; inside a traced function, or with tensors, the results as tensors.

        Raises
        ------
        TypeError
            If the arguments do not fit the parameters.
        TagloomError
            As raised by the function while being traced, and by :meth:`Session.run`.
        """
        arguments = self._parameters.bind(args, kwargs)
        if arguments.symbolic or is_inside():
            return self._build_inline(arguments.values)  # type: ignore[no-any-return]
        return cast(C_co, Call(self._name, self._run_trace(arguments)))

    def sync(self, *args: P.args, **kwargs: P.kwargs) -> V_co:
        """Call the function in a script or a notebook, and wait for the result.

        The session is a SyncSession: the argument of :func:`function`, or a session shared by all functions of this
        graph, which lasts as long as the functions.

        Parameters
        ----------
        *args, **kwargs
            As for a call.

        Returns
        -------
        structure of numpy.ndarray
            Result of ``await function(...)``.

        Raises
        ------
        TagloomError
            If an event loop runs in this thread, which the call would block: await the function there, or make the
            function with ``blocking=True``. The loop of a notebook may be blocked.
        """
        self._refuse_session()
        has_session = isinstance(self._session, SyncSession)
        blocking = self._session.blocking if isinstance(self._session, SyncSession) else self._blocking
        option = "its session SyncSession(..., blocking=True)" if has_session else "tagloom.function(blocking=True)"
        hint = f"`await {self._name}(...)`; or make {option}, which keeps the event loop waiting"
        refuse_running_loop(blocking, f"{self._name}.sync()", hint)
        result: V_co = self._sync_session().call(self._run_in, self._parameters.bind(args, kwargs))
        return result

    async def step(self, *args: P.args, **kwargs: P.kwargs) -> Step[V_co]:
        """Return the compiled step for arguments with the dtypes, shapes and static values of these.

        The step belongs to the session of calls, in which the trace's variables are initialized.

        Parameters
        ----------
        *args, **kwargs
            As for a call.

        Returns
        -------
        Step
            Awaitable with the arrays and numbers among the arguments, in their order.
        """
        arguments = self._parameters.bind(args, kwargs)
        session, concrete = await self._own_session(), await self._await_trace(arguments)
        with self._keep_variables(session, concrete):
            return await concrete.step(session, arguments.leaves)

    def concrete(self, *args: P.args, **kwargs: P.kwargs) -> ConcreteFunction:
        """Return the trace for arguments like these, made if missing.

        The calling thread makes the trace, which may take long: on an event loop, ``await f.trace(...)`` uses another
        thread.

        Parameters
        ----------
        *args, **kwargs
            As for a call.

        Returns
        -------
        ConcreteFunction
            The trace's placeholders, results, and the operations between.
        """
        return self._ensure_trace(self._parameters.bind(args, kwargs))

    async def trace(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Return the trace for arguments like these as `concrete` does; a new trace is made in a thread.

        Parameters
        ----------
        *args, **kwargs
            As for a call.

        Returns
        -------
        ConcreteFunction
            The trace's placeholders, results, and the operations between.

        Examples
        --------
        >>> import asyncio, tagloom as tg
        >>> @tg.function
        ... def double(x):
        ...     return x * 2
        >>> async def main():
        ...     trace = await double.trace(3.0)
        ...     return len(trace.placeholders), double.traces
        >>> asyncio.run(main())
        (1, 1)
        """
        return await self._await_trace(self._parameters.bind(args, kwargs))

    async def _run_trace(self, arguments: Arguments) -> Any:
        running = self._run_in(await self._own_session(), arguments)
        del arguments  # as in `_run_in`
        return await running

    async def _run_in(self, session: Session, arguments: Arguments) -> Any:
        """Run the trace for arguments in a session; for speed with the test of `_keep_variables` repeated."""
        concrete = self._concrete.get(arguments.key)
        if concrete is None:
            concrete = await self._await_trace(arguments)
        elif len(self._concrete) > 1:
            self._note_use(arguments)
        if self._session is None and concrete.kept:
            with self._state.used(session, concrete.kept, self._name):
                running = (await concrete.step(session, arguments.leaves))(*arguments.leaves)
                del arguments
                return await running
        running = (await concrete.step(session, arguments.leaves))(*arguments.leaves)
        del arguments  # this frame lives as long as the step, and must not keep arrays that the step has used up
        return await running

    def _keep_variables(self, session: Session, concrete: ConcreteFunction) -> AbstractContextManager[None]:
        """Return a context that keeps a trace's variables in a default session for a call; other sessions need none."""
        if self._session is not None or not concrete.kept:
            return nullcontext()
        return self._state.used(session, concrete.kept, self._name)

    def stream(
        self,
        tensor: Any,
        *args: Any,
        limit: int = 16,
        policy: str = "block",
        timeout: float | None = None,
        **kwargs: Any,
    ) -> StepStream:
        """Call the function, and iterate over the values of one of its tensors as they are computed.

        Parameters
        ----------
        tensor : str or Tensor
            A tensor in the function, also in its loops and branches; or its name, or the last parts of the name.
        *args, **kwargs
            As for a call.
        limit, policy, timeout
            As for :meth:`Step.stream`.

        Returns
        -------
        StepStream
            Iterate with ``async for``; ``await stream.result()`` returns the result of a call. Leaving early ends the
            call.

        Raises
        ------
        GraphError
            If no tensor of the function has the name, or several have. On an event loop, a function not traced yet is
            traced in a thread, and the error comes with the first value or the result.

        Examples
        --------
        >>> import asyncio, tagloom as tg
        >>> @tg.function
        ... def powers(n):
        ...     def body(i, x):
        ...         return i + 1, tg.identity(x * 2, name="power")
        ...     return tg.while_loop(lambda i, x: i < n, body, [0, 1])[1]
        >>> async def main():
        ...     return [int(x) async for x in powers.stream("power", 5)]
        >>> asyncio.run(main())
        [2, 4, 8, 16, 32]
        """
        arguments = self._parameters.bind(args, kwargs)
        check_watch_options(limit, policy)
        options = {"limit": limit, "policy": policy}
        concrete = self._concrete.get(arguments.key)
        if concrete is None and is_loop_here():
            name = tensor if isinstance(tensor, str) else getattr(tensor, "name", repr(tensor))
            return StepStream.opened_by(partial(self._open_stream, tensor, arguments, options, timeout), name)
        concrete = concrete or self._ensure_trace(arguments)
        return StepStream(*self._watch_trace(concrete, tensor, arguments, options, timeout))

    async def _open_stream(
        self, tensor: Any, arguments: Arguments, options: Mapping[str, Any], timeout: float | None
    ) -> tuple[Watch, Run]:
        return self._watch_trace(await self._await_trace(arguments), tensor, arguments, options, timeout)

    def _watch_trace(
        self,
        concrete: ConcreteFunction,
        tensor: Any,
        arguments: Arguments,
        options: Mapping[str, Any],
        timeout: float | None,
    ) -> tuple[Watch, Run]:
        """Return a watch of a tensor of a trace, and the function that runs the trace with the watch."""
        watch = Watch(concrete.find(tensor), **options)
        return watch, partial(self._run_watched, concrete, arguments, watch, timeout)

    async def _run_watched(
        self, concrete: ConcreteFunction, arguments: Arguments, watch: Watch, timeout: float | None
    ) -> Any:
        """Run a trace with a watch, and end the watch's buffer, so its reader ends too."""
        buffer = watch.buffer  # needed after `watch` is deleted
        try:
            session = await self._own_session()
            with self._keep_variables(session, concrete):
                step = await concrete.step(session, arguments.leaves, watch=[watch.tensor])
                running = step(*arguments.leaves, timeout=timeout, watch=watch)
                del watch  # the stream alone holds the watch, so dropping the stream ends the watch
                return await running
        finally:
            buffer.end()

    async def session(self) -> Session:
        """Return the session of calls on this event loop, to read and write variables, or for a report.

        Returns
        -------
        Session
            Not to be closed, except if passed to :func:`function`.

        Raises
        ------
        GraphError
            If the function was given a SyncSession.
        """
        session = await self._own_session()
        if self._session is None:
            self._state.bring_all(session, self._variable_names(), self._name)
        return session

    async def _own_session(self) -> Session:
        """Return the given session, or the default session of the running loop."""
        if isinstance(self._session, SyncSession):
            raise GraphError(
                f"{self._name} was given a SyncSession",
                wanted="a Session, to be awaited",
                got=self._session,
                hint=f"{self._name}.sync(...)",
            )
        return self._session or await default_session(self._state, self.graph)

    def _variable_names(self) -> set[str]:
        return {name for concrete in self._concrete.values() for name in concrete.kept}

    def sync_session(self) -> SyncSession:
        """Return the session of :meth:`sync`, not to be closed except if passed to :func:`function`.

        Raises
        ------
        GraphError
            If the function was given a Session.
        """
        session = self._sync_session()
        if self._session is None:
            session.call(self._bring_variables)
        return session

    async def _bring_variables(self, session: Session) -> None:
        self._state.bring_all(session, self._variable_names(), self._name)

    def _sync_session(self) -> SyncSession:
        self._refuse_session()
        return self._state.sync_session() if self._session is None else cast(SyncSession, self._session)

    def _refuse_session(self) -> None:
        if isinstance(self._session, Session):
            raise GraphError(
                f"{self._name} was given a Session",
                wanted="a SyncSession, to be called in a script",
                got=self._session,
                hint=f"await {self._name}(...)",
            )

    def _build_inline(self, values: Mapping[str, Any]) -> Any:
        """Call the function while a graph is built; outside of a traced function, results depend on all effects.

        Inside, the traced function itself orders its effects, so none is added here.
        """
        if is_inside():
            with self._scope.call():
                return self._parameters.call(self.python_function, values)
        region = scopes.current_region()
        with region.graph.built_alone(), self._scope.call():
            first = len(region.operations)
            result = self._parameters.call(self.python_function, values)
            return with_effects(result, region.operations[first:], self._name)

    async def _await_trace(self, arguments: Arguments) -> ConcreteFunction:
        """Return the trace for arguments, made in a thread if missing, once for all concurrent calls."""
        concrete = self._concrete.get(arguments.key)
        if concrete is None:
            source, loop = user_source(), asyncio.get_running_loop()
            # By loop too: the entry of a call is removed on the loop that began it, which may have been closed.
            tracing = self._tracing.begin((loop, arguments.key), partial(self._ensure_trace, arguments), lambda _: None)
            try:
                concrete = await asyncio.shield(asyncio.wrap_future(tracing))
            except TagloomError as error:
                error.source = error.source or source  # the thread's stack does not have the caller's line
                raise
        return concrete

    def _ensure_trace(self, arguments: Arguments) -> ConcreteFunction:
        """Return the trace for arguments, made if missing; remove the least recently used trace beyond the limit."""
        with self.graph.built_alone():
            concrete = self._concrete.get(arguments.key)  # another thread may have made the trace meanwhile
            if concrete is None:
                self._log_trace(arguments)
                concrete = ConcreteFunction(self.graph, partial(self._build_trace, arguments))
                self.traces += 1
                self._concrete[arguments.key] = concrete
                while len(self._concrete) > self._most_traces:
                    self._concrete.popitem(last=False)[1].remove()
        return concrete

    def _note_use(self, arguments: Arguments) -> None:
        with suppress(KeyError):  # another thread may have removed the trace meanwhile
            self._concrete.move_to_end(arguments.key)

    def _build_trace(self, arguments: Arguments) -> tuple[list[Tensor], Any, str]:
        """Call the Python function with placeholders; return these, its results, and the name scope of the trace."""
        with self._scope.call() as scope:
            values, placeholders = self._parameters.placeholders(arguments)
            try:
                first = len(self.graph.root.operations)
                result = self._parameters.call(self.python_function, values)
                return placeholders, with_effects(result, self.graph.root.operations[first:], self._name), scope
            except TagloomError as error:
                described = ", ".join(f"{k}: {v}" for k, v in self._parameters.describe(arguments).items())
                error.add_note(
                    f"{self._name} was traced with {described or 'no arguments'}; arguments whose values Python has to "
                    "know, as in `if` or range(), are named in static_argnames"
                )
                raise

    def _log_trace(self, arguments: Arguments) -> None:
        """Log a new trace with its differences from the newest one; as a warning where retracing looks unintended."""
        described = self._parameters.describe(arguments)
        if not self.traces:
            _logger.debug("%s is traced: %s", self._name, described)
        else:
            number = self.traces + 1
            level = logging.WARNING if number > _MANY and (number - 1).bit_count() == 1 else logging.DEBUG
            text = "; ".join(describe_changes(self._newest_arguments, described))
            hint = ": sizes that change are None in input_signature" if level == logging.WARNING else ""
            _logger.log(level, "%s is traced again, for the %d. time: %s%s", self._name, number, text, hint)
        self._newest_arguments = described


def _checked_max_traces(max_traces: int) -> int:
    if isinstance(max_traces, bool) or not isinstance(max_traces, int) or max_traces < 1:
        raise GraphError("not a number of traces", wanted="an integer of 1 or more", got=repr(max_traces), hint="128")
    return max_traces


def _graph_of(graph: Graph | None, session: Session | SyncSession | None) -> Graph:
    """Return the graph of a function: its argument, the session's graph, the open graph, or the common graph."""
    if session is not None and graph is not None and session.graph is not graph:
        raise GraphError("the session is of another graph", wanted=graph, got=session.graph, hint="leave graph= out")
    chosen: Graph | None = graph if session is None else session.graph
    if chosen is not None:
        return chosen
    region = scopes.current().region
    return _common if region is None else region.graph
