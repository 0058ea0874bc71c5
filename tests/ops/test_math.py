"""Mathematical operations: dtypes, shapes, special values, and what errors say."""

import inspect

import ml_dtypes
import numpy as np
import pytest
import tagloom as tg
from tagloom.base import dtypes
from tagloom.base.errors import DtypeError, GraphError, ShapeError
from tagloom.base.shapes import Shape
from tagloom.ir.apply import apply, constant
from tagloom.ir.definition import NotDifferentiable, Sample, define
from tagloom.ops.array import argminmax as searching
from tagloom.ops.control import checks
from tagloom.ops.control.placeholders import placeholder
from tagloom.ops.math import arithmetic, comparison, elementwise, linear, reductions, trigonometry
from tagloom.ops.math import complex as complexes
from tagloom.ops.math import cumulative as products
from tagloom.ops.nn import activations, normalization
from tagloom.ops.nn import losses as nn

from tests.ops.evaluation import declare_all, evaluate
from tests.support.cases import each

pytestmark = pytest.mark.usefixtures("graph")

DEFINITIONS = {d.type: d for d in declare_all()}
FAMILIES = (
    activations,
    arithmetic,
    checks,
    comparison,
    complexes,
    elementwise,
    linear,
    nn,
    products,
    reductions,
    searching,
    trigonometry,
)


def value(tensor, feeds=None):
    with np.errstate(all="ignore"):
        (result,) = evaluate([tensor], feeds or {})
    assert result.dtype == tensor.dtype.numpy
    return result


def declared_in(module):
    text = inspect.getsource(module)
    return [d for name, d in DEFINITIONS.items() if f'"{name}"' in text.replace(f'apply("{name}"', "")]


CASES = [
    pytest.param(d, dtype, id=f"{d.type}-{dtype}")
    for d in {d.type: d for m in FAMILIES for d in declared_in(m)}.values()
    for dtype in d.signature.where.get("T", ())
    if d.samples and dtype is not dtypes.string and not (d.type == "RealDiv" and dtype.is_integer)
]


def as_kind(array, dtype):
    with np.errstate(all="ignore"):
        return np.abs(array).astype(dtype.numpy) if dtype.name.startswith("uint") else array.astype(dtype.numpy)


@each("definition, dtype", CASES)
def test_kernel_takes_every_dtype_it_declares(definition, dtype):
    takes(definition, dtype)


TOP_AND_BOTTOM = define(
    "TestTopAndBottom",
    "places: *int32, values: *T -> top: T, bottom: T, count: int32",
    where={"T": dtypes.REAL},
    shape=lambda op: [Shape([]), Shape([]), Shape([])],
    kernel=lambda xp, *a: (xp.max(xp.stack(a[2:])), xp.min(xp.stack(a[2:])), np.int32(len(a[2:]))),
    gradient=NotDifferentiable("it is for a test"),
    samples=[Sample([[np.int32(0), np.int32(1)], [np.float64(2), np.float64(3)]], (3.0, 2.0, np.int32(2)))],
)


@pytest.mark.parametrize("dtype", dtypes.REAL, ids=str)
def test_a_kernel_of_several_results_and_lists_takes_every_dtype_too(dtype):
    takes(TOP_AND_BOTTOM, dtype)


def takes(definition, dtype):
    """Run the first sample of a definition with inputs of a dtype, and hold what comes against what was inferred."""
    sample = definition.samples[0]
    inputs = [
        x if p.type != "T" else [as_kind(a, dtype) for a in x] if p.many else as_kind(np.asarray(x), dtype)
        for p, x in zip(definition.signature.inputs, sample.inputs, strict=True)
    ]
    if definition.type in ("FloorDiv", "FloorMod"):
        inputs[1] = np.maximum(inputs[1], 1).astype(dtype.numpy)
    if definition.type == "Pow":
        inputs[1] = as_kind(np.abs(inputs[1]), dtype)
    made = apply(definition.type, *inputs, **{**sample.attrs, **wider(definition, dtype)})
    for tensor in made if isinstance(made, list) else [made]:
        assert np.shape(value(tensor)) == tensor.shape


def wider(definition, dtype):
    return {"dtype": "complex128" if dtype is dtypes.float64 else "complex64"} if definition.type == "Complex" else {}


BINARY = [
    arithmetic.add,
    arithmetic.subtract,
    arithmetic.multiply,
    arithmetic.divide,
    arithmetic.floordiv,
    arithmetic.mod,
    arithmetic.pow,
    arithmetic.maximum,
    arithmetic.minimum,
    arithmetic.squared_difference,
    arithmetic.atan2,
    arithmetic.div_no_nan,
    arithmetic.xlogy,
    comparison.equal,
    comparison.less,
    comparison.greater_equal,
]


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_mixed_dtypes_name_both_and_cast(function):
    with pytest.raises(DtypeError) as caught:
        function(placeholder("float32"), placeholder("float64"))
    text = str(caught.value)
    assert "float32" in text
    assert "float64" in text
    assert "cast" in text
    assert "test_math.py" in text


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_a_literal_takes_the_dtype_of_the_other_operand(function, dtype):
    for left, right in ((placeholder(dtype), 2), (2, placeholder(dtype)), (placeholder(dtype), 0.5)):
        op = function(left, right).op
        assert [t.dtype.name for t in op.inputs] == [dtype, dtype]


def test_a_float_literal_does_not_fit_integers():
    with pytest.raises(DtypeError, match="cast"):
        placeholder("int32") + 0.5


def test_operators_take_literals_and_arrays_on_both_sides():
    x = constant(np.float64([4, 9]))
    assert value(1 - x).tolist() == [-3, -8]
    assert value(np.float64([8, 18]) / x).tolist() == [2, 2]
    assert value(2**x).tolist() == [16, 512]
    assert value(abs(-x) // 5 + x % 5).tolist() == [4, 5]


def test_operators_on_integers_and_bools():
    n, p = constant(np.int32([6, 3])), constant([True, False])
    assert value((n & 3) ^ (n | 1) ^ ~n).tolist() == [(a & 3) ^ (a | 1) ^ ~a for a in (6, 3)]
    assert value(~(p & True) | (n > 5) ^ p).tolist() == [False, True]


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_true_division_of_integers_is_refused(dtype):
    with pytest.raises(DtypeError, match="not defined for integers") as caught:
        placeholder(dtype) / 2
    assert "//" in caught.value.hint
    assert "cast" in caught.value.hint


@pytest.mark.parametrize("function", [arithmetic.floordiv, arithmetic.floormod])
def test_integer_division_by_zero_raises_and_float_does_not(function):
    with pytest.raises(ZeroDivisionError):
        value(function(constant([7, 8]), constant([2, 0])))
    assert not np.isfinite(value(function(constant([7.0]), constant([0.0])))).any()


@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_floor_division_and_remainder_agree_with_python(dtype):
    pairs = [(a, b) for a in (-7, -6, 0, 6, 7) for b in (-3, 2, 5)]
    x, y = (constant(np.array(v, dtype)) for v in zip(*pairs, strict=True))
    assert value(x // y).tolist() == [a // b for a, b in pairs]
    assert value(x % y).tolist() == [a % b for a, b in pairs]


def test_integer_to_a_negative_power_raises():
    with pytest.raises(ValueError, match="negative"):
        value(constant(2) ** constant(-1))


UFUNCS = {
    "Sin": np.sin,
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Log": np.log,
    "Tanh": np.tanh,
    "Abs": np.abs,
    "Sign": np.sign,
    "Floor": np.floor,
    "Rint": np.rint,
    "Atan": np.arctan,
    "Reciprocal": lambda x: 1 / x,
    "IsNan": np.isnan,
    "Sigmoid": lambda x: np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x))),
    "Softplus": lambda x: np.where(x > 50, x, np.log1p(np.exp(np.minimum(x, 50)))),
    "Relu": lambda x: np.where(np.isnan(x), x, np.maximum(x, 0)),
    "Relu6": lambda x: np.where(np.isnan(x), x, np.clip(x, 0, 6)),
    "Elu": lambda x: np.where(x > 0, x, np.exp(x) - 1),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Rsqrt": lambda x: 1 / np.sqrt(x),
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 80.0, -80.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("type_", UFUNCS)
def test_special_values(type_, dtype):
    x = np.array(SPECIAL).astype(dtype)
    with np.errstate(all="ignore"):
        wanted = UFUNCS[type_](x.astype(np.float64))
        limits = ml_dtypes.finfo(dtype)
        rounded = wanted if wanted.dtype == bool else wanted.astype(dtype).astype(np.float64)
    result = value(apply(type_, x)).astype(np.float64)
    np.testing.assert_allclose(result, rounded, rtol=4 * float(limits.eps), atol=4 * float(limits.tiny))


@pytest.mark.parametrize("type_", [*UFUNCS, "Erf", "Erfc", "Selu", "LeakyRelu"])
def test_a_scalar_stays_an_array_of_its_dtype(type_):
    for dtype in (np.float32, ml_dtypes.bfloat16):
        result = value(apply(type_, np.array(0.5, dtype)))
        assert isinstance(result, np.ndarray)
        assert result.shape == ()


def test_nan_wins_in_maximum_and_minimum():
    x, y = constant([np.nan, 1.0]), constant([1.0, np.nan])
    assert np.isnan(value(arithmetic.maximum(x, y))).all()
    assert np.isnan(value(arithmetic.minimum(x, y))).all()


def test_nan_equals_nothing():
    x = constant([1.0, np.nan])
    assert value(comparison.equal(x, x)).tolist() == [True, False]
    assert value(comparison.not_equal(x, x)).tolist() == [False, True]
    assert value(x == x).tolist() == [True, False]


def test_ordering_is_not_defined_for_complex():
    with pytest.raises(DtypeError):
        comparison.less(placeholder("complex64"), placeholder("complex64"))


def test_logic_takes_only_bool():
    with pytest.raises(DtypeError, match="bool"):
        comparison.logical_and(placeholder("int32"), placeholder("int32"))


def test_complex_parts():
    z = complexes.complex([3.0, 0.0], [4.0, -2.0])
    assert z.dtype is dtypes.complex64
    assert value(abs(z)).tolist() == [5, 2]
    assert value(complexes.real(z)).tolist() == [3, 0]
    assert value(complexes.imag(z)).tolist() == [4, -2]
    assert value(complexes.conj(z)).tolist() == [3 - 4j, 2j]
    assert complexes.complex(placeholder("float64"), 1).dtype is dtypes.complex128
    x = constant([1.5])
    assert complexes.conj(x) is x
    assert complexes.real(x) is x
    assert value(complexes.imag(x)).tolist() == [0]


def test_shapes_that_do_not_broadcast():
    with pytest.raises(ShapeError) as caught:
        placeholder("float32", [2, 3]) * placeholder("float32", [4])
    assert "[2,3]" in str(caught.value)
    assert "[4]" in str(caught.value)


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        ([None, 3], [1], [None, 3]),
        ([None, 3], [5, 1], [5, 3]),
        ([None], [None], [None]),
        (None, [3], None),
        ([2, 1, 4], [3, 1], [2, 3, 4]),
    ],
)
def test_broadcast_of_partial_shapes(left, right, wanted):
    made = arithmetic.add(placeholder("float32", left), placeholder("float32", right))
    assert made.shape == Shape(wanted)


@pytest.mark.parametrize(
    ("shape", "axis", "keepdims", "wanted"),
    [
        ([2, None, 4], None, False, []),
        ([2, None, 4], None, True, [1, 1, 1]),
        ([2, None, 4], 1, False, [2, 4]),
        ([2, None, 4], [-1, 0], False, [None]),
        ([2, None, 4], (-1,), True, [2, None, 1]),
        ([2, None, 4], [], False, [2, None, 4]),
        (None, None, False, []),
        (None, 1, False, None),
        (None, None, True, None),
    ],
)
@pytest.mark.parametrize(
    "reduce",
    [
        reductions.reduce_sum,
        reductions.reduce_mean,
        reductions.reduce_max,
        reductions.reduce_logsumexp,
        products.reduce_prod,
    ],
)
def test_static_shape_of_reductions(reduce, shape, axis, keepdims, wanted):
    assert reduce(placeholder("float32", shape), axis, keepdims).shape == Shape(wanted)


@pytest.mark.parametrize("reduce", [reductions.reduce_sum, reductions.reduce_min, products.reduce_prod])
def test_axes_of_reductions_are_checked(reduce):
    x = placeholder("float32", [2, 3])
    with pytest.raises(ShapeError, match="no such axis"):
        reduce(x, 2)
    with pytest.raises(ShapeError, match="twice"):
        reduce(x, [0, -2])


@pytest.mark.parametrize("axis", [None, 0, 2, -1, (0, 2), (-1, -3), (2, 0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("known", [True, False])
def test_reductions_agree_with_numpy(axis, keepdims, known):
    array = np.random.default_rng(3).standard_normal((2, 3, 4))
    x = placeholder("float64", array.shape if known else None)
    pairs = {
        reductions.reduce_sum: np.sum,
        reductions.reduce_mean: np.mean,
        reductions.reduce_max: np.max,
        reductions.reduce_min: np.min,
        products.reduce_prod: np.prod,
        reductions.reduce_logsumexp: np.logaddexp.reduce,
    }
    for ours, numpys in pairs.items():
        result = value(ours(x, axis, keepdims), {x: array})
        np.testing.assert_allclose(result, numpys(array, axis=axis, keepdims=keepdims), rtol=1e-12)


def test_reductions_of_extremes():
    assert value(reductions.reduce_logsumexp([-np.inf, -np.inf])) == -np.inf
    assert value(reductions.reduce_logsumexp([np.inf, 1.0])) == np.inf
    assert value(reductions.reduce_sum(np.zeros((0, 2)), 0)).tolist() == [0, 0]
    assert value(products.reduce_prod(np.zeros((0, 2)), 0)).tolist() == [1, 1]
    assert value(reductions.reduce_sum(np.full(1000, 1, ml_dtypes.bfloat16))) == 1000
    assert value(reductions.reduce_sum(np.int8([100, 100]))) == np.int8(-56)
    assert value(reductions.reduce_all(constant(True)))


def test_mean_of_integers_is_refused():
    with pytest.raises(DtypeError, match="cast"):
        reductions.reduce_mean(placeholder("int32", [3]))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_running_sums_and_products(axis, exclusive, reverse):
    array = np.float64([[2, 3, 5], [7, 11, 13]])
    for ours, step, start in ((products.cumsum, np.add, 0), (products.cumprod, np.multiply, 1)):
        wanted = np.empty_like(array)
        lines = np.moveaxis(array, axis, -1)[..., :: -1 if reverse else 1]
        outs = np.moveaxis(wanted, axis, -1)[..., :: -1 if reverse else 1]
        for line, out in zip(lines, outs, strict=True):
            total = float(start)
            for i, v in enumerate(line):
                before, total = total, step(total, v)
                out[i] = before if exclusive else total
        np.testing.assert_array_equal(value(ours(array, axis, exclusive, reverse)), wanted)


def test_running_sum_over_nothing():
    assert value(products.cumsum(np.zeros((0, 3)), 0, exclusive=True, reverse=True)).shape == (0, 3)
    with pytest.raises(ShapeError, match="axis"):
        products.cumsum(placeholder("float32", [2]), 1)


@pytest.mark.parametrize("run", [tg.cumsum, tg.cumprod, tg.cumulative_logsumexp])
@pytest.mark.parametrize(("x", "axis"), [(3.0, 0), ([1.0, 2.0], 1)])
def test_an_axis_that_the_step_finds_missing(run, x, axis):
    with pytest.raises(tg.OpError, match="there is no such axis"):
        tg.function(lambda: run(tg.placeholder_with_default(x, None), axis)).sync()


def test_argmax_axis_dtype_and_shape():
    x = placeholder("float32", [None, 3])
    assert searching.argmax(x).shape == [3]
    assert searching.argmin(x, -1, output_type="int32").dtype is dtypes.int32
    assert value(searching.argmax(np.float32([[1, 5, 5]]), 1)).tolist() == [1]


def test_terms_of_add_n():
    x = placeholder("float32", [None, 3])
    assert arithmetic.add_n([x, placeholder("float32", [2, None])]).shape == [2, 3]
    with pytest.raises(ShapeError, match="terms"):
        arithmetic.add_n([x, placeholder("float32", [3])])
    with pytest.raises(GraphError, match="at least one"):
        arithmetic.add_n([])
    terms = [np.float32([i, 1]) for i in range(4)]
    assert value(arithmetic.accumulate_n(terms, [2], "float32")).tolist() == [6, 4]
    assert terms[0].tolist() == [0, 1]
    with pytest.raises(ValueError, match="differ in shape"):
        value(arithmetic.add_n([x, placeholder("float32")]), _fed(x, np.ones((1, 3)), np.ones(3)))


def _fed(x, *arrays):
    added = next(op for op in x.consumers() if any(t.rank is None for t in op.inputs))
    return {t: np.float32(a) for t, a in zip(added.inputs, arrays, strict=True)}


@pytest.mark.parametrize(
    ("a", "b", "flags", "wanted"),
    [
        ([2, 3], [3, 4], {}, [2, 4]),
        ([None, 3], [None, 4], {}, [None, 4]),
        ([3, 2], [4, 3], {"transpose_a": True, "transpose_b": True}, [2, 4]),
        ([5, 1, 2, 3], [7, 3, 4], {}, [5, 7, 2, 4]),
        (None, [3, 4], {}, None),
    ],
)
def test_static_shape_of_matmul(a, b, flags, wanted):
    assert linear.matmul(placeholder("float32", a), placeholder("float32", b), **flags).shape == Shape(wanted)


def test_matmul_says_what_does_not_fit():
    a = placeholder("float32", [2, 3])
    with pytest.raises(ShapeError, match="inner dimensions") as caught:
        a @ placeholder("float32", [4, 3])
    assert "transpose_b=True" in caught.value.hint
    assert (a @ placeholder("float32", [3])).shape == [2]
    with pytest.raises(ShapeError, match="broadcast"):
        linear.matmul(placeholder("float32", [2, 2, 3]), placeholder("float32", [3, 3, 2]))


def test_matmul_of_batches():
    random = np.random.default_rng(5)
    a, b = random.standard_normal((4, 1, 2, 3)), random.standard_normal((5, 4, 3))
    result = value(linear.matmul(a, b, transpose_b=True))
    for i in range(4):
        for j in range(5):
            np.testing.assert_allclose(result[i, j], a[i, 0].dot(b[j].T), rtol=1e-12)


def test_cross_entropies_check_shapes():
    logits = placeholder("float32", [2, 5])
    with pytest.raises(ShapeError) as caught:
        nn.softmax_cross_entropy_with_logits(labels=placeholder("float32", [2]), logits=logits)
    assert "sparse" in caught.value.hint
    with pytest.raises(ShapeError, match="do not fit"):
        nn.sparse_softmax_cross_entropy_with_logits(labels=placeholder("int32", [2, 5]), logits=logits)
    with pytest.raises(IndexError, match="0 to 1"):
        value(nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 2], logits=np.zeros((2, 2))))


def test_check_numerics():
    assert value(checks.check_numerics([1.0, 2.0], "loss")).tolist() == [1, 2]
    with pytest.raises(FloatingPointError, match="loss: the tensor has NaN and Inf values"):
        value(checks.check_numerics([np.nan, np.inf], "loss"))
    with pytest.raises(FloatingPointError, match="loss: the tensor has Inf values"):
        value(checks.check_numerics([1.0, -np.inf], "loss"))


def test_bias_is_a_vector_over_channels():
    x = placeholder("float32", [None, 3])
    assert normalization.bias_add(x, [1, 2, 3]).shape == [None, 3]
    for bias in (placeholder("float32", [2]), placeholder("float32", [1, 3])):
        with pytest.raises(ShapeError, match="bias"):
            normalization.bias_add(x, bias)
    with pytest.raises(GraphError, match="data format"):
        normalization.bias_add(x, [1, 2, 3], "CHWN")
    assert normalization.bias_add(placeholder("float32", [None, 3, 2]), [1, 2, 3], "NCW").shape == [None, 3, 2]
