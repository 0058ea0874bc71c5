"""Calls of functions: coroutines with an error message for uses in the place of their results."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ...base.errors import DtypeError
from ...ir.tensor import Tensor

# Special methods that need the result, without underscores; those of `_BINARY` have a reflected form too.
_BINARY = "add sub mul truediv floordiv mod divmod pow matmul lshift rshift and xor or"
_OTHERS = (
    "lt le gt ge neg pos abs invert iter len getitem setitem contains int float complex index round "
    "array array_ufunc array_function"
)


K = TypeVar("K")
V_co = TypeVar("V_co", covariant=True)


class Call(Coroutine[Any, Any, V_co]):
    """Call of a function, to be awaited once: alone, or by a task, ``asyncio.gather`` and the like.

    A call is a coroutine, accepted wherever coroutines are. Operators and conversions, which need the result, raise a
    DtypeError with a hint at the ``await``.

    Parameters
    ----------
    name : str
        Name of the function.
    coroutine : coroutine
        Coroutine computing the result.

    Examples
    --------
    >>> import tagloom as tg
    >>> double = tg.function(lambda x: 2 * x)
    >>> call = double(3.0)
    >>> call
    <call of lambda that is not awaited: await it for the result>
    >>> call.close()
    """

    __slots__ = ("__weakref__", "_coroutine", "_is_awaited", "_name")
    __hash__ = object.__hash__

    def __init__(self, name: str, coroutine: Coroutine[Any, Any, V_co]) -> None:
        self._name = name
        self._coroutine = coroutine
        # An awaiting task holds the inner coroutine and may drop this object first; __del__ then must not warn.
        self._is_awaited = False

    def __await__(self) -> Generator[Any, Any, V_co]:
        """Return the iterator of the awaited coroutine."""
        self._is_awaited = True
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """Resume the call, as an event loop does."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error inside the waiting call, as an event loop does for a cancellation."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """End the call; a call not begun computes nothing."""
        self._coroutine.close()

    def __del__(self) -> None:
        coroutine = getattr(self, "_coroutine", None)
        if coroutine is not None and not self._is_awaited and is_unbegun(coroutine):
            coroutine.close()  # otherwise the coroutine's destructor would warn as well, without the function's name
            text = f"{self._name} was called and its result was never awaited: `await {self._name}(...)`"
            warnings.warn(text, RuntimeWarning, source=self, stacklevel=2)

    def __repr__(self) -> str:
        if is_unbegun(self._coroutine):
            return f"<call of {self._name} that is not awaited: await it for the result>"
        return f"<call of {self._name}: {'ended' if self.cr_frame is None else 'under way'}>"

    def __format__(self, spec: str) -> str:
        if spec:
            self._refuse_use(f"formatted by {spec!r}")
        return repr(self)

    def __eq__(self, other: object) -> bool:
        # asyncio.gather keeps coroutines in a dict, which compares them; a comparison with a value is a user's mistake.
        if isinstance(other, Coroutine):
            return self is other
        self._refuse_use("compared with ==")

    def __getattr__(self, name: str) -> Any:
        if name in ("__name__", "__qualname__"):  # shown by tasks; coroutine objects have both, instances do not
            return self._name
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"a call of {self._name} has no attribute {name!r}; its result may have: `(await {self._name}(...)).{name}`"
        )

    def __bool__(self) -> bool:
        """Refuse the call as a condition, except in the repr of a task."""
        # From Python 3.12 on, asyncio tests the truth of a task's coroutine when it writes the task's repr.
        if sys._getframe(1).f_globals.get("__name__") == "asyncio.base_tasks":
            return True
        self._refuse_use("used by __bool__")

    # ---- attributes of coroutines that debuggers and tasks read

    @property
    def cr_frame(self) -> Any:
        """Frame of the coroutine; None once it has ended."""
        return self._coroutine.cr_frame  # type: ignore[attr-defined]

    @property
    def cr_running(self) -> bool:
        """True while the coroutine runs."""
        return self._coroutine.cr_running  # type: ignore[attr-defined, no-any-return]

    @property
    def cr_code(self) -> Any:
        """Code of the coroutine."""
        return self._coroutine.cr_code  # type: ignore[attr-defined]

    @property
    def cr_await(self) -> Any:
        """Object awaited by the coroutine."""
        return self._coroutine.cr_await  # type: ignore[attr-defined]

    def _refuse_use(self, how: str) -> NoReturn:
        raise DtypeError(
            f"the result of {self._name} is not there yet: it was called, not awaited",
            wanted=f"await {self._name}(...)",
            got=f"{self._name}(...) {how}",
            hint=f"`await {self._name}(...)`, or in a script `{self._name}.sync(...)`",
        )


def is_unbegun(coroutine: Any) -> bool:
    """Return True if a coroutine has not been awaited yet."""
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED


def _make_refusal(name: str) -> Callable[..., NoReturn]:
    """Return a special method that raises the error of a call that was not awaited."""

    def refuse(self: Call[Any], *_: Any, **__: Any) -> NoReturn:
        self._refuse_use(f"used by {name}")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


for _method in f"{_BINARY} {_OTHERS}".split():
    setattr(Call, f"__{_method}__", _make_refusal(f"__{_method}__"))
for _method in _BINARY.split():
    setattr(Call, f"__r{_method}__", _make_refusal(f"__r{_method}__"))


if TYPE_CHECKING:
    # A call returns tensors where a graph is built (in another function, or with tensors as arguments), and elsewhere a
    # coroutine of arrays. No static type of an argument decides which, so each of these types allows both uses.

    class TensorCall(Tensor, Call[V_co]):  # pyright: ignore[reportGeneralTypeIssues]
        """Call of a function returning a tensor."""

    class PairCall(tuple[Tensor, Tensor], Call[V_co]):  # pyright: ignore[reportGeneralTypeIssues]
        """Call of a function returning two tensors."""

    class TripleCall(tuple[Tensor, Tensor, Tensor], Call[V_co]):  # pyright: ignore[reportGeneralTypeIssues]
        """Call of a function returning three tensors."""

    class ListCall(list[Tensor], Call[V_co]):  # type: ignore[misc]
        """Call of a function returning a list of tensors."""

    class DictCall(dict[K, Tensor], Call[V_co]):  # type: ignore[misc]
        """Call of a function returning a dict of tensors."""

    class ValueCall(tuple[Tensor, Any], Call[V_co]):  # pyright: ignore[reportGeneralTypeIssues]
        """Call of a function returning a tensor and an auxiliary value."""
