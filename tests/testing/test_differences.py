"""Finite differences: of functions of a number, and of arrays of all dtypes with derivatives."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.testing.differences import CENTRAL, FOURTH_ORDER, derivative, numerical_gradients


@pytest.mark.parametrize(("stencil", "degree"), [(CENTRAL, 2), (FOURTH_ORDER, 4)])
def test_a_stencil_is_exact_for_polynomials_of_its_degree(stencil, degree):
    for power in range(1, degree + 1):
        assert derivative(lambda t, n=power: (2.0 + t) ** n, 0.5, stencil) == pytest.approx(power * 2.0 ** (power - 1))
    higher = degree + 1
    assert derivative(lambda t: (2.0 + t) ** higher, 0.5, stencil) != pytest.approx(higher * 2.0**degree)


def test_each_element_of_each_array_is_moved_alone():
    a, b, n = np.float64([[1.0, 2.0], [3.0, 4.0]]), np.float64(5.0), np.int64(2)
    first, second, third = numerical_gradients(lambda a, b, n: np.sum(a**3) * b + n, [a, b, n])
    np.testing.assert_allclose(first, 15 * a**2, rtol=1e-9)
    np.testing.assert_allclose(second, np.sum(a**3), rtol=1e-9)
    assert third is None
    assert a.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_complex_elements_move_along_both_parts():
    z = np.complex128([1 + 2j, -0.5j])
    (found,) = numerical_gradients(lambda z: np.sum(z.real**2 + 3 * z.imag), [z])
    np.testing.assert_allclose(found, 2 * z.real + 3j, rtol=1e-9)


@pytest.mark.parametrize("value", [np.ones(2), np.complex128(1j)])
def test_only_real_numbers_have_such_gradients(value):
    with pytest.raises(tg.DtypeError, match="one real number"):
        numerical_gradients(lambda x: value, [1.0])
