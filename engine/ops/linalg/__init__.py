"""Linear algebra."""

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "cholesky": "cholesky cholesky_solve logdet",
    "determinants": "matrix_determinant slogdet",
    "diagonals": "matrix_diag matrix_diag_part matrix_set_diag",
    "eigenvalues": "self_adjoint_eig self_adjoint_eigvals",
    "einsum": "einsum",
    "exponential": "expm",
    "norms": "norm",
    "orthogonal": "qr",
    "singular_values": "pinv svd",
    "solving": "matrix_inverse matrix_solve matrix_triangular_solve",
    "tensor_diagonals": "diag diag_part",
    "tensordot": "cross tensordot",
    "transposing": "matrix_transpose",
    "triangles": "matrix_band_part trace",
}
