"""Sparse tensors of many elements: `n` numbers in all are the indices of a matrix of which a tenth is there."""

from __future__ import annotations

import numpy as np

from .large_programs import ROW, Build, call, floats, numbers, sizes


def places(count: int, columns: int = ROW) -> np.ndarray:
    """Return where so many elements of a matrix are, in order, each tenth of a row."""
    at = 10 * np.arange(count, dtype=np.int64)
    return np.stack([at // columns, at % columns], 1)


def mixed(count: int) -> np.ndarray:
    """Return such places in no simple order, most of them several times."""
    return places(count)[numbers(count, below=count // 3, dtype=np.int64)]


def shape(count: int) -> np.ndarray:
    """Return the shape of the matrix."""
    return sizes(-(-10 * count // ROW), ROW).astype(np.int64)


SPARSE: dict[str, Build] = {
    "DistinctRows": lambda n: call("DistinctRows", numbers(n, below=n // 3)),
    "DistinctRows: vectors": lambda n: call("DistinctRows", mixed(n // 4)),
    "GroupMax": lambda n: call("GroupMax", floats(n), numbers(n, below=100, dtype=np.int64), np.int32(100)),
    "IsIn": lambda n: call("IsIn", numbers(n, below=n), numbers(ROW, below=n)),
    "LastAtPlace": lambda n: call("LastAtPlace", mixed(n // 4), shape(n // 4)),
    "SampledProduct": lambda n: call(
        "SampledProduct", places(n // 64), floats(-(-n // 64 // 100), 64), floats(ROW, 64)
    ),
    "SparseOrder": lambda n: call("SparseOrder", mixed(n // 4)),
    "SparseReshape": lambda n: call("SparseReshape", places(n // 4), shape(n // 4), sizes(ROW, -1)),
    "SparseTensorDenseMatMul": lambda n: call(
        "SparseTensorDenseMatMul", places(n // 100), floats(n // 100), shape(n // 100), floats(ROW, 100)
    ),
    "SparseTensorDenseMatMul: adjoint": lambda n: call(
        "SparseTensorDenseMatMul",
        *(places(n // 100), floats(n // 100), shape(n // 100), floats(shape(n // 100)[0], 100)),
        adjoint=True,
    ),
    "SparseToDense": lambda n: call("SparseToDense", places(n // 10), floats(n // 10), shape(n // 10), floats()),
}
