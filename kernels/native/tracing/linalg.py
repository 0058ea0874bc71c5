"""NumPy's linear algebra for arrays that are traced: generalised ufuncs over stacked matrices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from .arrays import Array, Traced, Untraceable, as_dtype, handles, tape_of

_LINALG = import_module("numpy.linalg._umath_linalg")
_MOST_SIDE = 128  # rows of a matrix: functions of larger ones take long, beside which others should run


def apply_gufunc(ufunc: np.ufunc, operands: Sequence[Any], made: Sequence[Array], checks: bool = False) -> list[Traced]:
    """Append a generalised ufunc; return its outputs.

    Parameters
    ----------
    ufunc : numpy.ufunc
    operands : sequence of Traced or numpy.ndarray
        Of the dtypes of one of the ufunc's loops.
    made : sequence of numpy.ndarray
        Memory for the outputs.
    checks : bool
        True if the program gives up where the function reports an invalid operation.
    """
    tape = tape_of(*operands)
    axes = [re.findall(r"\w+", names) for names in re.findall(r"\(([^)]*)\)", ufunc.signature)]
    ranks = list(map(len, axes))
    given = [x.array if isinstance(x, Traced) else x for x in operands]
    sizes: dict[str, int] = {}
    for names, array in zip(axes, [*given, *made], strict=True):
        if array.ndim < len(names):
            raise Untraceable
        for axis, size in zip(names, array.shape[array.ndim - len(names) :], strict=True):
            if sizes.setdefault(axis, size) != size:
                raise Untraceable
    outer = np.broadcast_shapes(*(x.shape[: x.ndim - rank] for x, rank in zip(given, ranks)))
    spread = [np.broadcast_to(x, outer + x.shape[x.ndim - rank :]) for x, rank in zip(given, ranks)]
    tape.apply_gufunc(ufunc, ranks, list(sizes.values()), [*spread, *made], checks)
    return [Traced(tape, array) for array in made]


def _call_linalg(
    name: str, operands: Sequence[Any], shapes: Sequence[tuple[int, ...]], checks: bool = True
) -> list[Traced]:
    """Append a function of NumPy's linear algebra on stacked matrices, computed in float64 as NumPy does.

    Parameters
    ----------
    name : str
        Name of the generalised ufunc.
    operands : sequence of Traced or numpy.ndarray
    shapes : sequence of tuple of int
        Shapes of the results.
    checks : bool
        True if an invalid operation is an error.
    """
    ufunc = getattr(_LINALG, name, None)
    dtype = operands[0].dtype
    is_small = all(max(x.shape[-2:], default=0) <= _MOST_SIDE for x in operands)
    if ufunc is None or dtype not in (np.float32, np.float64) or not is_small or not operands[0].size:
        raise Untraceable
    if any(x.dtype != dtype for x in operands):
        raise Untraceable
    tape = tape_of(*operands)
    given = [Traced(tape, as_dtype(x, np.dtype(np.float64))) for x in operands]
    made = apply_gufunc(ufunc, given, [np.empty(shape) for shape in shapes], checks)
    return [x.astype(dtype, copy=False) for x in made]


@handles(np.linalg.cholesky)
def _decompose_cholesky(a: Any, **options: Any) -> Any:
    if any(options.values()):
        raise Untraceable
    return _call_linalg("cholesky_lo", [a], [a.shape])[0]


@handles(np.linalg.inv)
def _invert_matrices(a: Any) -> Any:
    return _call_linalg("inv", [a], [a.shape])[0]


@handles(np.linalg.det)
def _find_determinants(a: Any) -> Any:
    return _call_linalg("det", [a], [a.shape[:-2]], checks=False)[0]


@handles(np.linalg.slogdet)
def _find_logarithms(a: Any) -> Any:
    """Append the signs of determinants, and the logarithms of their absolute values."""
    return _call_linalg("slogdet", [a], [a.shape[:-2]] * 2, checks=False)


@handles(np.linalg.solve)
def _solve_equations(a: Any, b: Any) -> Any:
    if b.ndim < 2:
        raise Untraceable
    outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return _call_linalg("solve", [a, b], [outer + b.shape[-2:]])[0]


@handles(np.linalg.svd)
def _decompose_singular(x: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Append a singular value decomposition, or the singular values alone."""
    (m, n), outer = x.shape[-2:], x.shape[:-2]
    values = (*outer, min(m, n))
    if hermitian:
        raise Untraceable
    if not compute_uv:
        return _call_linalg("svd", [x], [values])[0]
    columns, rows = (m, n) if full_matrices else (min(m, n), min(m, n))
    return _call_linalg("svd_f" if full_matrices else "svd_s", [x], [(*outer, m, columns), values, (*outer, rows, n)])


@handles(np.linalg.eigh)
def _decompose_symmetric(x: Any, UPLO: str = "L") -> Any:
    """Append the eigenvalues and eigenvectors of symmetric matrices, by their lower triangles."""
    if UPLO != "L":
        raise Untraceable
    return _call_linalg("eigh_lo", [x], [x.shape[:-1], x.shape])


@handles(np.linalg.eigvalsh)
def _find_eigenvalues(x: Any, UPLO: str = "L") -> Any:
    if UPLO != "L":
        raise Untraceable
    return _call_linalg("eigvalsh_lo", [x], [x.shape[:-1]])[0]
