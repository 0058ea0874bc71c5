"""Blocks, sequences, grids, bits and running sums: sizes that are not known, other layouts, what is refused."""

import itertools

import numpy as np
import pytest
import tagloom as tg

from tests.ops.layouts import differences, second_order
from tests.support.cases import each


@pytest.fixture(params=["machine", "reference"])
def run(request, graph):
    """Return ``run(fetches, feeds=None)`` of a session; the test runs once on each executor."""
    with tg.SyncSession(graph, executor=request.param, timeout=30.0) as session:
        yield session.run


def pixels(batch, height, width, channels):
    return np.arange(batch * height * width * channels, dtype=np.float64).reshape(batch, height, width, channels)


def deep(x, block):
    """Move blocks into channels, one output pixel at a time."""
    n, height, width, channels = x.shape
    y = np.zeros((n, height // block, width // block, channels * block**2))
    for i, j in np.ndindex(y.shape[1:3]):
        y[:, i, j] = x[:, i * block : (i + 1) * block, j * block : (j + 1) * block].reshape(n, -1)
    return y


@pytest.mark.parametrize("known", [[2, 4, 6, 3], [None, 4, None, 3], [None] * 4, None])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_blocks_of_pixels_go_into_channels_and_back(run, known, data_format):
    order = [0, 3, 1, 2] if data_format == "NCHW" else [0, 1, 2, 3]
    images = pixels(2, 4, 6, 3)
    shape = known and [known[i] for i in order]
    x = tg.placeholder("float64", shape)
    y = tg.space_to_depth(x, 2, data_format=data_format)
    z = tg.depth_to_space(y, 2, data_format=data_format)
    if known == [2, 4, 6, 3]:
        assert y.shape == [[2, 2, 3, 12][i] for i in order]
    assert z.shape.is_compatible_with(tg.Shape(shape))
    found, back = run([y, z], {x: images.transpose(order)})
    np.testing.assert_array_equal(found, deep(images, 2).transpose(order))
    np.testing.assert_array_equal(back, images.transpose(order))


def dealt(x, blocks, paddings):
    """Deal elements out to tensors of the batch, one tensor at a time."""
    rest = [(0, 0)] * (x.ndim - 1 - len(blocks))
    x = np.pad(x, [(0, 0), *paddings, *rest])
    return np.concatenate(
        [x[:, *(slice(i, None, b) for i, b in zip(at, blocks, strict=True))] for at in np.ndindex(*blocks)]
    )


@pytest.mark.parametrize("known", ["values", "ranks", "nothing"])
@pytest.mark.parametrize(
    ("shape", "blocks", "paddings"),
    [
        ((2, 4, 3), [2], [[0, 0]]),
        ((1, 3, 4, 2), [2, 3], [[1, 0], [0, 2]]),
        ((2, 5, 2, 2, 1), [3, 1, 2], [[0, 1], [2, 0], [0, 0]]),
        ((3, 4), [4], [[4, 4]]),
        ((2, 3), [], np.zeros((0, 2), np.int32)),
        ((0, 4, 2), [2], [[0, 0]]),
    ],
)
def test_blocks_go_into_the_batch_and_back(run, shape, blocks, paddings, known):
    data = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    edges = np.asarray(paddings, np.int32)
    if known == "values":
        x, around, feeds = tg.constant(data), edges, {}
    else:
        x = tg.placeholder("float64", [None] * len(shape) if known == "ranks" else None)
        around = tg.placeholder("int32", [len(blocks), 2])
        feeds = {x: data, around: edges}
    y = tg.space_to_batch_nd(x, blocks, around)
    z = tg.batch_to_space_nd(y, blocks, around)
    wanted = dealt(data, blocks, edges.tolist())
    if known == "values":
        assert (y.shape, z.shape) == (list(wanted.shape), list(shape))
    found, back = run([y, z], feeds)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(back, data)


@pytest.mark.parametrize("crops", [[[1, 2]], [[0, 3]], [[3, 0]], [[0, 4]]])
def test_more_is_cut_off_than_there_is(run, crops):
    given = tg.placeholder("int32", [1, 2])
    y = tg.batch_to_space_nd(tg.placeholder_with_default([[0], [1], [2], [3]], [None, None]), [2], given)
    assert run(y, {given: [[0, 2]]}).shape == (2, 0)
    with pytest.raises(tg.OpError, match="Slice"):
        run(y, {given: crops})


def test_blocks_are_differentiated():
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    second_order(lambda t: tg.space_to_batch_nd(t, [2], [[1, 0]]) ** 3, x)
    differences(lambda t: tg.batch_to_space_nd(t, [2], [[1, 2]]) ** 2, x)


@pytest.mark.parametrize("fed", [True, False])
def test_paddings_that_blocks_need(run, fed):
    sizes, blocks = np.int32([5, 6, 7]), np.int32([2, 3, 4])
    base = np.int64([[0, 1], [1, 1], [0, 0]])
    given = [tg.placeholder(a.dtype, a.shape) for a in (sizes, blocks, base)] if fed else [sizes, blocks, base]
    feeds = dict(zip(given, (sizes, blocks, base), strict=True)) if fed else None
    paddings, crops = run(tg.required_space_to_batch_paddings(*given), feeds)
    assert (paddings.tolist(), crops.tolist()) == ([[0, 1], [1, 2], [0, 1]], [[0, 0], [0, 1], [0, 1]])
    paddings, crops = run(tg.required_space_to_batch_paddings(*given[:2]), feeds)
    assert paddings.tolist() == crops.tolist() == [[0, 1], [0, 0], [0, 1]]


def test_paddings_that_are_known_are_constants(graph):
    paddings, crops = tg.required_space_to_batch_paddings([5], [2])
    x = tg.space_to_batch_nd(tg.zeros([1, 5]), [2], paddings)
    assert (x.shape, tg.batch_to_space_nd(x, [2], crops).shape) == ([2, 3], [1, 5])


@pytest.mark.parametrize("known", [[2, 3, 4], [None, None, 4], None])
def test_sequences_are_turned_around(run, known):
    data = np.random.default_rng(1).normal(size=(2, 3, 4))
    x, lengths = tg.placeholder("float64", known), tg.placeholder("int64", None)
    y = tg.reverse_sequence(x, lengths, seq_axis=2, batch_axis=1)
    assert y.shape == tg.Shape(known)
    wanted = data.copy()
    for i, n in enumerate([0, 2, 4]):
        wanted[:, i, :n] = data[:, i, :n][:, ::-1]
    np.testing.assert_array_equal(run(y, {x: data, lengths: [0, 2, 4]}), wanted)
    for wrong, text in (([0, 2, 5], r"\[0, 4\]"), ([-1, 0, 0], r"\[0, 4\]"), ([1, 1], "3 lengths")):
        with pytest.raises(tg.OpError, match=text):
            run(y, {x: data, lengths: wrong})


def test_masks_of_lengths(run):
    lengths = tg.placeholder("int64", None)
    mask = tg.sequence_mask(lengths, dtype="float32")
    assert run(mask, {lengths: [[1, 0], [2, 2]]}).tolist() == [[[1, 0], [0, 0]], [[1, 1], [1, 1]]]
    assert run(mask, {lengths: np.zeros((0,), np.int64)}).shape == (0, 0)
    assert run(mask, {lengths: 2}).tolist() == [1, 1]
    assert run(tg.sequence_mask(lengths, np.int32(3)), {lengths: [1, 9]}).tolist() == [[True, False, False], [True] * 3]
    assert tg.sequence_mask([1, 2], 5).shape == [2, 5]


@pytest.mark.parametrize("known", [[2, 3], [None, None], None])
@pytest.mark.parametrize(("repeats", "axis"), [(2, 0), (2, 1), (0, -1), ([1, 2], 0), ([0, 1, 3], -1), ([2], 1)])
def test_rows_are_repeated(run, known, repeats, axis):
    data = np.random.default_rng(2).normal(size=(2, 3))
    x, times = tg.placeholder("float64", known), tg.placeholder("int32", np.shape(repeats))
    wanted = np.repeat(data, repeats, axis)
    for given in (repeats, times):
        y = tg.repeat(x, given, axis)
        assert y.shape.includes(tg.Shape(wanted.shape))
        np.testing.assert_array_equal(run(y, {x: data, times: repeats}), wanted)
    if known:
        assert tg.repeat(tg.zeros([2, 3]), repeats, axis).shape == wanted.shape
    flat = tg.repeat(x, tg.placeholder_with_default(np.int64(2), None))
    np.testing.assert_array_equal(run(flat, {x: data}), np.repeat(data, 2))


def test_repeats_are_differentiated(run):
    x = np.random.default_rng(3).normal(size=(2, 3))
    second_order(lambda t: tg.repeat(t, [1, 0, 2], 1) ** 3, x)
    second_order(lambda t: tg.repeat(t, 3, 0) ** 3, x)
    assert run(tg.repeat(5, 3)).tolist() == run(tg.repeat(5, 3, 0)).tolist() == [5, 5, 5]
    with pytest.raises(tg.OpError):
        run(tg.repeat(tg.constant([1, 2]), tg.placeholder_with_default(np.int32([1, 2, 3]), [None])))
    with pytest.raises(tg.OpError, match="-1 times"):
        run(tg.repeat([1, 2], tg.placeholder_with_default(np.int32([1, -1]), [None])))


def test_elements_move_around(run):
    data = np.arange(12).reshape(3, 4)
    shift = tg.placeholder("int64", None)
    x = tg.placeholder_with_default(data, None)
    np.testing.assert_array_equal(run(tg.roll(x, shift, [0, 1]), {shift: [7, -6]}), np.roll(data, (7, -6), (0, 1)))
    np.testing.assert_array_equal(run(tg.roll(x, tg.constant(-1), -1)), np.roll(data, -1, -1))
    assert run(tg.roll(tg.constant(["a", "b"]), 1, 0)).tolist() == ["b", "a"]


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("sizes", [[3], [3, 2], [3, 2, 4], [1, 1, 2, 3], [3, 0]])
def test_grids(run, sizes, indexing):
    vectors = [np.random.default_rng(n).normal(size=n) for n in sizes]
    fed = [tg.placeholder("float64", [None]) for _ in vectors]
    wanted = np.meshgrid(*vectors, indexing=indexing)
    for made in (tg.meshgrid(*vectors, indexing=indexing), tg.meshgrid(*fed, indexing=indexing)):
        found = run(made, dict(zip(fed, vectors, strict=True)))
        assert all(t.shape.includes(tg.Shape(w.shape)) for t, w in zip(made, wanted, strict=True))
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert [t.shape for t in tg.meshgrid(*vectors, indexing=indexing)] == [list(w.shape) for w in wanted]
    assert tg.meshgrid() == []


def test_grids_have_gradients():
    x = np.random.default_rng(4).normal(size=3)
    differences(lambda t: tg.meshgrid(t, t * t)[0] * tg.meshgrid(t, t * t)[1], x)


KINDS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
KINDS += ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


@each("source, target", itertools.product(KINDS, KINDS), by=lambda source, _: source)
def test_bits_as_any_other_dtype(run, source, target):
    old, new = (tg.as_dtype(k).numpy for k in (source, target))
    shape = (2, 3, *([new.itemsize // old.itemsize] if new.itemsize > old.itemsize else []))
    count = int(np.prod(shape)) * old.itemsize
    data = (np.arange(count) % 60).astype(np.uint8).view(old).reshape(shape)
    y = tg.bitcast(tg.constant(data), target)
    found = run(y)
    assert (found.dtype, y.dtype.numpy) == (new, new)
    wanted = (2, 3, *([old.itemsize // new.itemsize] if new.itemsize < old.itemsize else []))
    assert found.shape == y.shape.as_tuple() == wanted
    assert found.tobytes() == data.tobytes()
    assert run(tg.bitcast(y, source)).tobytes() == data.tobytes()


def test_bits_of_numbers_alone(run):
    assert run(tg.bitcast(1.0, "int32")) == 0x3F800000
    assert run(tg.bitcast(np.uint8([0, 0, 128, 63]), "float32")) == 1.0
    with pytest.raises(tg.OpError, match="size 4"):
        run(tg.bitcast(tg.placeholder_with_default(np.uint8([1, 2]), [None]), "int32"))


@each("source, target", itertools.product(KINDS, KINDS), by=lambda source, _: source)
def test_limits_of_a_dtype_hold(run, source, target):
    old, new = tg.as_dtype(source), tg.as_dtype(target)
    values = [v for v in (0, 1, 100, old.real.min, old.real.max) if v >= old.real.min]
    data = np.array([np.array(v).astype(old.real.numpy) for v in values], old.real.numpy).astype(old.numpy)
    found = run(tg.saturate_cast(tg.constant(data), target))
    assert found.dtype == new.numpy
    wanted = [min(max(v, new.real.min), new.real.max) for v in values]
    found = [float(v) if new.real.is_floating else int(v) for v in np.real(found)]
    near = 2.0**-7 if "bfloat16" in (source, target) else 2.0**-10
    np.testing.assert_allclose(np.array(found, float), np.array(wanted, float), rtol=near)
    assert all(new.real.min <= v <= new.real.max for v in found)


def test_infinities_become_limits(run):
    x = tg.constant([-np.inf, np.inf])
    assert run(tg.saturate_cast(x, "int16")).tolist() == [-(2**15), 2**15 - 1]
    assert run(tg.saturate_cast(x, "float16")).tolist() == [-65504.0, 65504.0]
    assert run(tg.saturate_cast(x, "float64")).tolist() == [-np.inf, np.inf]
    assert run(tg.saturate_cast([300, -1], "uint8")).tolist() == [255, 0]
    assert run(tg.saturate_cast(np.array([1e300 + 2j]), "complex64")).tolist() == [np.finfo(np.float32).max + 2j]


def test_a_shape_that_is_said_is_checked_and_known(run):
    x = tg.placeholder("float32")
    y = tg.ensure_shape(x, [None, 2])
    assert y.shape == [None, 2]
    assert tg.ensure_shape(tg.zeros([3, 2]), [None, 2]).shape == [3, 2]
    assert run(tg.gradients(y * y, [x])[0], {x: [[1, 2]]}).tolist() == [[2.0, 4.0]]
    with pytest.raises(tg.OpError, match=r"wanted shape \[\?,2\], got \[3\]"):
        run(y, {x: [1, 2, 3]})


def test_shapes_are_broadcast(run):
    a, b = tg.placeholder("float32", [None, 1, 3]), tg.placeholder("float32", [4, 1])
    assert tg.zeros(tg.broadcast_dynamic_shape(tg.shape(a), tg.shape(b))).shape == [None, 4, 3]
    x, y = tg.placeholder("int32", [None]), tg.placeholder("int32", [None])
    both = tg.broadcast_dynamic_shape(x, y)
    assert run(both, {x: [2, 1], y: [5, 1, 0]}).tolist() == [5, 2, 0]
    assert run(both, {x: [], y: [3]}).tolist() == [3]
    with pytest.raises(tg.OpError):
        run(both, {x: [2], y: [3]})
    with pytest.raises(tg.ShapeError):
        tg.broadcast_dynamic_shape([2], [3])
    assert tg.broadcast_static_shape(tg.Shape(None), [2]) == tg.Shape(None)
    assert [s.tolist() for s in run(tg.shape_n([a, b], "int64"), {a: np.zeros((5, 1, 3)), b: np.zeros((4, 1))})] == [
        [5, 1, 3],
        [4, 1],
    ]


def test_positions_in_a_shape(run):
    places = tg.placeholder("int64", None)
    y = tg.unravel_index(places, np.int64([3, 4, 5]))
    for given in (17, [0, 59, 23]):
        np.testing.assert_array_equal(run(y, {places: given}), np.unravel_index(given, (3, 4, 5)))
    for wrong in (60, -1):
        with pytest.raises(tg.OpError, match=r"\[0, 60\)"):
            run(y, {places: wrong})


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_variances_of_every_dtype(run, kind):
    dtype = tg.as_dtype(kind)
    data = np.array([[1, 2, 4, 1], [0, 0, 0, 8]]).astype(dtype.numpy)
    data = (data * (1 + 1j)).astype(dtype.numpy) if dtype.is_complex else data
    x = tg.placeholder_with_default(data, None)
    variance, std, norm = run([tg.reduce_variance(x, 1), tg.reduce_std(x, -1, True), tg.reduce_euclidean_norm(x, [1])])
    factor = 2 if dtype.is_complex else 1
    assert (variance.dtype, std.dtype, norm.dtype) == (dtype.real.numpy, dtype.real.numpy, dtype.numpy)
    near = 1e-2 if data.itemsize == 2 else 1e-6
    wanted = factor * np.array([1.5, 12.0])
    np.testing.assert_allclose(variance.astype(float), wanted, rtol=near)
    np.testing.assert_allclose(std.astype(float), np.sqrt(wanted)[:, None], rtol=near)
    np.testing.assert_allclose(norm.astype(complex), np.sqrt(factor * np.array([22, 64])), rtol=near)


def test_reductions_of_everything(run):
    assert run(tg.count_nonzero(["a", "", "b"])) == 2
    assert run(tg.count_nonzero([[True, False], [True, True]], 0, dtype="int32")).tolist() == [2, 1]
    assert run(tg.count_nonzero(np.array([1j, 0]), keepdims=True)).tolist() == [1]
    assert np.isnan(run(tg.reduce_variance(tg.zeros([0]))))
    assert run(tg.reduce_euclidean_norm([3, 5])).tolist() == 5
    second_order(lambda t: tg.reduce_std(t, 1), np.random.default_rng(5).normal(size=(2, 4)))
    second_order(lambda t: tg.reduce_euclidean_norm(t, 0), np.random.default_rng(6).normal(size=(2, 4)))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_running_sums_of_exponentials(run, axis, reverse, exclusive):
    x = np.random.default_rng(7).normal(size=(4, 5)) * 300
    wanted = x[::-1] if reverse and axis == 0 else x[:, ::-1] if reverse else x
    wanted = np.logaddexp.accumulate(wanted, axis)
    wanted = np.moveaxis(wanted, axis, 0)
    if exclusive:
        wanted = np.concatenate([np.full_like(wanted[:1], -np.inf), wanted[:-1]])
    wanted = np.moveaxis(wanted[::-1] if reverse else wanted, 0, axis)
    y = tg.cumulative_logsumexp(tg.placeholder_with_default(x, None), axis, exclusive, reverse)
    np.testing.assert_allclose(run(y), wanted)


@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums_of_exponentials_have_gradients_of_third_order(exclusive):
    def slope(t):
        y = tg.cumulative_logsumexp(t, 0, exclusive)
        (found,) = tg.gradients(y[1:] ** 2, [t])
        return found

    second_order(slope, np.random.default_rng(8).normal(size=4))


def test_gradients_of_running_sums_are_finite_far_apart(run):
    x = tg.constant(np.array([1000.0, -1000.0, 0.0, 1000.0, -np.inf]))
    (g,) = tg.gradients(tg.cumulative_logsumexp(x), [x])
    np.testing.assert_allclose(run(g), [4.0, 0.0, 0.0, 1.0, 0.0], atol=1e-12)


REFUSED = {
    "pixels": (lambda: tg.space_to_depth(tg.zeros([1, 3, 4, 1]), 2), tg.ShapeError, "do not fit the height"),
    "channels": (lambda: tg.depth_to_space(tg.zeros([1, 3, 4, 6]), 2), tg.ShapeError, "do not fit the channels"),
    "rank": (lambda: tg.space_to_depth(tg.zeros([3, 4, 1]), 2), tg.ShapeError, "rank 4"),
    "format": (lambda: tg.space_to_depth(tg.zeros([1, 2, 2, 1]), 2, data_format="CHWN"), tg.GraphError, "NCHW"),
    "padded": (lambda: tg.space_to_batch_nd(tg.zeros([1, 3]), [2], [[0, 0]]), tg.ShapeError, "padded tensor"),
    "paddings": (lambda: tg.space_to_batch_nd(tg.zeros([1, 3]), [1], [[0, -1]]), tg.ShapeError, "1 pairs of 0"),
    "pairs": (lambda: tg.space_to_batch_nd(tg.zeros([1, 3]), [1], [0, 1]), tg.ShapeError, "1 pairs of 0"),
    "blocks": (lambda: tg.space_to_batch_nd(tg.zeros([4]), [2], [[0, 0]]), tg.ShapeError, "behind the first"),
    "batch": (lambda: tg.batch_to_space_nd(tg.zeros([3, 3]), [2], [[0, 0]]), tg.ShapeError, "fit the batch"),
    "crops": (lambda: tg.batch_to_space_nd(tg.zeros([2, 3]), [2], [[4, 3]]), tg.ShapeError, "cut off more"),
    "no block": (lambda: tg.space_to_batch(tg.zeros([1, 2, 2, 1]), [[0, 0]] * 2), tg.GraphError, "block_size"),
    "axes": (lambda: tg.reverse_sequence(tg.zeros([2, 2]), [1, 1], 0), tg.ShapeError, "two axes"),
    "lengths": (lambda: tg.reverse_sequence(tg.zeros([2, 2]), [1], 1), tg.ShapeError, "a length for each"),
    "no axis": (lambda: tg.reverse_sequence(tg.zeros([2, 2]), [1, 1]), tg.GraphError, "seq_axis"),
    "shifts": (lambda: tg.roll(tg.zeros([2]), [1, 2], 0), tg.ShapeError, "a shift for each axis"),
    "roll": (lambda: tg.roll(tg.zeros([2]), 1, 1), tg.ShapeError, "no such axis"),
    "repeats": (lambda: tg.repeat([1, 2], [1, -2]), tg.ShapeError, "how often"),
    "repeat": (lambda: tg.repeat([1, 2], -2), tg.ShapeError, "how often"),
    "indexing": (lambda: tg.meshgrid([1], indexing="yx"), tg.GraphError, "'ij'"),
    "bits": (lambda: tg.bitcast(np.uint8([1, 2]), "int32"), tg.ShapeError, "size 4"),
    "bits of bool": (lambda: tg.bitcast([1], "bool"), tg.DtypeError, "numeric"),
    "limits": (lambda: tg.saturate_cast([True], "int8"), tg.DtypeError, "numeric"),
    "shape": (lambda: tg.ensure_shape(tg.zeros([2]), [3]), tg.ShapeError, "another shape"),
    "positions": (lambda: tg.unravel_index([[1]], [3]), tg.ShapeError, "scalar or vector"),
    "scalar": (lambda: tg.cumulative_logsumexp(tg.constant(1.0)), tg.ShapeError, "rank 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_refused_when_it_is_built(graph, case):
    build, error, text = REFUSED[case]
    with pytest.raises(error, match=text):
        build()
