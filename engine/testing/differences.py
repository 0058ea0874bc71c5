"""Derivatives by finite differences: of functions of a number, and of arrays element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.dtypes import as_dtype
from ..base.errors import DtypeError
from ..ir.misuse import refuses_misuse

Array = np.ndarray[Any, Any]
Stencil = Mapping[int, float]  # weights of the function's values, by their signed distance in steps

CENTRAL: Stencil = {1: 1 / 2, -1: -1 / 2}  # error proportional to the square of the step
FOURTH_ORDER: Stencil = {1: 8 / 12, -1: -8 / 12, 2: -1 / 12, -2: 1 / 12}  # error proportional to its fourth power


def derivative(function: Callable[[float], Any], step: float, stencil: Stencil = FOURTH_ORDER) -> Any:
    """Return the derivative at 0 of a function of a number, by finite differences.

    Parameters
    ----------
    function : callable
        ``function(x)`` returns a number or an array.
    step : float
        Distance between two arguments.
    stencil : mapping of int to float
        Weights of the values, by their distance in steps.

    Examples
    --------
    >>> import math
    >>> round(derivative(math.sin, 1e-3), 9)
    1.0
    """
    return sum(weight * function(steps * step) for steps, weight in stencil.items()) / step


@refuses_misuse
def numerical_gradients(
    function: Callable[..., Any], arrays: Sequence[Any], *, step: float = 1e-4, stencil: Stencil = FOURTH_ORDER
) -> list[Array | None]:
    """Differentiate a real function of arrays by finite differences, for each element of each array.

    Parameters
    ----------
    function : callable
        ``function(*arrays)`` returns a real number.
    arrays : sequence of array-like
        Point of the gradients; arrays of a dtype without derivatives are not varied.
    step : float, optional
        Distance between two values of an element.
    stencil : mapping of int to float, optional
        Weights of the values by their distance in steps; by default of a fourth-order central difference.

    Returns
    -------
    list of numpy.ndarray or None
        For each array its gradient, of the same shape and dtype; None for integers and the like. The gradient of a
        complex element is the derivative along the real part, plus 1j times the derivative along the imaginary part, as
        in :func:`tagloom.gradients`.

    Examples
    --------
    >>> import numpy as np, tagloom as tg
    >>> (slope,) = tg.testing.numerical_gradients(lambda x: np.sum(x**3), [np.float64([1.0, 2.0])])
    >>> slope.round(6).tolist()
    [3.0, 12.0]
    """
    values = [np.asarray(array) for array in arrays]
    gradients: list[Array | None] = []
    for k, array in enumerate(values):
        if not as_dtype(array.dtype).is_differentiable:
            gradients.append(None)
            continue
        slopes = np.zeros(array.shape, array.dtype)
        for place in np.ndindex(array.shape):
            slopes[place] = sum(
                unit * derivative(_restrict_to_line(function, values, k, place, unit), step, stencil)
                for unit in unit_directions(array)
            )
        gradients.append(slopes)
    return gradients


def unit_directions(array: Array) -> tuple[complex, ...]:
    """Return the directions in which an element of an array can move: 1, and 1j for complex arrays."""
    return (1, 1j) if array.dtype.kind == "c" else (1,)


def move_element(arrays: Sequence[Array], k: int, place: tuple[int, ...], distance: complex) -> list[Array]:
    """Return the arrays with an element of the k-th array moved; only the k-th array is copied."""
    others = list(arrays)
    others[k] = np.array(arrays[k])
    others[k][place] += distance
    return others


def _restrict_to_line(
    function: Callable[..., Any], arrays: Sequence[Array], k: int, place: tuple[int, ...], unit: complex
) -> Callable[[float], float]:
    """Return the function's value as a function of the distance by which an element is moved along `unit`."""

    def evaluate_at(distance: float) -> float:
        result = np.asarray(function(*move_element(arrays, k, place, unit * distance)))
        if result.size != 1 or result.dtype.kind == "c":
            raise DtypeError(
                "only a real number has a gradient of this kind",
                wanted="a function that returns one real number",
                got=f"an array of shape {list(result.shape)} and dtype {result.dtype}",
                hint="let it return a sum of its results, of the real part for complex ones",
            )
        return float(result.reshape(()))

    return evaluate_at
