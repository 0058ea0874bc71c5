"""Types of `run` and `make_step`, of a Session and a SyncSession: the types of values by the types of fetches.

A tensor or variable yields an array, an operation None, a SparseTensor its value; a tuple of two or three of them
yields a tuple of their values, a list or dict of tensors a list or dict of arrays. Deeper structures, named tuples,
dataclasses and registered containers yield Any.
"""

# The four protocols have the same overloads: type checkers cannot abstract over whether a result is awaited, returned,
# or returned by a step.

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar, Unpack, cast, overload

from ...frontend.state.variables import Variable
from ...ir.tensor import Tensor
from ...ir.typed import Array, Fetchable, NamedFields
from ..steps.run_options import Feeds, RunKeywords, SyncRunKeywords
from ..steps.step import Step
from .sync_handles import SyncStep

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
K = TypeVar("K")
V = TypeVar("V")
Tensors: TypeAlias = list[Tensor] | list[Variable]


class Run(Protocol):
    """Type of `Session.run`."""

    @overload
    def __call__(
        self, fetches: NamedFields, feeds: Feeds = None, **options: Unpack[RunKeywords]
    ) -> Coroutine[Any, Any, Any]: ...
    @overload
    def __call__(
        self, fetches: Fetchable[V], feeds: Feeds = None, **options: Unpack[RunKeywords]
    ) -> Coroutine[Any, Any, V]: ...
    @overload
    def __call__(
        self, fetches: tuple[Fetchable[A], Fetchable[B]], feeds: Feeds = None, **options: Unpack[RunKeywords]
    ) -> Coroutine[Any, Any, tuple[A, B]]: ...
    @overload
    def __call__(
        self,
        fetches: tuple[Fetchable[A], Fetchable[B], Fetchable[C]],
        feeds: Feeds = None,
        **options: Unpack[RunKeywords],
    ) -> Coroutine[Any, Any, tuple[A, B, C]]: ...
    @overload
    def __call__(
        self, fetches: tuple[Fetchable[V], ...], feeds: Feeds = None, **options: Unpack[RunKeywords]
    ) -> Coroutine[Any, Any, tuple[V, ...]]: ...
    @overload
    def __call__(
        self, fetches: Tensors, feeds: Feeds = None, **options: Unpack[RunKeywords]
    ) -> Coroutine[Any, Any, list[Array]]: ...
    @overload
    def __call__(
        self, fetches: list[Fetchable[Array]], feeds: Feeds = None, **options: Unpack[RunKeywords]
    ) -> Coroutine[Any, Any, list[Array]]: ...
    @overload
    def __call__(
        self, fetches: list[Any], feeds: Feeds = None, **options: Unpack[RunKeywords]
    ) -> Coroutine[Any, Any, list[Any]]: ...
    @overload
    def __call__(
        self, fetches: Mapping[K, Fetchable[Array]], feeds: Feeds = None, **options: Unpack[RunKeywords]
    ) -> Coroutine[Any, Any, dict[K, Array]]: ...
    @overload
    def __call__(
        self, fetches: Any, feeds: Feeds = None, **options: Unpack[RunKeywords]
    ) -> Coroutine[Any, Any, Any]: ...


class SyncRun(Protocol):
    """Type of `SyncSession.run`."""

    @overload
    def __call__(self, fetches: NamedFields, feeds: Feeds = None, **options: Unpack[SyncRunKeywords]) -> Any: ...
    @overload
    def __call__(self, fetches: Fetchable[V], feeds: Feeds = None, **options: Unpack[SyncRunKeywords]) -> V: ...
    @overload
    def __call__(
        self, fetches: tuple[Fetchable[A], Fetchable[B]], feeds: Feeds = None, **options: Unpack[SyncRunKeywords]
    ) -> tuple[A, B]: ...
    @overload
    def __call__(
        self,
        fetches: tuple[Fetchable[A], Fetchable[B], Fetchable[C]],
        feeds: Feeds = None,
        **options: Unpack[SyncRunKeywords],
    ) -> tuple[A, B, C]: ...
    @overload
    def __call__(
        self, fetches: tuple[Fetchable[V], ...], feeds: Feeds = None, **options: Unpack[SyncRunKeywords]
    ) -> tuple[V, ...]: ...
    @overload
    def __call__(self, fetches: Tensors, feeds: Feeds = None, **options: Unpack[SyncRunKeywords]) -> list[Array]: ...
    @overload
    def __call__(
        self, fetches: list[Fetchable[Array]], feeds: Feeds = None, **options: Unpack[SyncRunKeywords]
    ) -> list[Array]: ...
    @overload
    def __call__(self, fetches: list[Any], feeds: Feeds = None, **options: Unpack[SyncRunKeywords]) -> list[Any]: ...
    @overload
    def __call__(
        self, fetches: Mapping[K, Fetchable[Array]], feeds: Feeds = None, **options: Unpack[SyncRunKeywords]
    ) -> dict[K, Array]: ...
    @overload
    def __call__(self, fetches: Any, feeds: Feeds = None, **options: Unpack[SyncRunKeywords]) -> Any: ...


class MakeStep(Protocol):
    """Type of `Session.make_step`."""

    @overload
    def __call__(self, fetches: NamedFields, feeds: Sequence[Any] = ()) -> Step[Any]: ...
    @overload
    def __call__(self, fetches: Fetchable[V], feeds: Sequence[Any] = ()) -> Step[V]: ...
    @overload
    def __call__(self, fetches: tuple[Fetchable[A], Fetchable[B]], feeds: Sequence[Any] = ()) -> Step[tuple[A, B]]: ...
    @overload
    def __call__(
        self, fetches: tuple[Fetchable[A], Fetchable[B], Fetchable[C]], feeds: Sequence[Any] = ()
    ) -> Step[tuple[A, B, C]]: ...
    @overload
    def __call__(self, fetches: tuple[Fetchable[V], ...], feeds: Sequence[Any] = ()) -> Step[tuple[V, ...]]: ...
    @overload
    def __call__(self, fetches: Tensors, feeds: Sequence[Any] = ()) -> Step[list[Array]]: ...
    @overload
    def __call__(self, fetches: list[Fetchable[Array]], feeds: Sequence[Any] = ()) -> Step[list[Array]]: ...
    @overload
    def __call__(self, fetches: list[Any], feeds: Sequence[Any] = ()) -> Step[list[Any]]: ...
    @overload
    def __call__(self, fetches: Mapping[K, Fetchable[Array]], feeds: Sequence[Any] = ()) -> Step[dict[K, Array]]: ...
    @overload
    def __call__(self, fetches: Any, feeds: Sequence[Any] = ()) -> Step[Any]: ...


class SyncMakeStep(Protocol):
    """Type of `SyncSession.make_step`."""

    @overload
    def __call__(self, fetches: NamedFields, feeds: Sequence[Any] = ()) -> SyncStep[Any]: ...
    @overload
    def __call__(self, fetches: Fetchable[V], feeds: Sequence[Any] = ()) -> SyncStep[V]: ...
    @overload
    def __call__(
        self, fetches: tuple[Fetchable[A], Fetchable[B]], feeds: Sequence[Any] = ()
    ) -> SyncStep[tuple[A, B]]: ...
    @overload
    def __call__(
        self, fetches: tuple[Fetchable[A], Fetchable[B], Fetchable[C]], feeds: Sequence[Any] = ()
    ) -> SyncStep[tuple[A, B, C]]: ...
    @overload
    def __call__(self, fetches: tuple[Fetchable[V], ...], feeds: Sequence[Any] = ()) -> SyncStep[tuple[V, ...]]: ...
    @overload
    def __call__(self, fetches: Tensors, feeds: Sequence[Any] = ()) -> SyncStep[list[Array]]: ...
    @overload
    def __call__(self, fetches: list[Fetchable[Array]], feeds: Sequence[Any] = ()) -> SyncStep[list[Array]]: ...
    @overload
    def __call__(self, fetches: list[Any], feeds: Sequence[Any] = ()) -> SyncStep[list[Any]]: ...
    @overload
    def __call__(
        self, fetches: Mapping[K, Fetchable[Array]], feeds: Sequence[Any] = ()
    ) -> SyncStep[dict[K, Array]]: ...
    @overload
    def __call__(self, fetches: Any, feeds: Sequence[Any] = ()) -> SyncStep[Any]: ...


def typed_run(method: Callable[..., Any]) -> Run:
    """Return a method unchanged, with the type of `Session.run`."""
    return cast(Run, method)


def typed_sync_run(method: Callable[..., Any]) -> SyncRun:
    """Return a method unchanged, with the type of `SyncSession.run`."""
    return cast(SyncRun, method)


def typed_make_step(method: Callable[..., Any]) -> MakeStep:
    """Return a method unchanged, with the type of `Session.make_step`."""
    return cast(MakeStep, method)


def typed_sync_make_step(method: Callable[..., Any]) -> SyncMakeStep:
    """Return a method unchanged, with the type of `SyncSession.make_step`."""
    return cast(SyncMakeStep, method)
