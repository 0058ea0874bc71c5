"""``tagloom.function``: Python functions that are traced, compiled and awaited."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial, update_wrapper
from types import MethodType
from typing import Any

from ...base.errors import GraphError, TagloomError
from ...frontend.function_scope import FunctionScope, is_inside, with_effects
from ...ir import scopes
from ...ir.graph import Graph
from ...ir.tensor import Tensor
from ..observe.watch import Watch
from ..session import Session
from ..steps.step import Step
from ..steps.stream import StepStream
from ..sync import SyncSession
from .arguments import Arguments, Parameters, changes
from .concrete import ConcreteFunction
from .sessions import SyncDefault, default_session, default_sync_session

_logger = logging.getLogger("tagloom")
_MANY = 8  # traces of one function from which on each is warned about
_common = Graph()  # of functions that are made while no graph is open, so that they may call each other
_tracing = threading.RLock()  # functions of one graph may be called in several threads


class Function:
    """A Python function that is traced when it is called with arguments of dtypes and shapes that are new to it.

    Made by :func:`function`, which says how it behaves.

    Attributes
    ----------
    graph : Graph
        What the traces are built in.
    traces : int
        How many there are.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> double = tg.function(lambda x: x * 2)
    >>> double.sync(np.array([1.0, 2.0])), double.sync(np.array([3.0, 4.0])), double.sync(5)
    (array([2., 4.]), array([6., 8.]), array(10, dtype=int32))
    >>> double.traces
    2
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        graph: Graph | None = None,
        session: Session | SyncSession | None = None,
        input_signature: Sequence[Any] | None = None,
        static_argnames: str | Sequence[str] = (),
    ) -> None:
        self.options: dict[str, Any] = {
            "graph": graph,
            "session": session,
            "input_signature": input_signature,
            "static_argnames": static_argnames,
        }
        update_wrapper(self, function)
        self.python_function = function
        self._name = getattr(function, "__name__", type(function).__name__).strip("<>")
        self._parameters = Parameters(function, input_signature, static_argnames)
        self.graph: Graph = _graph_of(graph, session)
        self._session = session
        self._scope = FunctionScope(self._name)
        self._concrete: dict[Any, ConcreteFunction] = {}
        self._described: dict[str, str] = {}  # the arguments of the newest trace
        self._default: SyncDefault | None = None  # held, so that it lasts as long as the function

    def __repr__(self) -> str:
        return f"<Function {self._name}: {self.traces} traces>"

    def __get__(self, instance: Any, owner: type | None = None) -> Function:
        """Return the function of an object, which has traces and variables of its own."""
        if instance is None:
            return self
        bound = Function(MethodType(self.python_function, instance), **self.options)
        vars(instance)[self.python_function.__name__] = bound  # found there from now on
        return bound

    @property
    def traces(self) -> int:
        """How often the function was traced."""
        return len(self._concrete)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return an awaitable of the results; in a function that is traced, or given tensors, the results as tensors.

        Raises
        ------
        TypeError
            If the arguments do not fit the parameters.
        TagloomError
            As the function raises it while it is traced, and as :meth:`Session.run` does.
        """
        arguments = self._parameters.bind(args, kwargs)
        if arguments.symbolic or is_inside():
            return self._inline(arguments.values)
        return self._run(arguments)

    def sync(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function in a script, where no event loop runs.

        Its session is a SyncSession: the one given to :func:`function`, or one for all functions of this graph, which
        lasts as long as they do. What that keeps in variables is not what an event loop's session keeps.

        Parameters
        ----------
        *args, **kwargs
            As for a call.

        Returns
        -------
        structure of numpy.ndarray
            What ``await function(...)`` would give.
        """
        return self.sync_session().call(self._run_in, self._parameters.bind(args, kwargs))

    async def step(self, *args: Any, **kwargs: Any) -> Step:
        """Return the compiled step for arguments like these.

        It is of the session that a call would run in, where its variables have their initial values then.

        Parameters
        ----------
        *args, **kwargs
            As for a call.

        Returns
        -------
        Step
            Await it with the arrays and numbers among the arguments, in their order.
        """
        arguments = self._parameters.bind(args, kwargs)
        return await self._trace(arguments).step(await self.session(), arguments.leaves)

    def concrete(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Return the trace for arguments like these, made if there is none yet.

        Parameters
        ----------
        *args, **kwargs
            As for a call.

        Returns
        -------
        ConcreteFunction
            Its placeholders, results, and the operations between.
        """
        return self._trace(self._parameters.bind(args, kwargs))

    async def _run(self, arguments: Arguments) -> Any:
        return await self._run_in(await self.session(), arguments)

    async def _run_in(self, session: Session, arguments: Arguments) -> Any:
        concrete = self._concrete.get(arguments.key) or self._trace(arguments)
        step = await concrete.step(session, arguments.leaves)
        return await step(*arguments.leaves)

    def stream(
        self,
        tensor: Any,
        *args: Any,
        limit: int = 16,
        policy: str = "block",
        timeout: float | None = None,
        **kwargs: Any,
    ) -> StepStream:
        """Call the function, and read the values that a tensor takes in it as they are computed.

        Parameters
        ----------
        tensor : str or Tensor
            A tensor in the function, also in its loops and branches: its name, of which the end is enough.
        *args, **kwargs
            As for a call.
        limit, policy, timeout
            As for :meth:`Step.stream`.

        Returns
        -------
        StepStream
            Iterate with ``async for``; ``await stream.result()`` gives what a call would. Leaving early ends the call.

        Raises
        ------
        GraphError
            If no tensor of the function has the name, or several have.

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
        concrete = self._trace(arguments)
        watch = Watch(concrete.find(tensor), limit=limit, policy=policy)
        return StepStream(watch, partial(self._watched, concrete, arguments, watch, timeout))

    async def _watched(
        self, concrete: ConcreteFunction, arguments: Arguments, watch: Watch, timeout: float | None
    ) -> Any:
        try:
            step = await concrete.step(await self.session(), arguments.leaves, watch=[watch.tensor])
        except BaseException:
            watch.end()
            raise
        return await step(*arguments.leaves, timeout=timeout, watch=watch)

    async def session(self) -> Session:
        """Return the session that a call runs in here, to read and write variables, or for a report.

        Returns
        -------
        Session
            Not to be closed, unless it was given to :func:`function`.

        Raises
        ------
        GraphError
            If the function was given a SyncSession.
        """
        if isinstance(self._session, SyncSession):
            raise GraphError(
                f"{self._name} was given a SyncSession",
                wanted="a Session, to be awaited",
                got=self._session,
                hint=f"{self._name}.sync(...)",
            )
        return self._session or await default_session(self.graph)

    def sync_session(self) -> SyncSession:
        """Return the session that :meth:`sync` runs in.

        Returns
        -------
        SyncSession
            Not to be closed, unless it was given to :func:`function`.

        Raises
        ------
        GraphError
            If the function was given a Session.
        """
        if isinstance(self._session, Session):
            raise GraphError(
                f"{self._name} was given a Session",
                wanted="a SyncSession, to be called in a script",
                got=self._session,
                hint=f"await {self._name}(...)",
            )
        if self._session is not None:
            return self._session
        self._default = default_sync_session(self.graph)
        return self._default.session

    def _inline(self, values: Mapping[str, Any]) -> Any:
        """Call the function where a graph is built; outside of a function that is traced, results wait for effects."""
        first = None if is_inside() else len(scopes.current_region().operations)
        with self._scope.call():
            result = self._parameters.call(self.python_function, values)
            if first is None:
                return result
            return with_effects(result, scopes.current_region().operations[first:], self._name)

    def _trace(self, arguments: Arguments) -> ConcreteFunction:
        with _tracing:
            concrete = self._concrete.get(arguments.key)
            if concrete is None:
                self._log(arguments)
                concrete = ConcreteFunction(self.graph, partial(self._build, arguments))
                self._concrete[arguments.key] = concrete
        return concrete

    def _build(self, arguments: Arguments) -> tuple[list[Tensor], Any]:
        with self._scope.call():
            values, placeholders = self._parameters.placeholders(arguments)
            try:
                first = len(self.graph.root.operations)
                result = self._parameters.call(self.python_function, values)
                return placeholders, with_effects(result, self.graph.root.operations[first:], self._name)
            except TagloomError as error:
                described = ", ".join(f"{k}: {v}" for k, v in self._parameters.describe(arguments).items())
                error.add_note(
                    f"{self._name} was traced with {described or 'no arguments'}; arguments whose values Python has to "
                    "know, as in `if` or range(), are named in static_argnames"
                )
                raise

    def _log(self, arguments: Arguments) -> None:
        described = self._parameters.describe(arguments)
        if not self._concrete:
            _logger.debug("%s is traced: %s", self._name, described)
        else:
            level = logging.WARNING if self.traces >= _MANY else logging.DEBUG
            text = "; ".join(changes(self._described, described))
            hint = ": sizes that change are None in input_signature" if level == logging.WARNING else ""
            _logger.log(level, "%s is traced again, for the %d. time: %s%s", self._name, self.traces + 1, text, hint)
        self._described = described


def function(
    function: Callable[..., Any] | None = None,
    *,
    graph: Graph | None = None,
    session: Session | SyncSession | None = None,
    input_signature: Sequence[Any] | None = None,
    static_argnames: str | Sequence[str] = (),
) -> Any:
    """Make an awaitable function of a Python function that builds operations; as a decorator, or called with it.

    The Python function is called with placeholders for arrays and numbers, once for each combination of dtypes, shapes
    and constants, and what it has built is run from then on. All its effects happen in the order of its lines,
    also those in branches and loop bodies: updates of variables, prints, checks and stateful calls of Python.

    * Arrays, NumPy scalars, ints, floats and structures of them are tensors; bools, strings, None and other hashable
      objects are constants, as is what `static_argnames` names, and the default of a parameter that a call leaves out.
    * Variables are made once, however often the function is traced, and have their initial values in each session
      that it runs in.
    * Called while another function is traced, or with tensors, it builds its operations there and returns tensors.
    * On a method, each object has traces and variables of its own.

    Parameters
    ----------
    function : callable
        Takes and returns structures of tensors.
    graph : Graph, optional
        What the traces are built in: that of `session`, or the one that is open, or one that all such functions share.
    session : Session or SyncSession, optional
        What the function runs in. Without one, functions of a graph share a session for each event loop, which is
        closed with the loop: what variables hold then lasts as long.
    input_signature : sequence of structures of TensorSpec, optional
        Dtypes and shapes of the first parameters, so that sizes which are None there need no traces of their own.
    static_argnames : str or sequence of str, optional
        Parameters whose values Python has to know: each value has a trace of its own.

    Returns
    -------
    Function
        ``await f(x)`` gives arrays in the structure that the function returns, ``f.sync(x)`` does so in scripts.

    Raises
    ------
    GraphError
        If `input_signature` or `static_argnames` do not fit the function, or `graph` is not that of `session`.

    Examples
    --------
    >>> import asyncio, tagloom as tg
    >>> @tg.function
    ... def collatz(n):
    ...     even = lambda n: tg.equal(n % 2, 0)
    ...     step = lambda n, k: (tg.cond(even(n), lambda: n // 2, lambda: 3 * n + 1), k + 1)
    ...     return tg.while_loop(lambda n, k: n > 1, step, [n, 0])[1]
    >>> async def main():
    ...     return int(await collatz(27))
    >>> asyncio.run(main())
    111
    """
    options: dict[str, Any] = {
        "graph": graph,
        "session": session,
        "input_signature": input_signature,
        "static_argnames": static_argnames,
    }
    if function is None:
        return partial(_function, **options)
    return Function(function, **options)


_function = function  # its parameter has the same name


def _graph_of(graph: Graph | None, session: Session | SyncSession | None) -> Graph:
    if session is not None and graph is not None and session.graph is not graph:
        raise GraphError("the session is of another graph", wanted=graph, got=session.graph, hint="leave graph= out")
    if session is not None:
        found: Graph = session.graph
        return found
    if graph is not None:
        return graph
    region = scopes.current().region
    return _common if region is None else region.graph
