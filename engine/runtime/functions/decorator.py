"""``tagloom.function``, with what type checkers know of the functions that it makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

from ...ir.graph import Graph
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...ir.typed import Array, Fetchable, NamedFields
from ..session import Session
from ..sync import SyncSession
from .calls import Call
from .function import MOST_TRACES, Function

if TYPE_CHECKING:
    from .calls import DictCall, ListCall, PairCall, TensorCall, TripleCall

P = ParamSpec("P")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
K = TypeVar("K")


class FunctionOptions(TypedDict, total=False):
    """Keyword arguments of `function`."""

    graph: Graph | None
    session: Session | SyncSession | None
    input_signature: Sequence[Any] | None
    static_argnames: str | Sequence[str]
    max_traces: int
    blocking: bool | None


class Decorator(Protocol):
    """Decorator that `function` returns where it was given options alone."""

    @overload
    def __call__(self, function: Callable[P, NamedFields], /) -> Function[P, Any, Any]: ...
    @overload
    def __call__(self, function: Callable[P, Fetchable[Array]], /) -> Function[P, Array, TensorCall[Array]]: ...
    @overload
    def __call__(self, function: Callable[P, Operation], /) -> Function[P, None, Call[None]]: ...
    @overload
    def __call__(
        self, function: Callable[P, tuple[Fetchable[Array], Fetchable[Array]]], /
    ) -> Function[P, tuple[Array, Array], PairCall[tuple[Array, Array]]]: ...
    @overload
    def __call__(
        self, function: Callable[P, tuple[Fetchable[Array], Fetchable[Array], Fetchable[Array]]], /
    ) -> Function[P, tuple[Array, Array, Array], TripleCall[tuple[Array, Array, Array]]]: ...
    @overload
    def __call__(self, function: Callable[P, list[Tensor]], /) -> Function[P, list[Array], ListCall[list[Array]]]: ...
    @overload
    def __call__(
        self, function: Callable[P, dict[K, Tensor]], /
    ) -> Function[P, dict[K, Array], DictCall[K, dict[K, Array]]]: ...
    @overload
    def __call__(self, function: Callable[P, Any], /) -> Function[P, Any, Any]: ...


@overload
def function(function: Callable[P, NamedFields], **options: Unpack[FunctionOptions]) -> Function[P, Any, Any]: ...
@overload
def function(
    function: Callable[P, Fetchable[Array]], **options: Unpack[FunctionOptions]
) -> Function[P, Array, TensorCall[Array]]: ...
@overload
def function(function: Callable[P, Operation], **options: Unpack[FunctionOptions]) -> Function[P, None, Call[None]]: ...
@overload
def function(
    function: Callable[P, tuple[Fetchable[Array], Fetchable[Array]]], **options: Unpack[FunctionOptions]
) -> Function[P, tuple[Array, Array], PairCall[tuple[Array, Array]]]: ...
@overload
def function(
    function: Callable[P, tuple[Fetchable[Array], Fetchable[Array], Fetchable[Array]]],
    **options: Unpack[FunctionOptions],
) -> Function[P, tuple[Array, Array, Array], TripleCall[tuple[Array, Array, Array]]]: ...
@overload
def function(
    function: Callable[P, list[Tensor]], **options: Unpack[FunctionOptions]
) -> Function[P, list[Array], ListCall[list[Array]]]: ...
@overload
def function(
    function: Callable[P, dict[K, Tensor]], **options: Unpack[FunctionOptions]
) -> Function[P, dict[K, Array], DictCall[K, dict[K, Array]]]: ...
@overload
def function(function: Callable[P, Any], **options: Unpack[FunctionOptions]) -> Function[P, Any, Any]: ...
@overload
def function(**options: Unpack[FunctionOptions]) -> Decorator: ...
def function(
    function: Callable[..., Any] | None = None,
    *,
    graph: Graph | None = None,
    session: Session | SyncSession | None = None,
    input_signature: Sequence[Any] | None = None,
    static_argnames: str | Sequence[str] = (),
    max_traces: int = MOST_TRACES,
    blocking: bool | None = None,
) -> Any:
    """Make an awaitable function of a Python function that builds operations; as a decorator, or called with it.

    The Python function is called with placeholders for arrays and numbers, once for each combination of dtypes, shapes
    and constants, and what it has built is run from then on. All its effects happen in the order of its lines,
    also those in branches and loop bodies: updates of variables, prints, checks and stateful calls of Python.

    * Arrays, NumPy scalars, ints, floats and structures of them are tensors; bools, strings, None and other hashable
      objects are constants, as is what `static_argnames` names, and the default of a parameter that a call leaves out.
    * Variables are made once, however often the function is traced, and each has one value wherever the function is
      called. Calls on two event loops that use a variable at the same time are refused.
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
        closed with the loop, and one for :meth:`Function.sync`. Variables follow the calls from session to session,
        also to the event loop of another ``asyncio.run`` and into a process that is forked: their values last as long
        as the functions of the graph do.
    input_signature : sequence of structures of TensorSpec, optional
        Dtypes and shapes of the first parameters, so that sizes which are None there need no traces of their own.
    static_argnames : str or sequence of str, optional
        Parameters whose values Python has to know: each value has a trace of its own.
    max_traces : int, optional
        Traces that are kept with their compiled steps. One more takes the place of the trace that was called least
        recently, which is traced again when it is called again.
    blocking : bool, optional
        Whether :meth:`Function.sync` may keep an event loop waiting that runs in the calling thread; by default only
        that of a notebook.

    Returns
    -------
    Function
        ``await f(x)`` gives arrays in the structure that the function returns, ``f.sync(x)`` does so in scripts.

    Raises
    ------
    GraphError
        If `input_signature` or `static_argnames` do not fit the function, `graph` is not that of `session`, or
        `max_traces` is less than 1.

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
        "max_traces": max_traces,
        "blocking": blocking,
    }
    if function is None:
        return partial(Function, **options)
    return Function(function, **options)
