"""Random inputs for every operation that has a C kernel or an inner loop, and arrays laid out in unusual ways."""

import numpy as np
from tagloom.base.dtypes import as_dtype
from tagloom.ir.definition import Ufunc, all_definitions, definition_of

from tests.kernels.convolution_cases import drawer

FLOATS = ("float32", "float64")
NUMBERS = (*FLOATS, "int32", "int64")
ALL = ("bool", "int8", "uint8", "int16", "uint16", *NUMBERS, "uint64", "float16", "complex64", "complex128")


class Subclass(np.ndarray):
    """An array that says nothing new."""


def _strided(array):
    wide = np.zeros(tuple(n if n == 1 else 2 * n for n in array.shape), array.dtype)
    view = wide[(..., *(slice(None, None, 1 if n == 1 else 2) for n in array.shape))]
    view[...] = array
    return view


def _backwards(array):
    turn = (..., *(slice(None, None, -1) for _ in array.shape))
    return array[turn].copy()[turn]


def _readonly(array):
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _unaligned(array):
    raw = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    raw[...] = array
    return raw


def _repeated(array):
    if array.ndim == 0 or array.shape[0] == 0:
        return array
    return np.broadcast_to(array[:1], array.shape)


LAYOUTS = {
    "plain": lambda array: array,
    "strided": _strided,
    "backwards": _backwards,
    "transposed": lambda array: array.T.copy().T,
    "repeated": _repeated,
    "readonly": _readonly,
    "unaligned": _unaligned,
    "swapped": lambda array: array.astype(array.dtype.newbyteorder()),
    "subclass": lambda array: array.view(Subclass),
}


def numbers(rng, shape, dtype):
    """Draw elements, with special ones among them."""
    kind = np.dtype(dtype).kind
    if kind in "iu":
        info = np.iinfo(dtype)
        values = rng.integers(max(-5, info.min), 6, shape).astype(dtype)
        special = [info.min, info.max, 0]
    elif kind == "b":
        return np.asarray(rng.integers(0, 2, shape), bool)
    else:
        values = np.asarray(rng.standard_normal(shape) * 3).astype(dtype)
        if kind == "c":
            values = values + np.asarray(rng.standard_normal(shape) * 1j).astype(dtype)
        special = [0, np.nan, np.inf, -np.inf, -0.0]
    values = np.asarray(values)
    if values.size and rng.random() < 0.3:
        flat = values.reshape(-1)
        flat[rng.integers(0, flat.size)] = special[rng.integers(0, len(special))]
    return values


def shape_of(rng, least=0):
    """Draw a shape; now and then an empty one, or one of many dimensions."""
    chance = rng.random()
    if chance < 0.1:
        return (1,) * int(rng.integers(10, 40)) + (2,)
    if chance < 0.15:
        return (1, 2) * int(rng.integers(4, 9))
    sizes = (0, 1, 2, 3, 5, 17) if chance < 0.5 else (1, 2, 3, 7)
    return tuple(int(n) for n in rng.choice(sizes, rng.integers(least, 4)))


def _some(rng, shape):
    """Draw a shape that broadcasts with the given one."""
    cut = int(rng.integers(0, len(shape) + 1)) if rng.random() < 0.4 else 0
    return tuple(1 if rng.random() < 0.2 else n for n in shape[cut:])


def _pick(rng, dtypes):
    return dtypes[rng.integers(0, len(dtypes))]


def _elementwise(count, dtypes, first=None):
    def draw(rng):
        shape, dtype = shape_of(rng), _pick(rng, dtypes)
        arrays = [numbers(rng, shape if k == 0 else _some(rng, shape), dtype) for k in range(count)]
        if first is not None:
            arrays[0] = numbers(rng, shape, first)
        return arrays, {}

    return draw


def _reduction(dtypes):
    def draw(rng):
        shape = shape_of(rng)
        axes = tuple(int(a) for a in rng.permutation(len(shape))[: rng.integers(0, len(shape) + 1)])
        axes = tuple(a - len(shape) if rng.random() < 0.3 else a for a in axes)
        axis = None if rng.random() < 0.2 else axes
        return [numbers(rng, shape, _pick(rng, dtypes))], {"axis": axis, "keepdims": bool(rng.integers(0, 2))}

    return draw


def _unreduce(rng):
    (x,), attrs = _reduction(NUMBERS)(rng)
    y = np.asarray(np.sum(x, attrs["axis"], keepdims=attrs["keepdims"])).astype(x.dtype)
    return [y, np.asarray(x.shape, _pick(rng, ("int32", "int64")))], attrs


def _to_shape(up):
    def draw(rng):
        large = shape_of(rng)
        small = _some(rng, large)
        x = numbers(rng, small if up else large, _pick(rng, NUMBERS))
        return [x, np.asarray(large if up else small, _pick(rng, ("int32", "int64")))], {}

    return draw


def _rows(attrs=lambda rng: {}):
    def draw(rng):
        shape = shape_of(rng, 1)
        axis = {"axis": int(rng.choice((-1, len(shape) - 1, 0)))}
        return [numbers(rng, shape, _pick(rng, FLOATS))], {**axis, **attrs(rng)}

    return draw


def _dense(rng):
    (x,), attrs = _rows()(rng)
    return [numbers(rng, x.shape, x.dtype), x], attrs


def _sparse(rng):
    (x,), _ = _rows()(rng)
    low = -1 if rng.random() < 0.1 else 0
    labels = rng.integers(low, max(1, x.shape[-1]), x.shape[:-1])
    return [np.asarray(labels, _pick(rng, ("int32", "int64"))), x], {}


def _gather(rng):
    shape = shape_of(rng, 1)
    axis = int(rng.integers(-len(shape), len(shape)))
    high = max(1, shape[axis]) + (rng.random() < 0.1)
    indices = rng.integers(0, high, tuple(rng.integers(0, 4, rng.integers(0, 3))))
    return [numbers(rng, shape, _pick(rng, ALL)), np.asarray(indices, _pick(rng, ("int32", "int64")))], {"axis": axis}


def _bound(rng, size):
    return None if rng.random() < 0.3 else int(rng.integers(-size - 2, size + 3))


def _slice(rng):
    shape = shape_of(rng, 1)
    spec = []
    for size in shape[: rng.integers(1, len(shape) + 1)]:
        if rng.random() < 0.4:
            spec.append(int(rng.integers(-size - (rng.random() < 0.05), max(1, size))))
        else:
            spec.append(slice(_bound(rng, size), _bound(rng, size), _pick(rng, (None, 1, 2, -1, -3))))
    for extra in (None, Ellipsis):
        if rng.random() < 0.3:
            spec.insert(int(rng.integers(0, len(spec) + 1)), extra)
    return [numbers(rng, shape, _pick(rng, ALL)), []], {"spec": tuple(spec)}


def _reshape(rng):
    shape = shape_of(rng)
    sizes = list(shape)
    rng.shuffle(sizes)
    if sizes and rng.random() < 0.4:
        sizes[rng.integers(0, len(sizes))] = -1
    if rng.random() < 0.2:
        sizes = [int(np.prod(shape)) + (rng.random() < 0.1)]
    return [numbers(rng, shape, _pick(rng, ALL)), np.asarray(sizes, _pick(rng, ("int32", "int64")))], {}


def _expand(rng):
    shape = shape_of(rng)
    return [numbers(rng, shape, _pick(rng, ALL))], {"axis": int(rng.integers(-len(shape) - 1, len(shape) + 1))}


def _squeeze(rng):
    shape = tuple(1 if rng.random() < 0.5 else n for n in shape_of(rng))
    ones = tuple(i - len(shape) * int(rng.integers(0, 2)) for i, n in enumerate(shape) if n == 1)
    axis = None if rng.random() < 0.4 else ones or (0,) * (rng.random() < 0.1) or None
    return [numbers(rng, shape, _pick(rng, ALL))], {"axis": axis}


def _cumsum(rng):
    shape = shape_of(rng, 1)
    flags = {"exclusive": rng.random() < 0.2, "reverse": rng.random() < 0.2}
    return [numbers(rng, shape, _pick(rng, NUMBERS))], {"axis": int(rng.integers(-len(shape), len(shape))), **flags}


def _any(rng):
    return [numbers(rng, shape_of(rng), _pick(rng, ALL))], {}


def _fill(rng):
    shape = shape_of(rng)
    return [np.asarray(shape, _pick(rng, ("int32", "int64"))), numbers(rng, (), _pick(rng, ALL))], {}


def _matmul(rng):
    rows, inner, columns = (int(n) for n in rng.choice((0, 1, 2, 5, 33), 3))
    dtype, flags = _pick(rng, ("float32", "float64", "int32")), rng.integers(0, 2, 2)
    other = inner + (rng.random() < 0.05)
    a, b = numbers(rng, (rows, inner), dtype), numbers(rng, (other, columns), dtype)
    if dtype != "int32":
        a, b = np.nan_to_num(a, posinf=1, neginf=1), np.nan_to_num(b, posinf=1, neginf=1)
    attrs = {"transpose_a": bool(flags[0]), "transpose_b": bool(flags[1])}
    return [a.T.copy() if flags[0] else a, b.T.copy() if flags[1] else b], attrs


def _matmul_add(rng):
    while True:
        (a, b), attrs = _matmul(rng)
        rows, columns = a.shape[attrs["transpose_a"]], b.shape[not attrs["transpose_b"]]
        if a.dtype.kind == "f":
            return [a, b, np.nan_to_num(numbers(rng, (rows, columns), a.dtype), posinf=1, neginf=1)], attrs


def _concat(rng):
    shape, dtype = list(shape_of(rng, 1)), _pick(rng, ALL)
    axis = int(rng.integers(-len(shape), len(shape)))
    parts = []
    for _ in range(rng.integers(1, 4)):
        shape[axis] = int(rng.integers(0, 4))
        parts.append(numbers(rng, tuple(shape), dtype))
    return [parts], {"axis": axis}


def _split(rng):
    shape, num = list(shape_of(rng, 1)), int(rng.integers(1, 4))
    axis = int(rng.integers(-len(shape), len(shape)))
    shape[axis] = num * int(rng.integers(0, 3)) + (rng.random() < 0.05)
    return [numbers(rng, tuple(shape), _pick(rng, ALL))], {"num": num, "axis": axis}


def _split_sizes(rng):
    shape, sizes = list(shape_of(rng, 1)), rng.integers(0, 4, rng.integers(1, 4))
    axis = int(rng.integers(-len(shape), len(shape)))
    shape[axis] = int(sizes.sum()) + (rng.random() < 0.05)
    if rng.random() < 0.3:
        sizes[rng.integers(0, len(sizes))] = -1
    x = numbers(rng, tuple(shape), _pick(rng, ALL))
    return [x, np.asarray(sizes, _pick(rng, ("int32", "int64")))], {"num": len(sizes), "axis": axis}


def _transpose(rng):
    shape = tuple(int(n) for n in rng.choice((0, 1, 3, 17), 2))
    return [numbers(rng, shape, _pick(rng, ALL))], {"perm": None if rng.random() < 0.5 else (1, 0)}


def _cast(rng):
    source, target = _pick(rng, ALL), _pick(rng, ALL)
    x = numbers(rng, shape_of(rng), source)
    if x.dtype.kind in "fc" and np.dtype(target).kind not in "fcb":
        x = np.asarray(np.abs(np.nan_to_num(x, posinf=1, neginf=1)), source)  # what does not fit is undefined in C
    return [x], {"dtype": as_dtype(target)}


def _add_n(rng):
    shape, dtype = shape_of(rng), _pick(rng, NUMBERS)
    return [[numbers(rng, shape, dtype) for _ in range(rng.integers(1, 5))]], {}


def _fused(rng):
    batch_dims, width = tuple(int(n) for n in rng.integers(1, 5, rng.integers(0, 3))), int(rng.integers(2, 20))
    dtype = _pick(rng, FLOATS)
    arrays = [numbers(rng, s, dtype) for s in ((*batch_dims, width), (*batch_dims, width), (width,), ())]
    steps = [
        ("add", (0, 2), ()),
        ("multiply", (5, 1), ()),
        ("sigmoid", (6,), ()),
        ("maximum", (7, 3), ()),
        ("multiply", (8, 4), ()),
        ("slice", (9,), (1, width)),
        ("concat", (9, 10), ()),
    ]
    results, last_dims = [7, 11], [width, 2 * width - 1]
    if rng.random() < 0.7:
        steps += [
            (str(rng.choice(("sum", "mean", "max", "min"))), (5,), ()),
            ("subtract", (5, 12), ()),
            ("greater", (13, 4), ()),
            ("where", (14, 13, 3), ()),
            ("broadcast", (12,), (0, 3)),
        ]
        results, last_dims = [*results, 12, 15, 16], [*last_dims, 1, width, 3]
    unknown = batch_dims and rng.random() < 0.5
    return [arrays], {
        "num": len(results),
        "constants": (np.asarray(0.5, dtype),),
        "results": tuple(results),
        "steps": tuple(steps),
        "has_rows": (True, True, False, False),
        "batch_dims": (None, *batch_dims[1:]) if unknown else batch_dims,
        "last_dims": tuple(last_dims),
    }


def _windows(rng):
    """Draw images of one or two spatial dimensions, and windows over them."""
    rank, batch = 1 if rng.random() < 0.1 else 2, int(rng.integers(0, 3))
    shape = (batch, *(int(n) for n in rng.integers(5, 9, rank)), int(rng.integers(3, 20)))
    window = tuple(int(n) for n in rng.integers(1, 4, rank))
    attrs = {
        "window": window,
        "strides": tuple(int(n) for n in rng.integers(1, 4, rank)),
        "rates": (1,) * rank if rng.random() < 0.9 else (2,) * rank,
        "padding": _pick(rng, ("SAME", "VALID", ((1, 0),) * rank if 1 not in window else "SAME")),
    }
    if attrs["rates"] == (1,) * rank and rng.random() < 0.1:
        attrs["channels_first"] = True
    return numbers(rng, shape, _pick(rng, FLOATS)), attrs


def _pool(rng):
    x, attrs = _windows(rng)
    return [x], attrs


def _pool_gradient(rng):
    x, attrs = _windows(rng)
    g = definition_of("AvgPool").kernel(np, x, **{**definition_of("AvgPool").attrs, **attrs})
    return [numbers(rng, g.shape, g.dtype), np.asarray(x.shape, _pick(rng, ("int32", "int64")))], attrs


def _max_pool_gradient(rng):
    (g, shape), attrs = _pool_gradient(rng)
    return [g, rng.integers(-1, 10, g.shape).astype(np.int32), shape], attrs


def _ufunc(definition):
    count = getattr(np, definition.kernel.name).nin
    (variable,) = set(definition.signature.where) or {None}
    allowed = [d.name for d in definition.signature.where.get(variable, ())] or ["bool"]
    return _elementwise(count, [name for name in ALL if name in allowed])


def _index_vectors(rng, sizes):
    """Return index vectors into leading dimensions, rarely one of them out of range, and their number by dimension."""
    depth, outer = int(rng.integers(0, len(sizes) + 1)), shape_of(rng)[:2]
    indices = np.zeros((*outer, depth), _pick(rng, ("int32", "int64")))
    for d in range(depth):
        indices[..., d] = rng.integers(-int(rng.random() < 0.05), sizes[d] + int(rng.random() < 0.05), outer)
    return indices, outer


def _gather_nd(rng):
    sizes = _few(rng)
    return [numbers(rng, sizes, _pick(rng, ALL)), _index_vectors(rng, sizes)[0]], {}


def _few(rng):
    return tuple(int(n) for n in rng.choice((1, 2, 3, 5), rng.integers(1, 4)))


def _rows_at(rng, dtypes):
    """Draw a shape, index vectors, and rows that fit or, rarely, do not."""
    sizes = _few(rng)
    indices, outer = _index_vectors(rng, sizes)
    more = (2,) if rng.random() < 0.05 else ()
    return sizes, indices, numbers(rng, (*outer, *sizes[indices.shape[-1] :], *more), _pick(rng, dtypes))


def _scatter_nd(rng):
    sizes, indices, rows = _rows_at(rng, NUMBERS)
    return [indices, rows, np.asarray(sizes, _pick(rng, ("int32", "int64")))], {}


def _add_to_rows(rng):
    (indices, rows, shape), attrs = _scatter_nd(rng)
    return [numbers(rng, tuple(shape), rows.dtype), indices, rows, shape], attrs


def _tensor_scatter(rng):
    sizes, indices, rows = _rows_at(rng, ALL)
    return [numbers(rng, sizes, rows.dtype), indices, rows], {}


def _slice_gradient(rng):
    """Draw the gradient of a slice, rarely of another shape."""
    (x, bounds), attrs = _slice(rng)
    x = np.zeros(x.shape, _pick(rng, NUMBERS))
    try:
        shape = x[(*attrs["spec"], *[...] * (Ellipsis not in attrs["spec"]))].shape
    except IndexError:
        shape = (1,)
    dy = numbers(rng, (*shape, 2) if rng.random() < 0.05 else shape, x.dtype)
    return [np.asarray(x.shape, _pick(rng, ("int32", "int64"))), dy, bounds], attrs


def _add_to_slice(rng):
    (shape, dy, bounds), attrs = _slice_gradient(rng)
    return [numbers(rng, tuple(shape), dy.dtype), shape, dy, bounds], attrs


def _search_sorted(rng):
    """Draw rows, sorted, and values that often are among their elements."""
    shape, dtype = shape_of(rng, 1)[-3:], _pick(rng, NUMBERS)
    rows = np.sort(numbers(rng, shape, dtype), axis=-1)
    values = numbers(rng, (*shape[:-1], int(rng.integers(0, 6))), dtype)
    if rows.size and values.size:
        values.reshape(-1)[0] = rows.reshape(-1)[rng.integers(0, rows.size)]
    return [rows, values], {"side": _pick(rng, ("left", "right")), "out_type": as_dtype(_pick(rng, ("int32", "int64")))}


CASES = {
    "AvgPool": _pool,
    "AvgPoolGrad": _pool_gradient,
    "MaxPool": _pool,
    "MaxPoolGrad": _max_pool_gradient,
    "MaxPoolPlace": _pool,
    "AddN": _add_n,
    "All": _reduction(("bool",)),
    "Any": _reduction(("bool",)),
    "BroadcastTo": _to_shape(True),
    "ArgMax": _rows(lambda rng: {"output_type": as_dtype(_pick(rng, ("int32", "int64")))}),
    "ArgMin": _rows(lambda rng: {"output_type": as_dtype(_pick(rng, ("int32", "int64")))}),
    "Cast": _cast,
    "Concat": _concat,
    "Conv": drawer("Conv"),
    "ConvBias": drawer("ConvBias"),
    "ConvFilterBiasGrad": drawer("ConvFilterBiasGrad"),
    "ConvFilterGrad": drawer("ConvFilterGrad"),
    "ConvInputGrad": drawer("ConvInputGrad"),
    "ConvInputGradMasked": drawer("ConvInputGradMasked"),
    "Cumsum": _cumsum,
    "DivOrZero": _elementwise(2, FLOATS),
    "ExpandDims": _expand,
    "Fill": _fill,
    "FloorDiv": _elementwise(2, NUMBERS),
    "FloorMod": _elementwise(2, NUMBERS),
    "Fused": _fused,
    "AddToRows": _add_to_rows,
    "AddToSlice": _add_to_slice,
    "Gather": _gather,
    "GatherNd": _gather_nd,
    "ScatterNd": _scatter_nd,
    "SearchSorted": _search_sorted,
    "StridedSliceGrad": _slice_gradient,
    "TensorScatterUpdate": _tensor_scatter,
    "LogSoftmax": _rows(),
    "MatMul": _matmul,
    "MatMulAdd": _matmul_add,
    "Max": _reduction(NUMBERS),
    "Mean": _reduction(FLOATS),
    "MulNoNan": _elementwise(2, FLOATS),
    "Min": _reduction(NUMBERS),
    "Rank": _any,
    "RealDiv": _elementwise(2, (*FLOATS, "float16", "complex64")),
    "Relu": _elementwise(1, NUMBERS),
    "Reshape": _reshape,
    "Shape": _any,
    "Sigmoid": _elementwise(1, FLOATS),
    "Size": _any,
    "Softmax": _rows(),
    "SoftmaxCrossEntropyWithLogits": _dense,
    "SparseSoftmaxCrossEntropyWithLogits": _sparse,
    "Softplus": _elementwise(1, FLOATS),
    "Split": _split,
    "SplitV": _split_sizes,
    "SquaredDifference": _elementwise(2, NUMBERS),
    "Squeeze": _squeeze,
    "StridedSlice": _slice,
    "Prod": _reduction(NUMBERS),
    "Sum": _reduction(NUMBERS),
    "SumTo": _to_shape(False),
    "Transpose": _transpose,
    "Unreduce": _unreduce,
    "Where": _elementwise(3, ALL, "bool"),
}
CASES = {d.type: _ufunc(d) for d in all_definitions() if isinstance(d.kernel, Ufunc)} | CASES
