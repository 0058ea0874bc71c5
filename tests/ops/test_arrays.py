"""Array operations: static shapes from partial knowledge, contradictions, and what kernels refuse."""

import numpy as np
import pytest
from tagloom.base import nest
from tagloom.base.errors import DtypeError, GraphError, ShapeError
from tagloom.base.shapes import Shape
from tagloom.ir.apply import constant
from tagloom.ops.array import broadcasting, index_vectors, layout, padding, shapes, slicing, strided
from tagloom.ops.array import concat as joining
from tagloom.ops.array import creation as filling
from tagloom.ops.array import gather as gathering
from tagloom.ops.array import one_hot as hot
from tagloom.ops.array import where as selecting
from tagloom.ops.control import identity as passing
from tagloom.ops.control.placeholders import placeholder
from tagloom.ops.math import casting
from tagloom.ops.support.indexed_slices import IndexedSlices

from tests.ops.evaluation import declare_all, evaluate, pull_back

pytestmark = pytest.mark.usefixtures("graph")

declare_all()


def floats(*dims):
    return placeholder("float32", dims)


def anything():
    return placeholder("float32")


def number():
    return placeholder("int32", [])


def value(tensor, feeds=()):
    return evaluate([tensor], dict(feeds))[0]


STATIC_SHAPES = {
    "shape": (lambda: shapes.shape(floats(None, 3)), [2]),
    "shape of anything": (lambda: shapes.shape(anything()), [None]),
    "reshape -1": (lambda: shapes.reshape(floats(4, 6), [-1, 8]), [3, 8]),
    "reshape of unknown": (lambda: shapes.reshape(anything(), [-1, 8]), [None, 8]),
    "reshape to unknown": (lambda: shapes.reshape(floats(2), placeholder("int32", [None])), None),
    "reshape to vector of two": (lambda: shapes.reshape(floats(None), placeholder("int64", [2])), [None, None]),
    "reshape one computed size": (lambda: shapes.reshape(floats(4, 6), [number(), 8]), [3, 8]),
    "reshape by a shape": (lambda: shapes.reshape(floats(None), shapes.shape(floats(None, 5))), [None, 5]),
    "reshape by a part of a shape": (lambda: shapes.reshape(floats(None), shapes.shape(floats(None, 5))[1:]), [5]),
    "reshape scalar": (lambda: shapes.reshape(floats(1, 1), []), []),
    "expand_dims": (lambda: shapes.expand_dims(floats(None, 3), -1), [None, 3, 1]),
    "expand_dims of anything": (lambda: shapes.expand_dims(anything(), 0), None),
    "squeeze all": (lambda: shapes.squeeze(floats(1, 3, 1)), [3]),
    "squeeze all of unknown": (lambda: shapes.squeeze(floats(None, 3)), None),
    "squeeze one": (lambda: shapes.squeeze(floats(None, 3, None), -1), [None, 3]),
    "broadcast_to": (lambda: broadcasting.broadcast_to(floats(3, 1), [2, 3, 4]), [2, 3, 4]),
    "broadcast_to learns": (lambda: broadcasting.broadcast_to(floats(3), [number(), number()]), [None, 3]),
    "concat": (lambda: joining.concat([floats(2, None), floats(3, 4)], 0), [5, 4]),
    "concat unknown size": (lambda: joining.concat([floats(2, 3), floats(2, None)], -1), [2, None]),
    "concat one unknown rank": (lambda: joining.concat([floats(2, 3), anything()], 1), [2, None]),
    "stack": (lambda: joining.stack([floats(None, 3), floats(2, None)], axis=-1), [2, 3, 2]),
    "unstack": (lambda: joining.unstack(floats(2, None), axis=0)[1], [None]),
    "split": (lambda: joining.split(floats(6, None), 3)[2], [2, None]),
    "split of unknown": (lambda: joining.split(floats(None, 2), 3)[0], [None, 2]),
    "split by sizes": (lambda: joining.split(floats(6), [1, -1, 2])[1], [3]),
    "split by a tensor": (lambda: joining.split(floats(6), placeholder("int32", [2]))[1], [None]),
    "getitem": (lambda: floats(5, 6, None)[1:4, ::-2, None, -1], [3, 3, 1]),
    "getitem ellipsis": (lambda: floats(5, None, 7)[..., 2:], [5, None, 5]),
    "getitem computed": (lambda: floats(5, 6)[number() :, number()], [None]),
    "getitem constant": (lambda: floats(5, 6)[: constant(2)], [2, 6]),
    "getitem of anything": (lambda: anything()[0], None),
    "getitem mask": (lambda: floats(2, 3, 4)[placeholder("bool", [2, 3])], [None, 4]),
    "slice": (lambda: slicing.slice(floats(5, 6), [1, 2], [2, -1]), [2, 4]),
    "slice of anything": (lambda: slicing.slice(anything(), placeholder("int32", [2]), [2, 3]), [2, 3]),
    "slice computed": (lambda: slicing.slice(floats(5, 6), [number(), 0], [number(), 3]), [None, 3]),
    "boolean_mask": (lambda: slicing.boolean_mask(floats(2, 3, 4), placeholder("bool", [3]), axis=1), [2, None, 4]),
    "gather": (lambda: gathering.gather(floats(5, 6, 7), placeholder("int32", [None, 2]), axis=1), [5, None, 2, 7]),
    "gather batch": (
        lambda: gathering.gather(floats(None, 6, 7), placeholder("int32", [3, 2]), batch_dims=1),
        [3, 2, 7],
    ),
    "gather_nd": (lambda: index_vectors.gather_nd(floats(5, 6, 7), placeholder("int32", [None, 2])), [None, 7]),
    "scatter_nd": (lambda: index_vectors.scatter_nd(placeholder("int32", [4, 1]), floats(4, 3), [8, 3]), [8, 3]),
    "unsorted_segment_sum": (lambda: gathering.unsorted_segment_sum(floats(4, 3), [0, 1, 0, 1], 2), [2, 3]),
    "fill": (lambda: filling.fill([2, number()], 1.0), [2, None]),
    "range": (lambda: filling.range(2, 11, 3), [3]),
    "range computed": (lambda: filling.range(number()), [None]),
    "linspace": (lambda: filling.linspace(0.0, 1.0, 5), [5]),
    "zeros_like": (lambda: filling.zeros_like(floats(None, 3)), [None, 3]),
    "one_hot": (lambda: hot.one_hot(placeholder("int32", [None]), 5), [None, 5]),
    "one_hot axis": (lambda: hot.one_hot(placeholder("int32", [7]), 5, axis=0), [5, 7]),
    "eye": (lambda: hot.eye(3, batch_shape=[2]), [2, 3, 3]),
    "transpose": (lambda: layout.transpose(floats(None, 3, 4), [2, 0, -2]), [4, None, 3]),
    "transpose of anything": (lambda: layout.transpose(anything(), [1, 0]), [None, None]),
    "tile": (lambda: layout.tile(floats(2, None), [3, 1]), [6, None]),
    "tile of anything": (lambda: layout.tile(anything(), [3, 1]), [None, None]),
    "reverse": (lambda: layout.reverse(floats(2, None), [-1]), [2, None]),
    "pad": (lambda: padding.pad(floats(2, None), [[1, 2], [0, 3]]), [5, None]),
    "pad of anything": (lambda: padding.pad(anything(), [[1, 2], [0, 3]]), [None, None]),
    "pad reflect": (lambda: padding.pad(floats(4), [[1, 2]], "REFLECT"), [7]),
    "where": (lambda: selecting.where(placeholder("bool", [2, 1]), floats(3), floats(None, 1)), [2, 3]),
    "where alone": (lambda: selecting.where(placeholder("bool", [2, None])), [None, 2]),
    "cast": (lambda: casting.cast(floats(None, 3), "int64"), [None, 3]),
    "identity_n": (lambda: passing.identity_n([floats(2), anything()])[0], [2]),
}


@pytest.mark.parametrize("case", STATIC_SHAPES)
def test_static_shape(case):
    make, wanted = STATIC_SHAPES[case]
    assert make().shape == Shape(wanted)


CONTRADICTIONS = {
    "reshape": lambda: shapes.reshape(floats(2, 3), [4]),
    "reshape not divisible": lambda: shapes.reshape(floats(2, 3), [4, -1]),
    "reshape twice -1": lambda: shapes.reshape(anything(), [-1, -1]),
    "reshape negative": lambda: shapes.reshape(anything(), [-2]),
    "expand_dims": lambda: shapes.expand_dims(floats(2), 3),
    "squeeze": lambda: shapes.squeeze(floats(2, 3), 0),
    "squeeze axis": lambda: shapes.squeeze(floats(1), 1),
    "broadcast_to": lambda: broadcasting.broadcast_to(floats(2), [3]),
    "broadcast_to smaller": lambda: broadcasting.broadcast_to(floats(2, 3), [3]),
    "broadcast_to one": lambda: broadcasting.broadcast_to(floats(3), [1]),
    "concat": lambda: joining.concat([floats(2, 3), floats(2, 4)], 0),
    "concat ranks": lambda: joining.concat([floats(2), floats(2, 4)], 0),
    "concat scalars": lambda: joining.concat([floats(), floats()], 0),
    "stack": lambda: joining.stack([floats(2), floats(3)]),
    "unstack": lambda: joining.unstack(floats(3), num=2),
    "unstack unknown": lambda: joining.unstack(floats(None)),
    "split": lambda: joining.split(floats(5), 2),
    "split sizes": lambda: joining.split(floats(5), [2, 2]),
    "split twice -1": lambda: joining.split(floats(4), [-1, -1, 4]),
    "split twice -1 of unknown": lambda: joining.split(anything(), [-1, -1]),
    "split negative": lambda: joining.split(floats(5), [3, -2]),
    "split too large": lambda: joining.split(floats(5), [6, -1]),
    "getitem": lambda: floats(3)[3],
    "getitem too many": lambda: floats(3)[0, 0],
    "getitem two ellipses": lambda: floats(3, 4)[..., ...],
    "getitem step": lambda: floats(3)[::0],
    "getitem mask": lambda: floats(3, 4)[placeholder("bool", [4])],
    "getitem scalar mask": lambda: floats(3)[placeholder("bool", [])],
    "slice": lambda: slicing.slice(floats(5), [3], [3]),
    "slice rank": lambda: slicing.slice(floats(5), [0, 0], [1, 1]),
    "gather axis": lambda: gathering.gather(floats(5), [0], axis=1),
    "gather batch": lambda: gathering.gather(floats(5, 6), placeholder("int32", [4, 2]), batch_dims=1),
    "gather_nd": lambda: index_vectors.gather_nd(floats(5), placeholder("int32", [3, 2])),
    "scatter_nd": lambda: index_vectors.scatter_nd([[0]], floats(2), [4]),
    "segments": lambda: gathering.unsorted_segment_sum(floats(3), [0, 1], 2),
    "range": lambda: filling.range(0, 4, 0),
    "linspace": lambda: filling.linspace(0.0, 1.0, 0),
    "fill": lambda: filling.fill([2], floats(2)),
    "one_hot": lambda: hot.one_hot([0], 2, axis=2),
    "transpose": lambda: layout.transpose(floats(2, 3), [0, 0]),
    "transpose short": lambda: layout.transpose(floats(2, 3), [0]),
    "tile": lambda: layout.tile(floats(2, 3), [2]),
    "reverse": lambda: layout.reverse(floats(2), [0, -1]),
    "pad": lambda: padding.pad(floats(2), [[1, 1], [1, 1]]),
    "pad negative": lambda: padding.pad(floats(2), [[-1, 1]]),
    "pad reflect": lambda: padding.pad(floats(2), [[2, 0]], "reflect"),
    "where": lambda: selecting.where(placeholder("bool", [2]), floats(3), floats(3)),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_contradiction_is_refused_while_building(case, graph):
    with pytest.raises(ShapeError) as caught:
        CONTRADICTIONS[case]()
    assert caught.value.source.file == __file__
    assert "got" in str(caught.value)
    assert all(op.type in ("Placeholder", "Const", "Transpose") for op in graph.get_operations())


REFUSED = {
    "no tensors": lambda: joining.concat([], 0),
    "pad mode": lambda: padding.pad(floats(2), [[1, 1]], "wrap"),
    "half a where": lambda: selecting.where(placeholder("bool", [2]), floats(2)),
    "lengths": lambda: strided.strided_slice(floats(2, 3), [0], [1, 2]),
    "unknown length": lambda: strided.strided_slice(floats(2), placeholder("int32", [None]), [1]),
    "float index": lambda: floats(2)[0.5],
    "None in a shape": lambda: filling.zeros([None, 2]),
    "float sizes": lambda: shapes.reshape(floats(2), [2.0]),
    "cast to string": lambda: casting.cast(floats(2), "string"),
    "ones of string": lambda: filling.ones([2], "string"),
    "mixed dtypes": lambda: joining.stack([floats(2), placeholder("float64", [2])]),
    "mask dtype": lambda: slicing.boolean_mask(floats(2), placeholder("int32", [2])),
    "index dtype": lambda: gathering.gather(floats(2), placeholder("float32", [1])),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_arguments_are_refused(case):
    with pytest.raises(GraphError):
        REFUSED[case]()


def test_cast_to_string_names_the_dtype():
    with pytest.raises(DtypeError, match="string"):
        casting.cast(floats(2), "string")


RUN_TIME = {
    "reshape": (ValueError, lambda x, i: shapes.reshape(x, [7, -1])),
    "gather above": (IndexError, lambda x, i: gathering.gather(x, i + 3)),
    "gather below": (IndexError, lambda x, i: gathering.gather(x, i - 1)),
    "gather_nd": (IndexError, lambda x, i: index_vectors.gather_nd(x, [[9]])),
    "scatter_nd": (IndexError, lambda x, i: index_vectors.scatter_nd([[0], [1], [4]], x, [4])),
    "scatter_nd updates": (ValueError, lambda x, i: index_vectors.scatter_nd([[0], [1]], x, [4])),
    "segments": (IndexError, lambda x, i: gathering.unsorted_segment_sum(x, [0, 1, 2], 2)),
    "slice": (ValueError, lambda x, i: slicing.slice(x, [2], [2])),
    "index": (IndexError, lambda x, i: x[i + 3]),
    "mask": (ValueError, lambda x, i: x[constant([True, False])]),
    "split": (ValueError, lambda x, i: joining.split(x, [1, 1])[0]),
    "split twice -1": (ValueError, lambda x, i: joining.split(x, [i - 1, i - 1, i + 3])[2]),
    "split negative": (ValueError, lambda x, i: joining.split(x, [i + 1, i - 2])[1]),
    "unstack": (ValueError, lambda x, i: joining.unstack(x, num=2)[0]),
    "tile": (ValueError, lambda x, i: layout.tile(x, [i - 1])),
    "pad": (ValueError, lambda x, i: padding.pad(x, [[i + 3, 0]], "reflect")),
    "range": (ValueError, lambda x, i: filling.range(0, 3, i)),
    "linspace": (ValueError, lambda x, i: filling.linspace(0.0, 1.0, i)),
}


@pytest.mark.parametrize("case", RUN_TIME)
def test_kernel_refuses(case):
    error, make = RUN_TIME[case]
    x, i = placeholder("float32", [None]), number()
    with pytest.raises(error):
        value(make(x, i), {x: np.float32([1, 2, 3]), i: np.asarray(np.int32(0))})


DATA = np.arange(24).reshape(2, 3, 4)
INDEXING = [
    (0, slice(1, 3)),
    (..., -1),
    (None, slice(None), 1, None),
    (slice(None, None, -1), slice(2, 0, -1)),
    (-1, -2, -3),
    (slice(-5, 9), ..., slice(0, 0)),
]


@pytest.mark.parametrize("key", INDEXING, ids=str)
def test_indexing_is_numpys(key):
    tensor = constant(DATA)[key]
    assert tensor.shape == DATA[key].shape
    np.testing.assert_array_equal(value(tensor), DATA[key])


def test_indexing_with_tensors():
    i = number()
    tensor = constant(DATA)[i, i - 2 :: i + 1, i:]
    np.testing.assert_array_equal(value(tensor, {i: np.asarray(np.int32(1))}), DATA[1, -1::2, 1:])


def test_strided_slice_masks():
    x = constant(DATA)
    cases = [
        (strided.strided_slice(x, [0, 1, 1], [1, 3, 4], [1, 1, 2]), DATA[0:1, 1:3, 1:4:2]),
        (strided.strided_slice(x, [1, 2], [2, 3], begin_mask=1, end_mask=2), DATA[:2, 2:]),
        (strided.strided_slice(x, [0, 1], [0, 3], ellipsis_mask=1), DATA[..., 1:3]),
        (strided.strided_slice(x, [0, 1], [0, 2], new_axis_mask=1), DATA[None, 1:2]),
        (strided.strided_slice(x, [1, 2], [2, 3], shrink_axis_mask=3), DATA[1, 2]),
        (strided.strided_slice(x, constant([1]), shapes.shape(x)[:1]), DATA[1:2]),
    ]
    for tensor, wanted in cases:
        assert tensor.shape == wanted.shape
        np.testing.assert_array_equal(value(tensor), wanted)


def test_boolean_mask_on_inner_axes():
    mask = np.bool_([[True, False, False, True], [False] * 4, [True] * 4])
    tensor = slicing.boolean_mask(DATA, mask, axis=1)
    np.testing.assert_array_equal(value(tensor), DATA[:, mask])


@pytest.mark.parametrize("dtype", ["string", "bfloat16", "bool", "float16", "complex64", "uint8"])
def test_moving_operations_take_every_dtype(dtype):
    text = np.array([["a", "b", "c"], ["", "e", "f"]]).astype(np.dtypes.StringDType())
    data = text if dtype == "string" else casting.cast(DATA[0, :2, :3], dtype).op
    x = constant(text) if dtype == "string" else data.outputs[0]
    array = value(x)
    blank = np.zeros((), array.dtype)[()]
    cases = [
        (shapes.reshape(x, [-1]), array.reshape(-1)),
        (layout.transpose(x), array.T),
        (layout.reverse(x, 0), array[::-1]),
        (layout.tile(x, [1, 2]), np.concatenate([array, array], 1)),
        (joining.concat([x, x], 0), np.concatenate([array, array])),
        (joining.stack([x, x]), np.stack([array, array])),
        (joining.split(x, [1, 2], axis=1)[1], array[:, 1:]),
        (joining.unstack(x)[1], array[1]),
        (x[1, 1:], array[1, 1:]),
        (gathering.gather(x, 1), array[1]),
        (index_vectors.gather_nd(x, [1, 2]), array[1, 2]),
        (slicing.slice(x, [0, 1], [2, 1]), array[:, 1:2]),
        (slicing.boolean_mask(x, [False, True]), array[1:]),
        (selecting.where([[True], [False]], x, x[::-1]), np.stack([array[0], array[0]])),
        (broadcasting.broadcast_to(x[0], [2, 3]), np.stack([array[0], array[0]])),
        (filling.fill([2], x[0, 0]), np.array([array[0, 0]] * 2, array.dtype)),
        (filling.zeros_like(x), np.full(array.shape, blank, array.dtype)),
        (padding.pad(x, [[0, 1], [0, 0]]), np.concatenate([array, np.full((1, 3), blank, array.dtype)])),
    ]
    for tensor, wanted in cases:
        result = value(tensor)
        assert result.dtype == tensor.dtype.numpy
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int32", "uint8", "complex64"])
def test_summing_operations_keep_the_dtype(dtype):
    x = casting.cast(np.float32([[1, 2], [3, 4], [5, 6]]), dtype)
    cases = [
        (broadcasting.sum_to_shape(x, [2]), [9, 12]),
        (index_vectors.scatter_nd([[1], [0], [1]], x, [2, 2]), [[3, 4], [6, 8]]),
        (gathering.unsorted_segment_sum(x, [0, 0, -1], 1), [[4, 6]]),
    ]
    for tensor, wanted in cases:
        result = value(tensor)
        assert result.dtype == x.dtype.numpy
        np.testing.assert_array_equal(result.astype(np.complex64), np.complex64(wanted))


def test_gradient_of_gather_is_indexed_slices():
    params, indices = floats(4, 2), placeholder("int32", [2, None])
    rows = gathering.gather(params, indices)
    slices, none = rows.op.definition.gradient(rows.op, rows)
    assert none is None
    assert isinstance(slices, IndexedSlices)
    assert slices.values.shape == [None, 2]
    assert slices.shape == [4, 2]
    assert nest.flatten(slices) == [slices.values, slices.indices, slices.dense_shape]
    assert isinstance(nest.map_structure(lambda t: t, slices), IndexedSlices)
    assert shapes.reshape(slices, [-1]).shape == [8]


def test_indexed_slices_add_up_when_made_dense():
    slices = IndexedSlices(constant([[1.0], [2.0], [4.0]]), constant([2, 0, 2]), constant([3, 1]))
    np.testing.assert_array_equal(value(layout.transpose(slices)), [[2, 0, 5]])


@pytest.mark.rule(95)
def test_integers_have_no_gradient():
    x = floats(3)
    through = casting.cast(casting.cast(x, "int32"), "float32")
    kept = casting.cast(casting.cast(x, "float64"), "float32")
    assert pull_back([through], [constant(np.ones(3, np.float32))], [x]) == [None]
    assert pull_back([kept], [constant(np.ones(3, np.float32))], [x])[0].shape == [3]


def test_unused_parts_have_zero_cotangents():
    x = floats(None)
    first, *_ = joining.split(x, 3)
    (g,) = pull_back([first], [filling.ones_like(first)], [x])
    feeds = {x: np.float32([1, 2, 3, 4, 5, 6])}
    np.testing.assert_array_equal(value(g, feeds), [1, 1, 0, 0, 0, 0])


def test_where_cuts_infinite_cotangents():
    x, y = floats(2), floats(2)
    chosen = selecting.where([False, True], x, y)
    gx, gy = pull_back([chosen], [constant(np.float32([np.inf, np.inf]))], [x, y])
    np.testing.assert_array_equal(value(gx), [0, np.inf])
    np.testing.assert_array_equal(value(gy), [np.inf, 0])


def test_literals_take_shape_from_python():
    np.testing.assert_array_equal(value(filling.zeros([])), 0)
    np.testing.assert_array_equal(value(filling.ones(2, "int8")), np.int8([1, 1]))
    np.testing.assert_array_equal(value(filling.range(0, 1, 0.25)), np.float32([0, 0.25, 0.5, 0.75]))
    np.testing.assert_array_equal(value(hot.eye(2, 3, dtype="bool")), np.eye(2, 3, dtype=bool))
    np.testing.assert_array_equal(value(hot.one_hot([1, 0], 2, on_value=5, off_value=-5)), [[-5, 5], [5, -5]])


def test_known_shapes_are_constants():
    assert shapes.shape(floats(2, 3)).op.type == "Const"
    assert shapes.rank(floats(None)).op.type == "Const"
    assert shapes.size(floats(None)).op.type == "Size"
    assert shapes.shape(floats(2, 3), out_type="int64").dtype == "int64"
