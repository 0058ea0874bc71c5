"""NumPy's linear algebra for arrays that are traced: generalised ufuncs over stacked matrices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from .arrays import Traced, as_dtype, handles, tape_of
from .interface import Array, Operand, Untraceable

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
    axes = [re.findall(r"\w+", names) for names in re.findall(r"\(([^)]*)\)", ufunc.signature or "")]
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
    if ufunc is None or dtype.char not in "fdFD" or not is_small or not operands[0].size:
        raise Untraceable
    if any(x.dtype != dtype for x in operands):
        raise Untraceable
    tape = tape_of(*operands)
    wide = np.dtype(np.result_type(dtype, np.float64))
    given = [Traced(tape, as_dtype(x, wide)) for x in operands]
    loop = next(types for types in ufunc.types if types.startswith(wide.char * ufunc.nin))
    made = [np.empty(shape, char) for shape, char in zip(shapes, loop.partition("->")[2], strict=True)]
    return [_narrow(x, dtype) for x in apply_gufunc(ufunc, given, made, checks)]


def _narrow(x: Traced, dtype: np.dtype[Any]) -> Traced:
    """Return a result in the precision of a dtype; the eigenvalues of complex matrices are real."""
    return x if dtype.char in "dD" else x.astype(dtype.char if x.dtype.kind == dtype.kind else "f", copy=False)


@handles(np.matmul)
def _multiply_matrices(a: Operand, b: Operand, **options: Any) -> Any:
    """Append products of stacked matrices."""
    if options or min(a.ndim, b.ndim) < 2 or max(*a.shape[-2:], *b.shape[-2:]) > _MOST_SIDE:
        raise Untraceable
    dtype = np.result_type(a.dtype, b.dtype)
    tape = tape_of(a, b)
    given = [Traced(tape, as_dtype(x, dtype)) for x in (a, b)]
    outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return apply_gufunc(np.matmul, given, [np.empty((*outer, a.shape[-2], b.shape[-1]), dtype)])[0]


@handles(np.linalg.qr)
def _decompose_orthogonal(x: Operand, mode: str = "reduced") -> Any:
    """Append the factors of matrices: the first function leaves both in the matrix, which is a copy."""
    m, n = x.shape[-2:]
    fewer = min(m, n)
    is_small = max(m, n) <= _MOST_SIDE
    if mode not in ("reduced", "complete") or x.dtype.char not in "fdFD" or not is_small or not x.size:
        raise Untraceable
    wide = np.result_type(x.dtype, np.float64)
    factors = x.astype(wide)
    columns = m if mode == "complete" and m > n else fewer
    is_complete = columns == m and mode == "complete" and m > n
    (tau,) = apply_gufunc(_LINALG.qr_r_raw, [factors], [np.empty((*x.shape[:-2], fewer), wide)])
    ufunc = _LINALG.qr_complete if is_complete else _LINALG.qr_reduced
    (q,) = apply_gufunc(ufunc, [factors, tau], [np.empty((*x.shape[:-2], m, columns), wide)])
    r = np.triu(factors[..., :columns, :])
    return _narrow(q, x.dtype), _narrow(r, x.dtype)


@handles(np.linalg.cholesky)
def _decompose_cholesky(a: Operand, **options: Any) -> Any:
    if any(options.values()):
        raise Untraceable
    return _call_linalg("cholesky_lo", [a], [a.shape])[0]


@handles(np.linalg.inv)
def _invert_matrices(a: Operand) -> Any:
    return _call_linalg("inv", [a], [a.shape])[0]


@handles(np.linalg.det)
def _find_determinants(a: Operand) -> Any:
    return _call_linalg("det", [a], [a.shape[:-2]], checks=False)[0]


@handles(np.linalg.slogdet)
def _find_logarithms(a: Operand) -> Any:
    """Append the signs of determinants, and the logarithms of their absolute values."""
    return _call_linalg("slogdet", [a], [a.shape[:-2]] * 2, checks=False)


@handles(np.linalg.solve)
def _solve_equations(a: Operand, b: Operand) -> Any:
    if b.ndim < 2:
        raise Untraceable
    outer = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return _call_linalg("solve", [a, b], [outer + b.shape[-2:]])[0]


@handles(np.linalg.svd)
def _decompose_singular(
    x: Operand, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
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
def _decompose_symmetric(x: Operand, UPLO: str = "L") -> Any:
    """Append the eigenvalues and eigenvectors of symmetric matrices, by their lower triangles."""
    if UPLO != "L":
        raise Untraceable
    return _call_linalg("eigh_lo", [x], [x.shape[:-1], x.shape])


@handles(np.linalg.eigvalsh)
def _find_eigenvalues(x: Operand, UPLO: str = "L") -> Any:
    if UPLO != "L":
        raise Untraceable
    return _call_linalg("eigvalsh_lo", [x], [x.shape[:-1]])[0]
