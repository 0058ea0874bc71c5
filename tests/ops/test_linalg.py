"""Linear algebra: what comes together again, what broadcasts, what is not known while building, what is refused."""

import numpy as np
import pytest
import scipy.linalg
import tagloom as tg
from tagloom.base.errors import DtypeError, GraphError, OpError, ShapeError

RANDOM = np.random.default_rng(5)
KINDS = ["float32", "float64", "complex64", "complex128"]


def matrix(kind, *shape):
    x = RANDOM.standard_normal(shape)
    if kind.startswith("complex"):
        x = x + 1j * RANDOM.standard_normal(shape)
    return x.astype(kind)


def run(function, *arrays, known=True):
    """Return what a function gives for arrays that are fed, of shapes that are known or not."""
    with tg.Graph().as_default() as graph:
        xs = [tg.placeholder(a.dtype.name, a.shape if known else None) for a in arrays]
        results = function(*xs)
    with tg.SyncSession(graph) as session:
        return session.run(results, dict(zip(xs, arrays, strict=True)))


def close(found, wanted):
    found = np.asarray(found)
    bound = 1e-4 if found.dtype in (np.float32, np.complex64) else 1e-10
    np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound)


def adjoint(x):
    return x.conj().swapaxes(-1, -2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 3), (2, 1, 2, 4), (0, 2, 3), (2, 0, 3)])
def test_factors_make_the_matrix_again(kind, shape):
    x = matrix(kind, *shape)
    for full in (False, True):
        q, r = run(lambda x, full=full: tg.qr(x, full_matrices=full), x)
        s, u, v = run(lambda x, full=full: tg.svd(x, full_matrices=full), x)
        k = min(shape[-2:])
        close(q @ r, x)
        close((u[..., :k] * s[..., None, :]) @ adjoint(v[..., :k]), x)
        assert q.dtype == u.dtype == v.dtype == x.dtype
        assert s.dtype == x.real.dtype
        for basis in (q, u, v):
            close(
                adjoint(basis) @ basis, np.broadcast_to(np.eye(basis.shape[-1]), (*shape[:-2], *[basis.shape[-1]] * 2))
            )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3), (2, 0, 0), (0, 2, 2)])
def test_hermitian_matrices_come_together_again(kind, shape):
    x = matrix(kind, *shape)
    x = x @ adjoint(x) + np.eye(shape[-1], dtype=kind)
    factor = run(tg.cholesky, x)
    close(factor @ adjoint(factor), x)
    e, v = run(tg.self_adjoint_eig, x)
    close((v * e[..., None, :]) @ adjoint(v), x)
    assert e.dtype == x.real.dtype
    close(run(tg.self_adjoint_eigvals, x), e)
    close(run(tg.logdet, x), np.linalg.slogdet(x)[1])
    close(run(tg.matrix_inverse, x) @ x, np.broadcast_to(np.eye(shape[-1]), shape))


def test_only_the_lower_triangle_is_read():
    x = np.array([[4.0, np.nan], [2.0, 10.0]])
    close(run(tg.cholesky, x), [[2, 0], [1, 3]])
    assert np.isfinite(run(tg.self_adjoint_eigvals, x)).all()
    close(run(tg.matrix_triangular_solve, x, np.array([[4.0], [12.0]])), [[1], [1]])


@pytest.mark.parametrize("count", [1, 50])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("adj", [True, False])
def test_triangles_are_solved_one_by_one_and_all_at_once(count, kind, lower, adj):
    x = matrix(kind, count, 4, 4) + 4 * np.eye(4, dtype=kind)
    b = matrix(kind, count, 4, 2)
    found = run(lambda x, b: tg.matrix_triangular_solve(x, b, lower=lower, adjoint=adj), x, b)
    triangle = np.tril(x) if lower else np.triu(x)
    close((adjoint(triangle) if adj else triangle) @ found, b)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("function", ["matrix_solve", "matrix_triangular_solve", "cholesky_solve"])
def test_right_sides_broadcast(function, known):
    x, b = np.tril(matrix("float64", 3, 1, 2, 2)) + 3 * np.eye(2), matrix("float64", 4, 2, 1)
    found = run(getattr(tg, function), x, b, known=known)
    assert found.shape == (3, 4, 2, 1)
    close((x @ adjoint(x) if function == "cholesky_solve" else x) @ found, np.broadcast_to(b, found.shape))


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4)])
def test_least_squares_are_numpys(shape, fast, known):
    a, b = matrix("float64", *shape), matrix("float64", *shape[:-1], 2)
    found = run(lambda a, b: tg.matrix_solve_ls(a, b, fast=fast), a, b, known=known)
    close(found, np.linalg.pinv(a) @ b)


def test_a_regularizer_pulls_to_zero():
    a, b = matrix("float64", 3, 5), matrix("float64", 3, 1)
    close(run(lambda a, b: tg.matrix_solve_ls(a, b, 2.0), a, b), a.T @ np.linalg.inv(a @ a.T + 2 * np.eye(3)) @ b)
    close(
        run(lambda a, b: tg.matrix_solve_ls(a, b, 2.0), a, b, known=False),
        np.linalg.inv(a.T @ a + 2 * np.eye(5)) @ a.T @ b,
    )


@pytest.mark.parametrize("size", [1e-8, 1.0, 30.0, 700.0])
@pytest.mark.parametrize("kind", KINDS)
def test_exponentials_are_scipys(kind, size):
    x = matrix(kind, 2, 3, 3)
    x = size * (x - adjoint(x)) / 10  # whose exponential is unitary
    bound = 1e-3 if np.finfo(kind).eps > 1e-8 else 1e-9
    np.testing.assert_allclose(
        run(tg.expm, x), scipy.linalg.expm(x.astype(np.result_type(kind, "float64"))), atol=bound
    )


def test_determinants_that_overflow_have_a_logarithm():
    sign, size = run(tg.slogdet, -1e200 * np.eye(3))
    assert sign == -1
    close(size, 600 * np.log(10))


SINGULAR = {
    "matrix_solve": (lambda x: tg.matrix_solve(x, x), "pinv"),
    "matrix_inverse": (tg.matrix_inverse, "pinv"),
    "matrix_triangular_solve": (lambda x: tg.matrix_triangular_solve(x, x, lower=False), "zero on the diagonal.*pinv"),
    "cholesky": (tg.cholesky, "self_adjoint_eig"),
    "matrix_solve_ls": (lambda x: tg.matrix_solve_ls(x, x), "self_adjoint_eig"),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_singular_matrices_are_refused_when_a_step_runs(name):
    function, hint = SINGULAR[name]
    with pytest.raises(OpError) as caught:
        run(function, np.array([[1.0, 2.0], [0.0, 0.0]]))
    assert isinstance(caught.value.__cause__, np.linalg.LinAlgError)
    with pytest.raises(np.linalg.LinAlgError, match=hint):
        raise caught.value.__cause__


@pytest.mark.parametrize("name", ["svd", "self_adjoint_eig", "pinv"])
def test_what_does_not_converge_says_where_to_look(name):
    with pytest.raises(OpError) as caught:
        run(getattr(tg, name), np.full((3, 3), np.nan))
    assert "check_numerics" in str(caught.value.__cause__)


SQUARE = (
    "cholesky",
    "logdet",
    "matrix_inverse",
    "matrix_determinant",
    "slogdet",
    "self_adjoint_eig",
    "self_adjoint_eigvals",
    "expm",
)


@pytest.mark.parametrize("name", SQUARE)
def test_matrices_that_are_not_square_are_refused(name):
    with pytest.raises(ShapeError, match="square"):
        run(getattr(tg, name), np.ones((2, 3)))
    with pytest.raises(ShapeError, match="matrices"):
        run(getattr(tg, name), np.ones(2))


@pytest.mark.parametrize("name", [*SQUARE, "qr", "svd", "pinv"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int32"])
def test_dtypes_without_lapack_are_refused(name, kind):
    with tg.Graph().as_default():
        x = tg.placeholder(kind, [2, 2])
        with pytest.raises(DtypeError, match="float32 or float64 or complex64 or complex128"):
            getattr(tg, name)(x)


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: tg.matrix_solve(tg.eye(2), tg.ones([3, 1])), ShapeError),
        (lambda: tg.matrix_solve(tg.eye(2), tg.ones([2])), ShapeError),
        (lambda: tg.matrix_solve_ls(tg.eye(2), tg.ones([2, 1]), -1.0), GraphError),
        (lambda: tg.matrix_solve_ls(tg.eye(2), tg.ones([2, 1]), 1.0, fast=False), GraphError),
        (lambda: tg.pinv(tg.eye(2), rcond=-1.0), GraphError),
        (lambda: tg.matrix_diag_part(tg.eye(2), k=2), ShapeError),
        (lambda: tg.matrix_diag_part(tg.eye(2), k=(1, 0)), GraphError),
        (lambda: tg.matrix_diag_part(tg.eye(2), k=(0, 1, 2)), GraphError),
        (lambda: tg.matrix_diag_part(tg.eye(2), align="LEFT"), GraphError),
        (lambda: tg.matrix_diag_part(tg.eye(2), padding_value=tg.constant(1.0)), GraphError),
        (lambda: tg.matrix_set_diag(tg.eye(2), [1.0]), ShapeError),
        (lambda: tg.matrix_diag([1.0, 2.0], num_rows=1), ShapeError),
        (lambda: tg.matrix_diag([1.0, 2.0], num_rows=3, num_cols=3), ShapeError),
        (lambda: tg.matrix_diag([[1.0], [2.0]], k=(-1, 0)), ShapeError),
        (lambda: tg.matrix_diag([[1.0], [2.0]], k=(0, 2)), ShapeError),
        (lambda: tg.matrix_diag(1.0), ShapeError),
        (lambda: tg.diag_part(tg.ones([2, 3])), ShapeError),
        (lambda: tg.diag_part(tg.ones([2])), ShapeError),
        (lambda: tg.matrix_band_part(tg.ones([2]), 0, 0), ShapeError),
        (lambda: tg.matrix_band_part(tg.eye(2), [1], 0), ShapeError),
        (lambda: tg.trace(tg.ones([2])), ShapeError),
        (lambda: tg.matrix_transpose(tg.ones([2])), ShapeError),
        (lambda: tg.cross(tg.ones([2]), tg.ones([2])), ShapeError),
        (lambda: tg.cross(1.0, tg.ones([3])), ShapeError),
        (lambda: tg.tensordot(tg.eye(2), tg.ones([3, 2]), 1), ShapeError),
        (lambda: tg.tensordot(tg.eye(2), tg.eye(2), 3), ShapeError),
        (lambda: tg.tensordot(tg.eye(2), tg.eye(2), -1), ShapeError),
        (lambda: tg.tensordot(tg.eye(2), tg.eye(2), [[0, 1], [0]]), GraphError),
        (lambda: tg.tensordot(tg.eye(2), tg.eye(2), [[0, 0], [0, 1]]), GraphError),
        (lambda: tg.tensordot(tg.eye(2), tg.eye(2), [[0], [2]]), ShapeError),
        (lambda: tg.tensordot(tg.eye(2), tg.eye(2), [[0], [0], [0]]), GraphError),
        (lambda: tg.einsum("ij,jk->ik", tg.eye(2)), GraphError),
        (lambda: tg.einsum("ij->i1", tg.eye(2)), GraphError),
        (lambda: tg.einsum("ij->ik", tg.eye(2)), GraphError),
        (lambda: tg.einsum("ij->ii", tg.eye(2)), GraphError),
        (lambda: tg.einsum("...i...->i", tg.eye(2)), GraphError),
        (lambda: tg.einsum("...i->i", tg.eye(2)), GraphError),
        (lambda: tg.einsum("ijk->i", tg.eye(2)), ShapeError),
        (lambda: tg.einsum("...ijk->i...", tg.eye(2)), ShapeError),
        (lambda: tg.einsum("ij,jk", tg.eye(2), tg.ones([3, 1])), ShapeError),
        (lambda: tg.einsum("ii", tg.ones([2, 3])), ShapeError),
        (lambda: tg.einsum("i...,i...->...", tg.ones([1, 2]), tg.ones([1, 3])), ShapeError),
        (lambda: tg.einsum("i", tg.placeholder("float32")), ShapeError),
        (lambda: tg.einsum(tg.eye(2), "ij"), GraphError),
    ],
)
def test_what_does_not_fit_is_refused_when_the_graph_is_built(build, error):
    with tg.Graph().as_default(), pytest.raises(error) as caught:
        build()
    assert caught.value.hint


def test_tensordot_says_that_it_cannot_sum_over_more_dimensions_than_there_are():
    with tg.Graph().as_default(), pytest.raises(ShapeError, match="tensordot cannot sum over so many") as caught:
        tg.tensordot(tg.eye(2), tg.eye(2), 3)
    assert (caught.value.wanted, caught.value.got) == ("0 to 2", 3)


@pytest.mark.parametrize(
    ("function", "arrays"),
    [
        (lambda x: tg.matrix_diag_part(x, k=2), [np.eye(2)]),
        (lambda x, d: tg.matrix_set_diag(x, d), [np.eye(2), np.ones(3)]),
        (lambda d: tg.matrix_diag(d, num_rows=1), [np.ones(2)]),
        (lambda d: tg.matrix_diag(d, k=(0, 1)), [np.ones((3, 2))]),
        (tg.diag_part, [np.ones((2, 3))]),
        (lambda x, y: tg.matrix_solve(x, y), [np.eye(2), np.ones((3, 1))]),
        (tg.cholesky, [np.ones((2, 3))]),
        (tg.cross, [np.ones(2), np.ones(2)]),
    ],
)
def test_what_does_not_fit_is_refused_when_a_step_runs_it(function, arrays):
    with pytest.raises(OpError):
        run(function, *arrays, known=False)


def open_sizes(function, *arrays):
    """Return what a function gives of arrays of which only the rank is known while building."""
    with tg.Graph().as_default() as graph:
        xs = [tg.placeholder(a.dtype.name, [None] * a.ndim) for a in arrays]
        result = function(*xs)
    with tg.SyncSession(graph) as session:
        return session.run(result, dict(zip(xs, arrays, strict=True)))


EQUATIONS = {
    "ij,jk->ik": [(2, 3), (3, 4)],
    "abij,abjk->abik": [(2, 3, 2, 4), (2, 3, 4, 1)],
    "...ij,...jk->...ik": [(2, 1, 2, 3), (4, 3, 2)],
    "...,...": [(2, 1), (3,)],
    "ijkl,klm->mij": [(2, 3, 2, 2), (2, 2, 3)],
    "klij,mkl->jim": [(2, 2, 3, 1), (3, 2, 2)],
    "iji->j": [(3, 2, 3)],
    "aabb->ab": [(2, 2, 3, 3)],
    "ij,jk,kl,lm->im": [(2, 3), (3, 4), (4, 2), (2, 5)],
    "i,i,i->i": [(4,), (4,), (4,)],
    "i,j,k->kji": [(2,), (3,), (4,)],
    "a,ab,abc,bc,c,c->": [(2,), (2, 3), (2, 3, 4), (3, 4), (4,), (4,)],
    "ij,ij->": [(2, 0), (2, 0)],
    "ij,jk": [(0, 3), (3, 2)],
    "ba": [(2, 3)],
    "b...a": [(2, 4, 3)],
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum_is_numpys(equation):
    for kind in ("float64", "complex128"):
        arrays = [matrix(kind, *shape) for shape in EQUATIONS[equation]]
        wanted = np.einsum(equation, *arrays)
        close(run(lambda *xs: tg.einsum(equation, *xs), *arrays), wanted)
        close(open_sizes(lambda *xs: tg.einsum(equation, *xs), *arrays), wanted)
    integers = [RANDOM.integers(-5, 5, shape).astype(np.int64) for shape in EQUATIONS[equation]]
    np.testing.assert_array_equal(run(lambda *xs: tg.einsum(equation, *xs), *integers), np.einsum(equation, *integers))


def test_einsum_multiplies_small_things_first():
    """A vector at the end of a chain: never a product of two large matrices."""
    with tg.Graph().as_default() as graph:
        x, y, z = tg.zeros([50, 60]), tg.zeros([60, 70]), tg.zeros([70])
        tg.einsum("ij,jk,k->i", x, y, z)
    sizes = [op.outputs[0].shape.num_elements for op in graph.get_operations() if op.type == "MatMul"]
    assert sorted(sizes) == [50, 60]


def test_a_product_of_matrices_is_one_operation():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [2, 3])
        before = len(graph.get_operations())
        for equation in ("ij,jk->ik", "ij,kj->ik", "ji,jk->ik"):
            tg.einsum(equation, x, tg.transpose(x) if equation == "ij,jk->ik" else x)
        added = [op.type for op in graph.get_operations()[before:]]
    assert added == ["Transpose", "MatMul", "MatMul", "MatMul"]


def test_sizes_that_differ_when_a_step_runs_it_are_refused():
    for equation, shapes in {"ii": [(2, 3)], "ij,jk": [(2, 3), (2, 2)]}.items():
        with pytest.raises(OpError):
            open_sizes(lambda *xs, equation=equation: tg.einsum(equation, *xs), *map(np.ones, shapes))


@pytest.mark.parametrize("axes", [0, 1, 2, [[0, 2], [1, 0]], [-1, 0], np.array([[1], [1]])])
def test_tensordot_is_numpys(axes):
    a, b = matrix("float64", 3, 2, 3), matrix("float64", 3, 3, 2) if isinstance(axes, list) else matrix("float64", 2, 3)
    if isinstance(axes, np.ndarray):
        b = matrix("float64", 4, 2)
    elif axes == 1:
        b = matrix("float64", 3, 4)
    wanted = np.tensordot(a, b, axes.tolist() if isinstance(axes, np.ndarray) else axes)
    close(run(lambda x, y: tg.tensordot(x, y, axes), a, b), wanted)
    close(open_sizes(lambda x, y: tg.tensordot(x, y, axes), a, b), wanted)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8", "uint16", "bool"])
def test_diagonals_of_every_dtype(kind):
    with tg.Graph().as_default() as graph:
        x = tg.cast(tg.constant([[1, 0, 1], [0, 1, 1]]), kind)
        parts = [
            tg.matrix_diag_part(x, k=(-1, 1)),
            tg.matrix_set_diag(x, tg.matrix_diag_part(x, k=1), k=-1 + 1),
            tg.matrix_diag(x[0]),
            tg.matrix_band_part(x, 0, 0),
            tg.diag(x[0]),
            tg.diag_part(tg.diag(x)),
        ]
        parts = [tg.cast(part, "int32") for part in parts]
    with tg.SyncSession(graph) as session:
        band, replaced, square, kept, tensor, back = session.run(parts)
    assert band.tolist() == [[0, 1], [1, 1], [0, 0]]
    assert replaced.tolist() == [[0, 0, 1], [0, 1, 1]]
    assert square.tolist() == tensor.tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert kept.tolist() == [[1, 0, 0], [0, 1, 0]]
    assert back.tolist() == [[1, 0, 1], [0, 1, 1]]


def test_matrices_are_transposed_whatever_is_known():
    x = matrix("complex128", 2, 3, 4)
    for known in (True, False):
        close(run(lambda x: tg.matrix_transpose(x, conjugate=True), x, known=known), adjoint(x))
        close(run(tg.trace, x, known=known), np.einsum("...ii", x[..., :3]))
