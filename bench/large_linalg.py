"""Linear algebra at many elements: many small matrices, and one that takes about as long."""

from __future__ import annotations

import numpy as np

from .large_programs import Build, call, floats, rows, sizes

SMALL = 4  # rows and columns of a small matrix


def small(n: int) -> np.ndarray:
    """Return small matrices."""
    return floats(n // SMALL**2, SMALL, SMALL)


def regular(n: int) -> np.ndarray:
    """Return small matrices that are symmetric and positive definite."""
    made = small(n)
    return made + np.swapaxes(made, 1, 2) + SMALL * np.eye(SMALL, dtype=np.float32)


def large(n: int) -> np.ndarray:
    """Return one such matrix, whose decomposition takes some ten times `n` multiplications."""
    side = round((10 * n) ** (1 / 3))
    made = floats(side, side)
    return made + made.T + side * np.eye(side, dtype=np.float32)


def square(n: int) -> np.ndarray:
    """Return one square matrix of about `n` elements."""
    side = int(n**0.5)
    return floats(side, side)


LINALG: dict[str, Build] = {
    "Cholesky": lambda n: call("Cholesky", regular(n)),
    "Cholesky: of one": lambda n: call("Cholesky", large(n)),
    "Diag": lambda n: call("Diag", floats(int(n**0.5))),
    "DiagPart": lambda n: call("DiagPart", square(n)),
    "Expm": lambda n: call("Expm", regular(n // 10)),
    "Expm: of one": lambda n: call("Expm", large(n // 10)),
    "LogMatrixDeterminant": lambda n: call("LogMatrixDeterminant", regular(n)),
    "MatrixBandPart": lambda n: call("MatrixBandPart", square(n), *sizes(2, 1)),
    "MatrixBandPart: of small ones": lambda n: call("MatrixBandPart", small(n), *sizes(1, 0)),
    "MatrixDeterminant": lambda n: call("MatrixDeterminant", regular(n)),
    "MatrixDiag": lambda n: call("MatrixDiag", floats(n // SMALL**2, SMALL)),
    "MatrixDiag: of one": lambda n: call("MatrixDiag", floats(int(n**0.5))),
    "MatrixDiagPart": lambda n: call("MatrixDiagPart", rows(n).reshape(-1, 10, 10), k=(-1, 1)),
    "MatrixInverse": lambda n: call("MatrixInverse", regular(n)),
    "MatrixInverse: of one": lambda n: call("MatrixInverse", large(n)),
    "MatrixSetDiag": lambda n: call("MatrixSetDiag", small(n), floats(n // SMALL**2, SMALL)),
    "MatrixSolve": lambda n: call("MatrixSolve", regular(n), small(n)),
    "MatrixSolve: of one": lambda n: call("MatrixSolve", large(n), large(n)),
    "MatrixTranspose": lambda n: call("MatrixTranspose", small(n)),
    "MatrixTranspose: of one": lambda n: call("MatrixTranspose", square(n)),
    "MatrixTriangularSolve": lambda n: call("MatrixTriangularSolve", regular(n), small(n)),
    "MatrixTriangularSolve: of one": lambda n: call("MatrixTriangularSolve", large(n), large(n)),
    "PseudoInverse": lambda n: call("PseudoInverse", regular(n // 10)),
    "Qr": lambda n: call("Qr", regular(n // 10)),
    "Qr: of one": lambda n: call("Qr", large(n)),
    "SelfAdjointEig": lambda n: call("SelfAdjointEig", regular(n // 10)),
    "SelfAdjointEig: of one": lambda n: call("SelfAdjointEig", large(n)),
    "SelfAdjointEigvals": lambda n: call("SelfAdjointEigvals", regular(n // 10)),
    "SingularValues": lambda n: call("SingularValues", regular(n // 10)),
    "Svd": lambda n: call("Svd", regular(n // 10)),
    "Svd: of one": lambda n: call("Svd", large(n // 10)),
}
