"""Comparison of a program's results under several settings, executors and devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from ..base import nest
from ..base.array_like import as_array
from ..base.dtypes import as_dtype
from ..base.errors import GraphError
from ..base.settings import DEFAULTS, Settings, Switches
from ..base.wording import format_number
from ..ir.apply import convert_to_tensor
from ..ir.graph import Graph
from ..ir.misuse import refuses_misuse
from ..ops.control.placeholders import placeholder
from ..runtime.session.session import Session
from .differences import Array
from .running import initialize_variables, run_to_end

Variant = Settings | Mapping[str, Any]

_DEFAULT: tuple[Variant, ...] = ({}, DEFAULTS.without("all"), {"executor": "reference"})
_TOLERANCES = {8: 1e-10, 4: 1e-5, 2: 1e-2}  # by bytes of a real number


@refuses_misuse
def assert_same_under(
    *variants: Variant,
    function: Callable[..., Any] | None = None,
    arguments: Sequence[Any] = (),
    fetches: Any = None,
    feeds: Mapping[Any, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> Any:
    """Run a program under several settings, executors or devices, and fail unless all results are equal.

    Parameters
    ----------
    *variants : Settings or mapping
        Options of a :class:`Session` for each run: ``{"executor": "reference"}``, ``{"devices": 2}``; Settings alone
        stand for ``{"settings": ...}``. The other runs are compared with the first. By default the program runs with
        default settings, without fast paths, and by the reference executor.
    function : callable, optional
        ``function(*arguments)`` builds a structure of tensors from tensors.
    arguments : sequence of structures of array-like, optional
        Arguments of the function.
    fetches, feeds : optional
        Instead of a function: fetches and feeds of a step of an existing graph, as for :meth:`Session.run`.
    rtol, atol : float, optional
        An element may differ by ``atol + rtol * m``, `m` being the largest finite magnitude of its array. Both are by
        default 1e-10 for float64, 1e-5 for float32, 1e-2 for float16 and bfloat16. If both are 0, all bits must be
        equal, also of signed zeros and of NaN.

    Returns
    -------
    structure of numpy.ndarray
        The first run's results.

    Raises
    ------
    AssertionError
        If a run's values, dtypes or shapes differ from the first run's, or another run fails; the message names the
        variant, the result and the element.
    GraphError
        If not exactly one of `function` and `fetches` is passed, or a single variant.
    TagloomError
        If the first run fails.

    Notes
    -----
    Each run has a session of its own, whose variables begin with their initial values.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> x = np.float32([1.0, 2.0])
    >>> tg.testing.assert_same_under(function=lambda x: tg.tanh(x) * 2.0 + 1.0, arguments=[x]).dtype
    dtype('float32')

    >>> variants = tg.Settings(), tg.Settings(fuse=False), {"devices": 2}
    >>> tg.testing.assert_same_under(*variants, function=lambda x: x * 2.0 + 1.0, arguments=[x], rtol=0, atol=0)
    array([3., 5.], dtype=float32)

    >>> calls = []
    >>> def count():
    ...     return tg.py_function(lambda: calls.append(0) or len(calls), [], "int32", output_shapes=[])
    >>> tg.testing.assert_same_under({}, {"executor": "reference"}, function=count)
    Traceback (most recent call last):
    AssertionError: results differ under executor='reference'
      wanted: 1 under the session's defaults
      got: 2
      result: the result, int32[]
      difference: 1; 1 of 1 elements differ, tolerance 0
    """
    variants = variants or _DEFAULT
    if (function is None) == (fetches is None):
        raise GraphError(
            "no program, or two of them",
            wanted="function= with arguments=, or fetches= with feeds=",
            got="neither" if function is None else "both",
            hint="assert_same_under(settings, function=f, arguments=[x])",
        )
    if len(variants) < 2:
        raise GraphError(
            "there is nothing to compare with",
            wanted="two variants or more, or none for the usual ones",
            got=len(variants),
            hint="pass {} first for a session's defaults",
        )
    if function is not None:
        graph, fetches, feeds = _build_graph(function, arguments)
    else:
        graph = _graph_of(fetches)
    return run_to_end(_compare_all(graph, fetches, dict(feeds or {}), [_options_of(v) for v in variants], (rtol, atol)))


def _build_graph(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Graph, Any, dict[Any, Any]]:
    """Return a function's graph, and the fetches and feeds of its step."""
    arrays = [as_array(leaf) for leaf in nest.flatten(list(arguments))]
    graph = Graph()
    with graph.as_default():
        xs = [placeholder(as_dtype(a.dtype), a.shape, name=f"argument_{k}") for k, a in enumerate(arrays)]
        results = function(*nest.pack_as(list(arguments), list(xs)))
        fetches = nest.map_structure(convert_to_tensor, results)
    return graph, fetches, dict(zip(xs, arrays, strict=True))


def _graph_of(fetches: object) -> Graph:
    """Return the graph of the first fetch that has one; GraphError if all are names."""
    for leaf in nest.flatten(fetches):
        graph = getattr(leaf, "graph", None)
        if isinstance(graph, Graph):
            return graph
    raise GraphError(
        "the fetches name no graph",
        wanted="a structure with a tensor, operation or variable",
        got=repr(fetches),
        hint="pass tensors instead of their names",
    )


def _options_of(variant: Variant) -> dict[str, Any]:
    return {"settings": variant} if isinstance(variant, Settings) else dict(variant)


async def _compare_all(
    graph: Graph,
    fetches: object,
    feeds: dict[Any, Any],
    variants: Sequence[dict[str, Any]],
    tolerances: tuple[float | None, float | None],
) -> Any:
    """Return the first variant's results, or raise AssertionError for the first difference of another variant."""
    first, *others = variants
    wanted = await _run_once(graph, fetches, feeds, first)
    for options in others:
        try:
            found = await _run_once(graph, fetches, feeds, options)
        except Exception as error:
            raise AssertionError(
                f"the step fails under {_describe_options(options)} alone\n"
                f"  wanted: the results under {_describe_options(first)}\n"
                f"  got: {type(error).__name__}: {error}"
            ) from error
        for (label, left), (_, right) in zip(nest.walk(wanted), nest.walk(found), strict=True):
            # Operations have no value to compare, only None.
            problem = None if left is None else _describe_difference(np.asarray(left), np.asarray(right), *tolerances)
            if problem is not None:
                want, got, result, rest = problem
                raise AssertionError(
                    f"results differ under {_describe_options(options)}\n"
                    f"  wanted: {want} under {_describe_options(first)}\n"
                    f"  got: {got}\n  result: {label or 'the result'}, {result}\n  difference: {rest}"
                )
    return wanted


async def _run_once(graph: Graph, fetches: object, feeds: dict[Any, Any], options: dict[str, Any]) -> Any:
    async with Session(graph, **options) as session:
        await initialize_variables(session)
        return await session.run(fetches, feeds)


def _describe_options(options: Mapping[str, Any]) -> str:
    """Return the text of a variant: its options that differ from a session's defaults."""
    parts = []
    for name, value in options.items():
        if isinstance(value, Settings):
            changed = {**_find_changes(value, DEFAULTS), **_find_changes(value.switches, DEFAULTS.switches)}
            inner = ", ".join(f"{k}={v!r}" for k, v in list(changed.items())[:3])
            parts.append(f"Settings({inner}{f' and {len(changed) - 3} more' if len(changed) > 3 else ''})")
        else:
            parts.append(f"{name}={value!r}")
    return ", ".join(parts).replace("Settings()", "the session's defaults") or "the session's defaults"


def _find_changes(options: Settings | Switches, default: Settings | Switches) -> dict[str, object]:
    """Return the knobs or switches that differ from their defaults, by name."""
    values = {f.name: getattr(options, f.name) for f in fields(options) if f.name != "switches"}
    return {name: value for name, value in values.items() if value != getattr(default, name)}


def _describe_difference(
    left: Array, right: Array, rtol: float | None, atol: float | None
) -> tuple[str, str, str, str] | None:
    """Return texts of the largest difference of two arrays: both values, the place and the amount; None if equal."""
    form = f"{left.dtype}{list(left.shape)}"
    if left.dtype != right.dtype or left.shape != right.shape:
        return form, f"{right.dtype}{list(right.shape)}", form, "dtype or shape"
    if not as_dtype(left.dtype).is_differentiable:
        wrong, bound = np.asarray(left != right), 0.0
        apart = np.zeros(left.shape) if left.dtype.kind in "OSUTb" else np.abs(left.astype(float) - right.astype(float))
    else:
        wrong, apart, bound = _compare_numbers(left, right, rtol, atol)
    if not wrong.any():
        return None
    # The largest difference is shown; a difference from infinity or NaN counts as infinite, and equal elements as less
    # than the elements with differing bits alone, whose difference is 0.
    ranks = np.where(wrong, np.where(np.isfinite(apart), apart, np.inf), -1.0)
    place = tuple(int(k) for k in np.unravel_index(int(np.argmax(ranks)), ranks.shape)) if left.shape else ()
    where = f"{form}, element {list(place)}" if place else form
    count = f"{int(wrong.sum())} of {wrong.size} elements differ"
    size = "bits only" if apart[place] == 0 and left.dtype.kind not in "OSUTb" else format_number(float(apart[place]))
    amount = count if left.dtype.kind in "OSUTb" else f"{size}; {count}, tolerance {format_number(bound)}"
    return _format_value(left[place]), _format_value(right[place]), where, amount


def _compare_numbers(left: Array, right: Array, rtol: float | None, atol: float | None) -> tuple[Array, Array, float]:
    """Return a mask of differing elements, the differences, and the tolerance."""
    wide = np.complex128 if left.dtype.kind == "c" else np.float64
    a, b = left.astype(wide), right.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(a - b)
    if rtol == 0 and atol == 0:
        size = max(left.dtype.itemsize, 1)
        # Compared as bytes, which tell 0.0 from -0.0, and find equal bits of NaN equal.
        bits = [np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(*x.shape, size) for x in (left, right)]
        return np.asarray((bits[0] != bits[1]).any(axis=-1)), apart, 0.0
    default = _TOLERANCES[left.dtype.itemsize // (2 if left.dtype.kind == "c" else 1)]
    finite = np.isfinite(a)
    # One bound for the whole array: rounding errors of sums scale with the largest terms, not with each result.
    bound = (default if atol is None else atol) + (default if rtol is None else rtol) * float(
        np.abs(a[finite]).max(initial=0.0)
    )
    same = (a == b) | (np.isnan(a) & np.isnan(b))  # infinities of equal sign too
    return ~(same | (finite & np.isfinite(b) & (apart <= bound))), apart, bound


def _format_value(value: object) -> str:
    return repr(value.item() if isinstance(value, np.generic) and value.dtype.kind in "biuOSU" else value).removeprefix(
        "np."
    )
