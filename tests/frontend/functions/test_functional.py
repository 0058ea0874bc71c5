"""map_fn, foldl, foldr and scan: values as in plain Python, gradients as of the unrolled program."""

import dataclasses
from collections import namedtuple

import numpy as np
import pytest
import tagloom as tg
from tagloom import TensorArray, while_loop
from tagloom.testing import numerical_gradients

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class State:
    total: object
    count: object


def double(values):
    return tg.constant(np.asarray(values, np.float64))


def unknown(values):
    """Return a placeholder of unknown length whose default is `values`."""
    array = np.asarray(values, np.float64)
    return tg.placeholder_with_default(tg.constant(array), [None, *array.shape[1:]])


def python_map(fn, elems):
    return np.stack([fn(x) for x in elems])


def python_foldl(fn, elems, initializer=None):
    elems = list(elems)
    total = elems.pop(0) if initializer is None else initializer
    for elem in elems:
        total = fn(total, elem)
    return total


def python_scan(fn, elems, initializer=None, reverse=False):
    elems = list(elems)[::-1] if reverse else list(elems)
    totals = [elems.pop(0)] if initializer is None else []
    total = totals[0] if initializer is None else initializer
    for elem in elems:
        total = fn(total, elem)
        totals.append(total)
    return np.stack(totals[::-1] if reverse else totals)


# The paper's Figure 2 (Yu et al., 2018, section 2.1).
def scan(fn, elems, init):
    elem_ta = TensorArray(dtype=elems.dtype).unstack(elems)
    result_ta = TensorArray(dtype=init.dtype)
    n = elem_ta.size()

    def pred(i, a, ta):
        return i < n

    def body(i, a, ta):
        a_out = fn(a, elem_ta.read(i))
        ta = ta.write(i, a_out)
        return (i + 1, a_out, ta)

    _, _, r = while_loop(pred, body, (0, init, result_ta))
    return r.stack()


VALUES = [1.5, -2.0, 0.5, 3.0]


def mix(a, x):
    return a * x + x


class TestFigureTwo:
    def test_values(self, run):
        result = run(scan(mix, double(VALUES), tg.constant(np.float64(2.0))))
        np.testing.assert_allclose(result, python_scan(mix, VALUES, 2.0))

    def test_gradients_are_those_of_scan(self, run):
        elems, init = double(VALUES), tg.constant(np.float64(2.0))
        ours = tg.gradients(scan(mix, elems, init), [elems, init])
        library = tg.gradients(tg.scan(mix, elems, init), [elems, init])
        for a, b in zip(*run([ours, library]), strict=True):
            np.testing.assert_allclose(a, b)


LENGTHS = pytest.mark.parametrize("make", [double, unknown])


class TestValues:
    @LENGTHS
    def test_map_fn(self, run, make):
        np.testing.assert_allclose(run(tg.map_fn(lambda x: x * x + 1.0, make(VALUES))), np.square(VALUES) + 1)

    @LENGTHS
    @pytest.mark.parametrize("initializer", [None, 2.0])
    def test_foldl_and_foldr(self, run, make, initializer):
        elems = make(VALUES)
        init = None if initializer is None else tg.constant(np.float64(initializer))
        left, right = run([tg.foldl(mix, elems, init), tg.foldr(mix, elems, init)])
        np.testing.assert_allclose(left, python_foldl(mix, VALUES, initializer))
        np.testing.assert_allclose(right, python_foldl(mix, VALUES[::-1], initializer))

    @LENGTHS
    @pytest.mark.parametrize("initializer", [None, 2.0])
    @pytest.mark.parametrize("reverse", [False, True])
    def test_scan(self, run, make, initializer, reverse):
        init = None if initializer is None else tg.constant(np.float64(initializer))
        result = run(tg.scan(mix, make(VALUES), init, reverse=reverse))
        np.testing.assert_allclose(result, python_scan(mix, VALUES, initializer, reverse))

    def test_rows_of_a_matrix(self, run):
        rows = np.arange(6.0).reshape(3, 2)
        sums, total = run([tg.scan(tg.add, double(rows)), tg.foldl(tg.add, double(rows))])
        np.testing.assert_allclose(sums, np.cumsum(rows, axis=0))
        np.testing.assert_allclose(total, rows.sum(axis=0))

    def test_an_array_of_numpy_is_taken(self, run):
        assert run(tg.map_fn(lambda x: x + 1, np.array([1, 2, 3]))).tolist() == [2, 3, 4]

    def test_results_may_have_another_rank_and_dtype(self, run):
        result = tg.map_fn(lambda n: tg.fill([2], tg.cast(n, "float32")), np.array([1, 2, 3]), dtype="float32")
        assert result.shape == [3, 2]
        assert run(result).tolist() == [[1, 1], [2, 2], [3, 3]]

    def test_literals_take_the_dtype(self, run):
        assert run(tg.map_fn(lambda x: 1, double([4.0, 5.0]))).dtype == np.float64
        assert run(tg.scan(lambda a, x: 0, double([4.0, 5.0]))).tolist() == [4.0, 0.0]

    def test_window_of_one_gives_the_same(self, run):
        elems = double(VALUES)
        wide, narrow = run([tg.scan(mix, elems), tg.scan(mix, elems, parallel_iterations=1)])
        np.testing.assert_array_equal(wide, narrow)

    def test_one_in_another(self, run):
        matrix = np.arange(6.0).reshape(2, 3)
        result = tg.map_fn(lambda row: tg.foldl(mix, row), double(matrix))
        np.testing.assert_allclose(run(result), [python_foldl(mix, row) for row in matrix])

    def test_inside_a_branch_and_a_loop(self, run):
        elems = double(VALUES)
        branch = tg.cond(tg.constant(True), lambda: tg.foldl(tg.add, elems), lambda: tg.constant(np.float64(0)))
        _, looped = tg.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tg.map_fn(lambda x: 2.0 * x, a)), (0, elems))
        np.testing.assert_allclose(run(branch), sum(VALUES))
        np.testing.assert_allclose(run(looped), 8 * np.array(VALUES))

    def test_static_shape_of_the_result(self):
        elems = tg.placeholder("float32", [None, 3])
        assert tg.map_fn(lambda row: row * 2.0, elems).shape == [None, 3]
        assert tg.scan(tg.add, tg.placeholder("float32", [4, 3])).shape == [4, 3]
        assert tg.foldl(tg.add, elems).shape == [3]


class TestStructures:
    def test_map_fn_over_a_pair_to_a_dict(self, run):
        pair = Pair(double([1.0, 2.0]), tg.constant([10, 20]))
        result = tg.map_fn(
            lambda p: {"sum": p.left + tg.cast(p.right, "float64"), "n": p.right},
            pair,
            dtype={"n": "int32", "sum": "float64"},
        )
        found = run(result)
        assert found["sum"].tolist() == [11.0, 22.0]
        assert found["n"].tolist() == [10, 20]

    def test_folds_over_a_dict(self, run):
        elems = {"a": double([1.0, 2.0]), "b": double([3.0, 4.0])}
        left = tg.foldl(lambda t, x: t + x["a"] * x["b"], elems, tg.constant(np.float64(0)))
        right = tg.foldr(lambda t, x: {"b": t["b"] + x["b"], "a": t["a"] * x["a"]}, elems)
        assert run(left) == 11.0
        assert run(right) == {"a": 2.0, "b": 7.0}

    @pytest.mark.parametrize("reverse", [False, True])
    def test_scan_with_a_dataclass(self, run, reverse):
        start = State(tg.constant(np.float64(0)), tg.constant(0))
        result = tg.scan(lambda s, x: State(s.total + x, s.count + 1), double(VALUES), start, reverse=reverse)
        found = run(result)
        assert isinstance(found, State)
        np.testing.assert_allclose(found.total, python_scan(lambda a, x: a + x, VALUES, 0.0, reverse))
        assert found.count.tolist() == ([4, 3, 2, 1] if reverse else [1, 2, 3, 4])

    def test_scan_of_a_tuple_without_initializer(self, run):
        result = tg.scan(lambda a, x: (a[0] + x[0], a[1] * x[1]), (double([1, 2, 3]), double([4, 5, 6])))
        sums, products = run(result)
        assert sums.tolist() == [1, 3, 6]
        assert products.tolist() == [4, 20, 120]


class TestNoElements:
    @LENGTHS
    def test_give_the_initializer_or_nothing(self, run, make):
        none, two = make(np.zeros((0, 3))), tg.constant(np.full(3, 2.0))
        mapped, left, right, scanned = run(
            [
                tg.map_fn(lambda x: x[:2], none),
                tg.foldl(mix, none, two),
                tg.foldr(mix, none, two),
                tg.scan(mix, none, two),
            ]
        )
        assert mapped.shape == (0, 2)
        assert left.tolist() == right.tolist() == [2.0, 2.0, 2.0]
        assert scanned.shape == (0, 3)

    @pytest.mark.parametrize("function", [tg.foldl, tg.foldr, tg.scan])
    def test_nor_an_initializer_is_an_error(self, run, function):
        with pytest.raises(tg.ShapeError, match="no elements and no initializer"):
            function(mix, double([]))
        with pytest.raises(tg.TensorArrayError, match="out of bounds"):
            run(function(mix, unknown([])))


class TestErrors:
    def test_scalar_elements(self):
        with pytest.raises(tg.ShapeError, match="first dimension"):
            tg.map_fn(lambda x: x, tg.constant(1.0))

    def test_different_lengths(self, run):
        with pytest.raises(tg.ShapeError, match="different numbers of elements"):
            tg.map_fn(lambda x: x[0], (double([1.0]), double([1.0, 2.0])), dtype="float64")
        pair = unknown([1.0]), unknown([1.0, 2.0])
        with pytest.raises(tg.OpError, match="different numbers of elements"):
            run(tg.map_fn(lambda x: x[0], pair, dtype="float64"))

    def test_map_fn_of_another_structure_or_dtype(self):
        with pytest.raises(tg.GraphError, match="another structure") as caught:
            tg.map_fn(lambda x: (x, x), double(VALUES))
        assert "dtype=" in caught.value.hint
        with pytest.raises(tg.DtypeError, match="another dtype") as caught:
            tg.map_fn(lambda x: x > 0.0, double(VALUES))
        assert "dtype='bool'" in caught.value.hint
        assert caught.value.source.file == __file__

    def test_accumulator_of_another_structure_dtype_or_shape(self):
        with pytest.raises(tg.LoopVariableError, match="another structure"):
            tg.scan(lambda a, x: (a, x), double(VALUES))
        with pytest.raises(tg.LoopVariableError, match="changes its dtype"):
            tg.foldl(lambda a, x: tg.cast(a, "float32"), double(VALUES))
        with pytest.raises(tg.LoopVariableError, match="changes its shape"):
            tg.foldl(lambda a, x: tg.stack([a, x]), double(VALUES))

    def test_lack_of_elements(self):
        with pytest.raises(tg.GraphError, match="nothing to go through"):
            tg.map_fn(lambda x: x, [])


ELEMS, INIT, WEIGHT = np.array([0.5, -1.2, 0.8]), np.array(0.7), np.array(1.3)

# name: (with tagloom, with NumPy), functions of elements, start and a captured weight.
PROGRAMS = {
    "map_fn": (
        lambda e, a, w: tg.map_fn(lambda x: tg.sin(x * w) * a, e),
        lambda e, a, w: python_map(lambda x: np.sin(x * w) * a, e),
    ),
    "foldl": (
        lambda e, a, w: tg.foldl(lambda t, x: t * x * w + tg.cos(x), e, a),
        lambda e, a, w: python_foldl(lambda t, x: t * x * w + np.cos(x), e, a),
    ),
    "foldr": (
        lambda e, a, w: tg.foldr(lambda t, x: t * x * w + tg.cos(x), e, a),
        lambda e, a, w: python_foldl(lambda t, x: t * x * w + np.cos(x), e[::-1], a),
    ),
    "foldl without start": (
        lambda e, a, w: tg.foldl(lambda t, x: t * x * w * a + x, e),
        lambda e, a, w: python_foldl(lambda t, x: t * x * w * a + x, e),
    ),
    "scan": (
        lambda e, a, w: tg.scan(lambda t, x: t * x * w + x * x, e, a),
        lambda e, a, w: python_scan(lambda t, x: t * x * w + x * x, e, a),
    ),
    "scan in reverse": (
        lambda e, a, w: tg.scan(lambda t, x: t * x * w + a, e, reverse=True),
        lambda e, a, w: python_scan(lambda t, x: t * x * w + a, e, reverse=True),
    ),
    "scan of a pair": (
        lambda e, a, w: tg.scan(lambda t, x: (t[0] * x + t[1], t[1] * w), e, (a, w))[0],
        lambda e, a, w: _pairs(e, a, w),
    ),
    "scan in map_fn": (
        lambda e, a, w: tg.map_fn(lambda x: tg.scan(lambda t, y: t * y + x * w, e, a), e, dtype="float64"),
        lambda e, a, w: python_map(lambda x: python_scan(lambda t, y: t * y + x * w, e, a), e),
    ),
}


def _pairs(elems, left, right):
    found = []
    weight = right
    for x in elems:
        left, right = left * x + right, right * weight
        found.append(left)
    return np.stack(found)


@pytest.mark.parametrize("program", PROGRAMS)
@LENGTHS
class TestGradients:
    def test_first_order(self, run, program, make):
        ours, python = PROGRAMS[program]
        xs = [make(ELEMS), double(INIT), double(WEIGHT)]
        y = tg.reduce_sum(tg.square(ours(*xs)))
        value, found = run([y, tg.gradients(y, xs)])
        wanted = numerical_gradients(lambda *arrays: np.sum(python(*arrays) ** 2), [ELEMS, INIT, WEIGHT])
        np.testing.assert_allclose(value, np.sum(python(ELEMS, INIT, WEIGHT) ** 2))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)

    def test_second_order(self, run, program, make):
        ours, python = PROGRAMS[program]
        xs = [make(ELEMS), double(INIT), double(WEIGHT)]
        first = tg.gradients(tg.reduce_sum(tg.square(ours(*xs))), xs)
        second = tg.gradients([tg.reduce_sum(g * g) for g in first], xs)

        def slope(*arrays):
            slopes = numerical_gradients(lambda *a: np.sum(python(*a) ** 2), arrays)
            return sum(np.sum(s**2) for s in slopes)

        wanted = numerical_gradients(slope, [ELEMS, INIT, WEIGHT])
        for a, b in zip(run(second), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-4)


def test_back_prop_false_cuts_the_gradient():
    elems = double(VALUES)
    assert tg.gradients(tg.map_fn(lambda x: x * x, elems, back_prop=False), [elems]) == [None]
    assert tg.gradients(tg.scan(mix, elems, double(1.0), back_prop=False), [elems]) == [None]


def test_hessian_through_scan(run):
    elems = double([0.5, -1.2, 0.8])
    (hessian,) = tg.hessians(tg.foldl(lambda t, x: t * x, elems), [elems])
    a, b, c = 0.5, -1.2, 0.8
    np.testing.assert_allclose(run(hessian), [[0, c, b], [c, 0, a], [b, a, 0]], atol=1e-12)


def test_names_lie_in_one_scope():
    result = tg.map_fn(lambda x: x * 2.0, double(VALUES), name="twice")
    assert result.op.name.startswith("twice/")
