"""Comparison of a user function's gradients with numerical differentiation, to any order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import nest
from ..base.array_like import as_array
from ..base.dtypes import DType, as_dtype, complex128, float64
from ..base.errors import DtypeError, GraphError
from ..base.settings import DEFAULTS, Settings
from ..base.wording import format_number
from ..gradients import gradients
from ..ir.apply import constant, convert_to_tensor
from ..ir.graph import Graph
from ..ir.misuse import refuses_misuse
from ..ir.tensor import Tensor
from ..ops.array.creation import zeros_like
from ..ops.control.placeholders import placeholder
from ..runtime.session.session import Session
from .differences import FOURTH_ORDER, Array, move_element, unit_directions
from .running import initialize_variables, run_to_end

# By bytes of a real number: the step of differences, and the tolerance relative to the largest element. Steps are
# powers of two, so moving an element rounds little.
_STEPS = {8: 2.0**-10, 4: 2.0**-6, 2: 2.0**-3}
_TOLERANCES = {8: 1e-6, 4: 1e-3, 2: 5e-2}
_BFLOAT16 = (2.0**-2, 1e-1)


@refuses_misuse
def check_gradients(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    order: int = 2,
    *,
    step: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    elements: int = 200,
    known_shapes: bool = True,
    executor: str = "machine",
    settings: Settings = DEFAULTS,
    seed: int = 0,
) -> None:
    """Fail unless the gradients of a function equal its numerical derivatives; likewise gradients of gradients.

    The results are multiplied by random cotangents and summed, and the gradient of the sum is compared, element by
    element, with the sum's fourth-order differences. For the next order, the gradients take the place of the results.
    Plain tests and coroutine tests can call this, for a custom operation or gradient or a whole model.

    Parameters
    ----------
    function : callable
        ``function(*arguments)`` builds a structure of tensors from tensors. The function's variables are initialized.
    arguments : sequence of structures of array-like
        Point of the derivatives; Python floats and complex numbers are float64 and complex128 here. Integers, bools and
        strings are not varied.
    order : int, optional
        Number of differentiations of the function.
    step : float, optional
        Distance of two values of an element, scaled with elements larger than 1 in magnitude; by default 2**-10 for
        float64, 2**-6 for float32, 2**-3 for float16 and 2**-2 for bfloat16.
    rtol, atol : float, optional
        An element may differ by ``atol + rtol * m``, `m` being the largest magnitude in the gradient of its argument.
        Both are by default 1e-6 for float64, 1e-3 for float32, 5e-2 for float16 and 0.1 for bfloat16.
    elements : int, optional
        Most elements of an argument to be moved; in a larger argument, a random sample of this size.
    known_shapes : bool, optional
        False to hide the shapes of the arguments from the function, with their ranks.
    executor, settings
        Options of the computing :class:`Session`.
    seed : int, optional
        Seed of cotangents and random samples.

    Raises
    ------
    AssertionError
        If a gradient is wrong, naming its worst element, both values and the tolerance.
    GraphError
        If `order` is less than 1, or equal arguments give different results.
    DtypeError
        If no argument, or no result, has a dtype with derivatives.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> def power(x, n):
    ...     return tg.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x), [0, tg.ones_like(x)])[1]
    >>> tg.testing.check_gradients(power, [np.float64([0.5, -1.5]), 3])

    >>> @tg.custom_gradient
    ... def wrong(x):
    ...     return x * x, lambda g: g * x
    >>> tg.testing.check_gradients(wrong, [3.0])
    Traceback (most recent call last):
    AssertionError: a gradient of order 1 of wrong is not the numerical derivative
      wanted: 0.754381 by differences; 0.754381 with half the step
      got: 0.377191 by tagloom.gradients
      argument: [0]
      difference: 0.377, tolerance 1.75e-06; 1 of 1 elements differ
      try: look at the gradients of the operations on the way, and of custom_gradient
    """
    if order < 1:
        raise GraphError("nothing to differentiate", wanted="order of 1 or more", got=order, hint="order=1")
    check = _Check(function, arguments, _Differences(step, rtol, atol, elements), known_shapes, seed)
    run_to_end(check.run(order, executor, settings))


@dataclass(frozen=True, slots=True)
class _Difference:
    """Worst element of an argument's gradient."""

    argument: int
    place: tuple[int, ...]
    wanted: complex
    got: complex
    tolerance: float
    wrong: int
    taken: int

    @property
    def excess(self) -> float:
        """Difference of the values in multiples of the tolerance; infinite if not finite."""
        apart = abs(self.wanted - self.got)
        return apart / self.tolerance if np.isfinite(apart) else np.inf


@dataclass(frozen=True, slots=True)
class _Differences:
    """Finite differences: their step, the tolerance of the comparison, and the number of compared elements."""

    step: float | None
    rtol: float | None
    atol: float | None
    elements: int


class _Check:
    """Graph of a function with its gradients, compared with finite differences."""

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        differences: _Differences,
        known_shapes: bool,
        seed: int,
    ) -> None:
        self.name: str = getattr(function, "__name__", type(function).__name__)
        leaves = dict(nest.walk(list(arguments)))
        self.labels: list[str] = list(leaves)
        self.arrays: list[Array] = [_as_array(leaf) for leaf in leaves.values()]
        self.differences = differences
        self.random: np.random.Generator = np.random.default_rng(seed)
        self.graph = Graph()
        with self.graph.as_default():
            self.xs: list[Tensor] = [
                placeholder(as_dtype(a.dtype), a.shape if known_shapes else None, name=f"argument_{k}")
                for k, a in enumerate(self.arrays)
            ]
            results = nest.flatten(function(*nest.pack_as(list(arguments), list(self.xs))))
            tensors = [convert_to_tensor(result) for result in results]
        self.results: list[Tensor] = [t for t in tensors if t.dtype.is_differentiable]
        self.moving: list[int] = [k for k, x in enumerate(self.xs) if x.dtype.is_differentiable]
        if not self.moving or not self.results:
            raise DtypeError(
                f"{self.name} has nothing to differentiate",
                wanted="an argument and a result of a floating or complex dtype",
                got=f"arguments {[str(x.dtype) for x in self.xs]}, results {[str(t.dtype) for t in tensors]}",
                hint="pass np.float64 arrays, or numbers with a point",
            )

    async def run(self, order: int, executor: str, settings: Settings) -> None:
        """Compare the gradients of each order, in ascending order."""
        async with Session(self.graph, executor=executor, settings=settings) as session:
            await initialize_variables(session)
            targets = self.results
            for k in range(1, order + 1):
                targets = await self._check_order(session, targets, k)

    async def _check_order(self, session: Session, targets: list[Tensor], order: int) -> list[Tensor]:
        """Compare the gradients of an order and return them, as the targets of the next order."""
        values = await self._run_step(session, targets, self.arrays)
        # Twice: differences of a random function would be noise, and its failure would look like a wrong gradient.
        again = await self._run_step(session, targets, self.arrays)
        if not all(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in zip(values, again)):
            raise GraphError(
                f"{self.name} gives different results for equal arguments",
                wanted="a function of its arguments alone",
                got="one that draws random numbers or changes state",
                hint="draw outside of it, and pass what was drawn as an argument",
            )
        cotangents = [self._draw_like(value) for value in values]
        with self.graph.as_default():
            xs = [self.xs[k] for k in self.moving]
            found = gradients(targets, xs, [constant(c) for c in cotangents])
            # A result that does not depend on an argument has the gradient 0, as finite differences find too.
            pulled = [zeros_like(x) if g is None else convert_to_tensor(g) for x, g in zip(xs, found, strict=True)]
        slopes = await self._run_step(session, pulled, self.arrays)
        total = _Total(self, session, targets, cotangents)
        compared = [await self._compare_argument(total, k, slope) for k, slope in zip(self.moving, slopes, strict=True)]
        worst = max(compared, key=lambda each: each.excess, default=None)
        if worst is not None and worst.excess > 1:
            raise AssertionError(await self._explain_difference(total, worst, order))
        return pulled

    async def _run_step(self, session: Session, tensors: list[Tensor], arrays: Sequence[Array]) -> list[Array]:
        found: list[Array] = await session.run(tensors, dict(zip(self.xs, arrays, strict=True)))
        return found

    def _draw_like(self, value: Array) -> Array:
        noise: Any = self.random.standard_normal(value.shape)
        if value.dtype.kind == "c":
            noise = noise + 1j * self.random.standard_normal(value.shape)
        return np.asarray(noise, value.dtype)

    async def _compare_argument(self, total: _Total, k: int, slope: Array) -> _Difference:
        """Return the element of argument k with the largest error of its gradient."""
        step, tolerance = self._choose_step_and_tolerance(self.xs[k].dtype)
        places = list(self._choose_places(self.arrays[k].shape))
        wanted = np.array([await total.compute_slope(k, place, step) for place in places])
        got = np.array([complex(slope[place]) for place in places])
        largest = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0))
        rtol, atol = (
            tolerance if chosen is None else chosen for chosen in (self.differences.rtol, self.differences.atol)
        )
        bound = max(atol + rtol * largest, np.finfo(np.float64).tiny)  # above 0: `excess` divides by the tolerance
        apart = np.abs(wanted - got)
        apart[~np.isfinite(apart)] = np.inf
        if not places:
            return _Difference(k, (), 0.0, 0.0, bound, 0, 0)
        worst = int(apart.argmax())
        return _Difference(k, places[worst], wanted[worst], got[worst], bound, int((apart > bound).sum()), len(places))

    def _choose_places(self, shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        size = int(np.prod(shape, dtype=np.int64))
        chosen: Iterable[int] = range(size)
        if size > self.differences.elements:
            chosen = sorted(self.random.choice(size, self.differences.elements, replace=False).tolist())
        for flat in chosen:
            yield tuple(int(index) for index in np.unravel_index(flat, shape)) if shape else ()

    def _choose_step_and_tolerance(self, dtype: DType) -> tuple[float, float]:
        """Return step and tolerance for an argument: the largest of its dtype and the results' dtypes."""
        found = [_step_and_tolerance(each) for each in (dtype, *(result.dtype for result in self.results))]
        step, tolerance = max(each[0] for each in found), max(each[1] for each in found)
        return (step if self.differences.step is None else self.differences.step), tolerance

    async def _explain_difference(self, total: _Total, worst: _Difference, order: int) -> str:
        """Return the message for a wrong gradient; a difference with half the step tells a kink from a mistake."""
        step, _ = self._choose_step_and_tolerance(self.xs[worst.argument].dtype)
        half = await total.compute_slope(worst.argument, worst.place, step / 2)
        hint = "look at the gradients of the operations on the way, and of custom_gradient"
        if not abs(half - worst.wanted) <= 8 * worst.tolerance:
            hint = "the differences disagree: the function has a kink or a jump there, or needs another step="
        place = f"[{', '.join(map(str, worst.place))}]" if worst.place else ""
        apart = format_number(abs(worst.wanted - worst.got))
        return "\n  ".join(
            [
                f"a gradient of order {order} of {self.name} is not the numerical derivative",
                f"wanted: {_format_value(worst.wanted)} by differences; {_format_value(half)} with half the step",
                f"got: {_format_value(worst.got)} by tagloom.gradients",
                f"argument: {self.labels[worst.argument]}" + (f", element {place}" if place else ""),
                f"difference: {apart}, tolerance {format_number(worst.tolerance)}; "
                f"{worst.wrong} of {worst.taken} elements differ",
                f"try: {hint}",
            ]
        )


class _Total:
    """Sum of the real parts of results times conjugated cotangents, as a function of the arguments."""

    def __init__(self, check: _Check, session: Session, targets: list[Tensor], cotangents: list[Array]) -> None:
        self._check = check
        self._step = session.make_step(targets, feeds=check.xs)
        self._wide = [np.conj(c).astype(np.complex128 if c.dtype.kind == "c" else np.float64) for c in cotangents]

    async def compute_slope(self, k: int, place: tuple[int, ...], step: float) -> complex:
        """Return the derivative by an element of argument k."""
        array = self._check.arrays[k]
        size = float(abs(array[place]))
        # Scaled by a power of two, not by the element itself, so the distance stays a power of two.
        distance = step * (2.0 ** np.floor(np.log2(size)) if size > 1 and np.isfinite(size) else 1.0)
        found = 0j
        for unit in unit_directions(array):
            for places, weight in FOURTH_ORDER.items():
                value = await self._sum_results(move_element(self._check.arrays, k, place, unit * (places * distance)))
                found += unit * weight * value / distance
        return found

    async def _sum_results(self, arrays: Sequence[Array]) -> float:
        values = await self._step(*arrays)
        return float(sum(np.sum(c * np.asarray(v, c.dtype)).real for c, v in zip(self._wide, values, strict=True)))


def _as_array(leaf: object) -> Array:
    """Return an argument as an array; Python floats and complex numbers keep double precision."""
    wide = {float: float64, complex: complex128}.get(type(leaf))
    return as_array(leaf, wide)


def _step_and_tolerance(dtype: DType) -> tuple[float, float]:
    """Return step and tolerance for a dtype; a complex dtype has the values of its parts."""
    if dtype.name == "bfloat16":
        return _BFLOAT16
    assert dtype.numpy is not None  # it has derivatives
    size = dtype.numpy.itemsize // (2 if dtype.numpy.kind == "c" else 1)
    return _STEPS[size], _TOLERANCES[size]


def _format_value(value: complex) -> str:
    return f"{value:.6g}" if np.iscomplexobj(value) and complex(value).imag else f"{complex(value).real:.6g}"
