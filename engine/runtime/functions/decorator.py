"""``tagloom.function``, with the types of the functions made by the decorator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

from ...ir.graph import Graph
from ...ir.misuse import refuses_misuse
from ...ir.operation import Operation
from ...ir.tensor import Tensor
from ...ir.typed import Array, Fetchable, NamedFields
from ..session.session import Session
from ..session.sync import SyncSession
from .calls import Call
from .function import Function
from .options import MOST_TRACES, FunctionOptions

if TYPE_CHECKING:
    from .calls import DictCall, ListCall, PairCall, TensorCall, TripleCall

P = ParamSpec("P")
K = TypeVar("K")


class FunctionKwargs(TypedDict, total=False):
    """Keyword arguments of `function`."""

    graph: Graph | None
    session: Session | SyncSession | None
    input_signature: Sequence[Any] | None
    static_argnames: str | Sequence[str]
    max_traces: int
    blocking: bool | None


class Decorator(Protocol):
    """Decorator returned by `function` when called with options alone."""

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
def function(function: Callable[P, NamedFields], **options: Unpack[FunctionKwargs]) -> Function[P, Any, Any]: ...
@overload
def function(
    function: Callable[P, Fetchable[Array]], **options: Unpack[FunctionKwargs]
) -> Function[P, Array, TensorCall[Array]]: ...
@overload
def function(function: Callable[P, Operation], **options: Unpack[FunctionKwargs]) -> Function[P, None, Call[None]]: ...
@overload
def function(
    function: Callable[P, tuple[Fetchable[Array], Fetchable[Array]]], **options: Unpack[FunctionKwargs]
) -> Function[P, tuple[Array, Array], PairCall[tuple[Array, Array]]]: ...
@overload
def function(
    function: Callable[P, tuple[Fetchable[Array], Fetchable[Array], Fetchable[Array]]],
    **options: Unpack[FunctionKwargs],
) -> Function[P, tuple[Array, Array, Array], TripleCall[tuple[Array, Array, Array]]]: ...
@overload
def function(
    function: Callable[P, list[Tensor]], **options: Unpack[FunctionKwargs]
) -> Function[P, list[Array], ListCall[list[Array]]]: ...
@overload
def function(
    function: Callable[P, dict[K, Tensor]], **options: Unpack[FunctionKwargs]
) -> Function[P, dict[K, Array], DictCall[K, dict[K, Array]]]: ...
@overload
def function(function: Callable[P, Any], **options: Unpack[FunctionKwargs]) -> Function[P, Any, Any]: ...
@overload
def function(**options: Unpack[FunctionKwargs]) -> Decorator: ...
@refuses_misuse
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
    """Make an awaitable function of a Python function that builds operations; also usable as a decorator.

    The Python function is called with placeholders for arrays and numbers, once for each combination of dtypes, shapes
    and constants, and the operations built are run from then on. All effects happen in the order of the function's
    lines, also in branches and loop bodies: updates of variables, prints, checks and stateful calls of Python.

    * Arrays, NumPy scalars, ints, floats and structures of them are tensors; bools, strings, None and other hashable
      objects are constants, as are parameters in `static_argnames` and defaults of omitted parameters.
    * Variables are made once, however often the function is traced, and each has a single value wherever the function
      is called. Concurrent calls on two event loops that use the same variable are refused.
    * A call while another function is traced, or with tensors, builds operations in place and returns tensors.
    * On a method, each object has traces and variables of its own.

    Parameters
    ----------
    function : callable
        Takes and returns structures of tensors.
    graph : Graph, optional
        Graph of the traces; by default the graph of `session`, or the open graph, or a graph shared by all such
        functions.
    session : Session or SyncSession, optional
        Session of the calls. By default, functions of a graph share a session for each event loop, which is closed with
        the loop, and another for :meth:`Function.sync`. Variables follow the calls from session to session, also to the
        event loop of another ``asyncio.run`` and into a forked process: their values last as long as the functions of
        the graph.
    input_signature : sequence of structures of TensorSpec, optional
        Dtypes and shapes of the first parameters; sizes of None need no traces of their own.
    static_argnames : str or sequence of str, optional
        Parameters whose values are constants: each value has a trace of its own.
    max_traces : int, optional
        Most traces kept with their compiled steps. A further trace replaces the least recently called trace, which is
        traced again when called again.
    blocking : bool, optional
        True to let :meth:`Function.sync` block a running event loop of the calling thread, False to refuse such calls;
        by default only a notebook's loop may be blocked.

    Returns
    -------
    Function
        ``await f(x)`` returns arrays in the structure of the function's result, and so does ``f.sync(x)`` in scripts.

    Raises
    ------
    GraphError
        If `input_signature` or `static_argnames` do not fit the function, `graph` is not the graph of `session`, or
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
    options = FunctionOptions(graph, session, input_signature, static_argnames, max_traces, blocking)
    if function is None:
        return partial(Function, options=options)
    return Function(function, options)
