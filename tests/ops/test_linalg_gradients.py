"""Gradients of linear algebra that the test of the registry can not try: of what depends on no choice of vectors."""

import numpy as np
import pytest
import scipy.linalg
import tagloom as tg

from tests.ops.differences import check_gradients

RANDOM = np.random.default_rng(11)


def real(*shape):
    return RANDOM.standard_normal(shape)


def mixed(*shape):
    return RANDOM.standard_normal(shape) + 1j * RANDOM.standard_normal(shape)


def adjoint(x):
    return tg.matrix_transpose(x, conjugate=True)


def positive(x):
    """Return a Hermitian matrix of any one, which all its elements move."""
    return tg.matmul(x, adjoint(x)) + tg.eye(tg.shape(x)[-1], dtype=x.dtype)


def hermitian(x):
    return x + adjoint(x)


def projector(x, function=lambda s: s):
    """Return a function of a Hermitian matrix by its eigenvectors: their angles do not matter to it."""
    e, v = tg.self_adjoint_eig(hermitian(x))
    return tg.matmul(v * tg.cast(function(e), v.dtype)[..., None, :], adjoint(v))


def by_vectors(x, full=False):
    """Return a function of a matrix by its singular vectors: turned together they do not matter to it."""
    s, u, v = tg.svd(x, full_matrices=full)
    k = tg.shape(s)[-1]
    return tg.matmul(u[..., :k] * tg.cast(s * s + s, u.dtype)[..., None, :], adjoint(v[..., :k]))


def beyond(x):
    """Return the projector on what the rows of a wide matrix do not reach, by vectors of which any basis will do."""
    _, _, v = tg.svd(x, full_matrices=True)
    rest = v[..., tg.shape(x)[-2] :]
    return tg.matmul(rest, adjoint(rest))


def complement(x):
    q, _ = tg.qr(x, full_matrices=True)
    rest = q[..., tg.shape(x)[-1] :]
    return tg.matmul(rest, adjoint(rest))


CASES = {
    "cholesky": (lambda x: tg.cholesky(positive(x)), [real(3, 3)]),
    "cholesky, complex": (lambda x: tg.cholesky(positive(x)), [mixed(2, 2)]),
    "cholesky, batch": (lambda x: tg.cholesky(positive(x)), [real(2, 2, 2)]),
    "logdet": (lambda x: tg.logdet(positive(x)), [real(3, 3)]),
    "cholesky_solve": (lambda x, b: tg.cholesky_solve(tg.cholesky(positive(x)), b), [real(2, 2), real(3, 2, 1)]),
    "eigenvectors": (lambda x: projector(x, tg.sin), [real(3, 3)]),
    "eigenvectors, complex": (lambda x: projector(x, tg.sin), [mixed(2, 2)]),
    "svd": (by_vectors, [real(3, 2)]),
    "svd, complex": (by_vectors, [mixed(2, 3)]),
    "svd, full": (lambda x: by_vectors(x, full=True), [real(2, 4)]),
    "svd, null space": (beyond, [real(2, 4)]),
    "svd, null space, complex": (beyond, [mixed(1, 3)]),
    "qr, complement": (complement, [real(4, 2)]),
    "qr, wide": (lambda x: tg.qr(x), [real(2, 3)]),
    "qr, complex": (lambda x: tg.qr(x), [mixed(2, 2)]),
    "inverse, adjoint": (lambda x: tg.matrix_inverse(positive(x), adjoint=True), [mixed(2, 2)]),
    "expm": (lambda x: tg.expm(x), [real(2, 2, 2)]),
    "least squares, tall": (lambda a, b: tg.matrix_solve_ls(a, b), [real(3, 2), real(3, 1)]),
    "least squares, wide": (lambda a, b: tg.matrix_solve_ls(a, b), [mixed(2, 3), mixed(2, 1)]),
    "least squares, regularized": (lambda a, b: tg.matrix_solve_ls(a, b, 0.5), [real(2, 3), real(2, 2, 1)]),
    "least squares, slow": (lambda a, b: tg.matrix_solve_ls(a, b, fast=False), [real(3, 2), real(3, 1)]),
    "regularizer": (lambda a, r: tg.matrix_solve_ls(a, tg.ones_like(a), r), [real(3, 2), np.array(0.5)]),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_differences(name, known):
    function, arrays = CASES[name]
    check_gradients(function, arrays, known)


EQUATIONS = {
    "ij,jk->ik": [(2, 3), (3, 2)],
    "ij,kj->ki": [(2, 3), (2, 3)],
    "ji,jk->ik": [(3, 2), (3, 2)],
    "iij->j": [(2, 2, 3)],
    "iii->i": [(2, 2, 2)],
    "ii": [(3, 3)],
    "i,j->ji": [(2,), (3,)],
    "abc,abd->acd": [(2, 2, 1), (2, 2, 3)],
    "ij,jk,kl->il": [(2, 3), (3, 1), (1, 2)],
    "ijk,jk->i": [(2, 2, 2), (2, 2)],
    "i,i->": [(3,), (3,)],
    "ab,b,bc,c->a": [(2, 3), (3,), (3, 2), (2,)],
    "ij->": [(2, 3)],
    ",i->i": [(), (2,)],
}


@pytest.mark.parametrize("make", [real, mixed])
@pytest.mark.parametrize("equation", EQUATIONS)
def test_gradients_of_einsum_are_differences(equation, make):
    arrays = [np.asarray(make(*shape)) for shape in EQUATIONS[equation]]
    check_gradients(lambda *xs: tg.einsum(equation, *xs), arrays)


def test_gradient_of_an_ellipsis_is_summed():
    check_gradients(lambda x, y: tg.einsum("...ij,j...->i...", x, y), [real(3, 1, 2, 2), real(2, 2)])


@pytest.mark.parametrize("axes", [0, 1, 2, [[0, 1], [1, 0]]])
def test_gradients_of_tensordot_are_differences(axes):
    check_gradients(lambda x, y: tg.tensordot(x, y, axes), [real(2, 2), real(2, 2)])


def test_gradients_of_cross_are_differences():
    check_gradients(tg.cross, [real(2, 1, 3), real(2, 3)])
    check_gradients(tg.cross, [mixed(3), mixed(3)], known=False)


@pytest.mark.parametrize("scale", [0.0, 1e-20, 1.0, 1e6, 1e12])
def test_gradient_of_expm_is_as_exact_for_cotangents_of_any_size(scale):
    x = np.array([[0.5, -1, 0.25], [2, 0.1, -0.5], [-0.75, 1, -0.3]], np.float32)
    found = tg.grad(lambda x: tg.reduce_sum(tg.expm(x) * scale)).sync(x)
    wanted = scipy.linalg.expm_frechet(x.T.astype(float), np.ones((3, 3)))[1] * scale
    np.testing.assert_allclose(found, wanted, rtol=2e-6)


def test_gradients_between_equal_values_are_no_nan():
    """Where the function does not depend on which vectors they are; that of the values alone is exact."""
    f = tg.grad(lambda x: tg.reduce_sum(projector(x, tg.exp)))
    assert np.isfinite(f.sync(np.eye(3))).all()
    g = tg.grad(lambda x: tg.reduce_sum(tg.svd(x, compute_uv=False)))
    np.testing.assert_allclose(g.sync(np.eye(3)), np.eye(3), atol=1e-12)
    h = tg.grad(lambda x: tg.reduce_sum(by_vectors(x)))
    assert np.isfinite(h.sync(np.zeros((2, 3)))).all()
