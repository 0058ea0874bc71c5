"""What is refused while a graph is built is refused in the step too, where only the step knows ranks and sizes.

Every sample of every operation is changed so that the operation is refused with constants, in an attribute or in the
shape of an input; then its kernel, which sees the same arrays without what was known while building, refuses it.
"""

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.apply import apply, constant
from tagloom.ir.graph import Graph

from tests.ops.evaluation import run_kernel
from tests.ops.samples import DEFINITIONS, flat
from tests.support.cases import each

EXCEPT = {
    ("Unstack", "num", 0),
    ("SplitV", "num", 0),
    ("FakeQuant", "num_bits", 2),
}  # no public function asks for these
# A kernel reads the only element of an array as a scalar, which means nothing else.
RANKS = {"FakeQuant", "SegmentCount"}  # public functions check these themselves
ONE_ELEMENT = {
    "Fill",
    "LinSpace",
    "NonMaxSuppression",
    "OneHot",
    "Pad",
    "Range",
    "SoftNonMaxSuppression",
    "SparseToDense",
}
PYTHON = {"CustomGradient"}  # what calls Python while building has a number of its own for its results
TYPES = [
    d.type
    for d in DEFINITIONS.values()
    if d.kernel is not None and not d.effects and d.samples and d.type not in PYTHON
]


def other_numbers(value):
    """Return what an attribute might be instead, where it is an int or a tuple of them."""
    if isinstance(value, int) and not isinstance(value, bool):
        return [value + 7, -value - 9, 7, -9, 0, -1, 2, 3]
    if isinstance(value, tuple) and value and all(type(i) is int for i in value):
        changed = [(*value[:k], n, *value[k + 1 :]) for k in range(len(value)) for n in (7, -9, 0, -1, 2)]
        return [*changed, value + value[:1], (*value, -1), value[:-1]]
    return []


def other_shapes(x):
    """Return an array in other shapes."""
    x = np.asarray(x)
    yield from (x[None], x[..., None])
    yield from (np.concatenate([x, x], axis) for axis in range(x.ndim))
    if x.ndim and len(x):
        yield from (x[0], x[:1])


def changes(definition):
    """Yield inputs and attributes that are almost those of a sample."""
    for sample in definition.samples:
        for key, value in {**definition.attrs, **sample.attrs}.items():
            for other in other_numbers(value):
                if (definition.type, key, other) not in EXCEPT:
                    yield sample.inputs, {**sample.attrs, key: other}
        for n, x in enumerate(sample.inputs):
            if not isinstance(x, list):
                is_exempt = definition.type in RANKS or (definition.type in ONE_ELEMENT and not np.ndim(x))
                for other in () if is_exempt else other_shapes(x):
                    yield [*sample.inputs[:n], other, *sample.inputs[n + 1 :]], sample.attrs


def is_refused(type, inputs, attrs, make):
    """Return whether an operation cannot be built."""
    with Graph().as_default():
        try:
            apply(type, *([make(a) for a in x] if isinstance(x, list) else make(x) for x in inputs), **attrs)
        except Exception:
            return True
    return False


def unknown(x):
    return tg.placeholder(np.asarray(x).dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@each("type", TYPES)
def test_kernels_refuse_what_is_refused_while_building(type):
    definition = DEFINITIONS[type]
    for inputs, attrs in changes(definition):
        if not is_refused(type, inputs, attrs, constant) or is_refused(type, inputs, attrs, unknown):
            continue
        try:
            run_kernel(definition, flat(inputs), {**definition.attrs, **attrs})
        except Exception:
            continue
        raise AssertionError(f"{type} of shapes {[np.shape(x) for x in inputs]} with {attrs} is computed")


def axes_of():
    """Functions of a tensor and an axis; all elements are numbers."""
    index = tg.constant([0, 1])
    return {
        "argmax": tg.argmax,
        "argmin": tg.argmin,
        "argsort": tg.argsort,
        "boolean_mask": lambda x, axis: tg.boolean_mask(x, [True, True], axis=axis),
        "clip_by_norm": lambda x, axis: tg.clip_by_norm(x, 1.0, [axis]),
        "concat": lambda x, axis: tg.concat([x, x], axis),
        "count_nonzero": tg.count_nonzero,
        "crelu": lambda x, axis: tg.crelu(x, axis=axis),
        "cumprod": tg.cumprod,
        "cumsum": tg.cumsum,
        "cumulative_logsumexp": tg.cumulative_logsumexp,
        "gather": lambda x, axis: tg.gather(x, index, axis=axis),
        "gather_gradient": lambda x, axis: tg.gradients(tg.gather(x, index, axis=axis), [x])[0],
        "l2_normalize": tg.l2_normalize,
        "log_softmax": tg.log_softmax,
        "moments": lambda x, axis: tg.moments(x, [axis])[1],
        "norm": lambda x, axis: tg.norm(x, axis=axis),
        "one_hot": lambda x, axis: tg.one_hot(tg.cast(x, "int32"), 3, axis=axis + 1 if axis > 0 else axis),
        "reduce_all": lambda x, axis: tg.reduce_all(x > 1, axis),
        "reduce_logsumexp": tg.reduce_logsumexp,
        "reduce_max": tg.reduce_max,
        "reduce_mean": tg.reduce_mean,
        "reduce_prod": tg.reduce_prod,
        "reduce_std": tg.reduce_std,
        "reduce_sum": tg.reduce_sum,
        "repeat": lambda x, axis: tg.repeat(x, 2, axis=axis),
        "reverse": lambda x, axis: tg.reverse(x, [axis]),
        "reverse_sequence": lambda x, axis: tg.reverse_sequence(x, [1, 1], seq_axis=axis, batch_axis=0),
        "roll": lambda x, axis: tg.roll(x, [1], [axis]),
        "softmax": tg.softmax,
        "softmax_cross_entropy": lambda x, axis: tg.softmax_cross_entropy_with_logits(labels=x, logits=x, axis=axis),
        "sort": tg.sort,
        "split": lambda x, axis: tg.split(x, 1, axis)[0],
        "squeeze": lambda x, axis: tg.squeeze(x[:1], axis),
        "tensordot": lambda x, axis: tg.tensordot(x, tg.transpose(x), [[axis], [0]]),
        "unstack": lambda x, axis: tg.unstack(x, 2, axis)[0],
    }


with tg.Graph().as_default():
    NAMES = list(axes_of())


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("executor", ["machine", "reference"])
@pytest.mark.parametrize("name", NAMES)
def test_an_axis_that_is_not_there(name, executor):
    for axis in (5, 3, 2, -3, -4, -6):
        verdicts = []
        for shape in ([2, 3], [None, None], None):
            with tg.Graph().as_default() as graph:
                x = tg.placeholder("float32", shape)
                try:
                    y = axes_of()[name](x, axis)
                    with tg.SyncSession(graph, executor=executor, timeout=30) as session:
                        session.run(y, {x: np.arange(6).reshape(2, 3)})
                    verdicts.append("computed")
                except tg.TagloomError:
                    verdicts.append("refused")
        assert verdicts == ["refused"] * 3, f"{name} along axis {axis}: {verdicts}"


@pytest.mark.parametrize("given", [{"strides": 0}, {"strides": -1}, {"dilations": 0}, {"dilations": [1, -2]}])
@pytest.mark.parametrize("shape", [[3, 3, 1, 1], [None, None, 1, 1], None])
def test_strides_of_convolutions_with_filters_of_unknown_sizes(given, shape):
    """They ended the process by a division by zero."""
    with tg.Graph().as_default():
        x, filters = tg.placeholder("float32"), tg.placeholder("float32", shape)
        with pytest.raises(tg.GraphError, match="positive number"):
            tg.conv2d(x, filters, padding="SAME", **given)


def ones(*shape, dtype="float32"):
    return np.ones(shape, dtype)


PARTS = [[0, 0], [1, 2]], [1.0, 2.0], [2, 3]


class Echo(tg.nn.RNNCell):
    state_size = output_size = 3

    def forward(self, x, state):
        return x, state


# What functions that are compositions check of their arguments, which no kernel of theirs would find: a call, and
# arguments that fit; then arguments that were broadcast, or taken for something else.
COMPOSED = {
    "bias_add": (tg.bias_add, [ones(4, 3), ones(3)], [ones(4, 3), ones(1)], [ones(4, 1), ones(3)]),
    "bias_add first": (
        lambda x, b: tg.bias_add(tg.ensure_shape(x, [None] * 4), b, "NCHW"),
        [ones(2, 3, 4, 4), ones(3)],
        [ones(2, 1, 4, 4), ones(3)],
        [ones(2, 3, 4, 4), ones(1)],
    ),
    "fused_batch_norm": (
        lambda x, s, o: tg.fused_batch_norm(tg.ensure_shape(x, [None] * 4), s, o)[0],
        [ones(2, 4, 4, 3), ones(3), ones(3)],
        [ones(2, 4, 4, 1), ones(3), ones(3)],
        [ones(2, 4, 4, 3), ones(3), ones(1)],
    ),
    "crop_and_resize": (
        lambda x, b: tg.crop_and_resize(x, b, [0], [2, 2]),
        [ones(2, 5, 5, 3), ones(1, 4)],
        [ones(1, 2, 5, 5, 3), ones(1, 4)],
        [ones(2, 5, 5, 3), ones(1, 5)],
    ),
    "flip_left_right": (tg.flip_left_right, [ones(2, 3, 1)], [ones(2, 3)]),
    "psnr": (lambda a, b: tg.psnr(a, b, 1.0), [ones(2, 3, 1), ones(2, 3, 1)], [ones(), ones(2, 3, 1)]),
    "rgb_to_grayscale": (tg.rgb_to_grayscale, [ones(2, 3)], [ones(2, 1)], [ones(2, 2)]),
    "grayscale_to_rgb": (tg.grayscale_to_rgb, [ones(2, 1)], [ones(2, 3)]),
    "lrn": (tg.lrn, [ones(3)], [ones()]),
    "matrix_solve_ls": (tg.matrix_solve_ls, [ones(4, 1), ones(4, 2)], [ones(4), ones(4, 2)]),
    "log_poisson_loss": (
        tg.log_poisson_loss,
        [ones(4, 3), ones(4, 3)],
        [ones(1, 3), ones(4, 3)],
        [ones(3), ones(4, 3)],
    ),
    "nce_loss": (
        lambda labels, x: tg.nce_loss(ones(5, 3), ones(5), labels, x, 2, 5, seed=1),
        [ones(4, 1, dtype="int32"), ones(4, 3)],
        [ones(1, 4, 1, dtype="int32"), ones(4, 3)],
        [ones(2, 2, dtype="int32"), ones(4, 3)],
    ),
    "full_softmax_loss": (
        lambda w, b, x: tg.full_softmax_loss([w], [b], [0, 1], x),
        [ones(5, 3), ones(5), ones(2, 3)],
        [ones(5, 3), ones(1), ones(2, 3)],
        [ones(5, 3), ones(1, 5), ones(2, 3)],
    ),
    "sparse_add": (
        lambda x: tg.sparse_add(tg.SparseTensor(*PARTS), x),
        [ones(2, 3)],
        [ones(1, 3)],
        [ones(3)],
        [ones(1, 2, 3)],
    ),
    "grad_ys": (
        lambda x, g: tg.gradients(tg.square(x), x, g)[0],
        [ones(4, 3), ones(4, 3)],
        [ones(4, 3), ones(1, 3)],
        [ones(1, 3), ones(4, 3)],
        [ones(3), ones(4, 3)],
    ),
    "jvp": (lambda x, v: tg.jvp(tg.square(x), x, v), [ones(4, 3), ones(4, 3)], [ones(4, 3), ones(3)]),
    "dynamic_rnn": (
        lambda x, n: tg.nn.dynamic_rnn(
            Echo(), tg.ensure_shape(x, [None, None, 3]), tg.ensure_shape(n, [None]), dtype="float32"
        )[0],
        [ones(2, 4, 3), ones(2, dtype="int32")],
        [ones(1, 4, 3), ones(2, dtype="int32")],
        [ones(2, 4, 3), ones(1, dtype="int32")],
    ),
}
UNKNOWN = {"rank": lambda x: None, "sizes": lambda x: [None] * x.ndim}


@pytest.mark.parametrize("known", UNKNOWN)
@pytest.mark.parametrize("name", COMPOSED)
def test_compositions_check_what_only_the_step_knows(name, known):
    build, fits, *wrong = COMPOSED[name]
    for arrays in (fits, *wrong):
        with tg.Graph(seed=1).as_default() as graph:
            inputs = [tg.placeholder(x.dtype, UNKNOWN[known](x)) for x in arrays]
            try:
                y = build(*inputs)
            except tg.GraphError:
                assert arrays is not fits, "an error while building"
                continue
        with tg.SyncSession(graph) as session:
            if arrays is fits:
                with tg.Graph(seed=1).as_default() as other:
                    wanted = build(*map(tg.constant, arrays))
                with tg.SyncSession(other) as reference:
                    np.testing.assert_allclose(session.run(y, dict(zip(inputs, arrays))), reference.run(wanted), 1e-6)
                continue
            with pytest.raises(tg.OpError):
                session.run(y, dict(zip(inputs, arrays)))


@pytest.mark.parametrize("known", UNKNOWN)
@pytest.mark.parametrize("shape", [(4, 1), (1, 3), (3,), (1,), (), (4, 3), (2, 4, 3)])
def test_weights_of_moments_are_broadcast_whatever_is_known_of_them(shape, known):
    random = np.random.default_rng(0)
    x, weights = random.random((4, 3)), random.random(shape)
    with tg.Graph().as_default() as graph:
        inputs = [tg.placeholder(a.dtype, UNKNOWN[known](a)) for a in (x, weights)]
        found = tg.weighted_moments(inputs[0], [0], inputs[1])
        wanted = tg.weighted_moments(x, [0], weights)
    with tg.SyncSession(graph) as session:
        for ours, theirs in zip(*session.run([found, wanted], dict(zip(inputs, (x, weights))))):
            np.testing.assert_allclose(ours, theirs)


@pytest.mark.parametrize("shape", [None, [None, None], [None, 3]])
@pytest.mark.parametrize("add", [tg.sparse_add, tg.sparse_maximum, tg.sparse_minimum])
def test_sparse_tensors_of_one_shape_as_only_the_step_knows(add, shape):
    with tg.Graph().as_default() as graph:
        given = tg.sparse_placeholder("float32", shape)
        sums = [tg.sparse_tensor_to_dense(add(*pair)) for pair in ((tg.SparseTensor(*PARTS), given),) * 2]
    with tg.SyncSession(graph) as session:
        for y in sums:
            session.run(y, {given: ([[0, 0]], [5.0], [2, 3])})
            with pytest.raises(tg.OpError, match="one shape"):
                session.run(y, {given: ([[0, 0]], [5.0], [1, 3])})


def test_shapes_that_are_broadcast_are_looked_at_in_the_step():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [None, 3])
        y = tg.broadcast_dynamic_shape(tg.shape(x), [2, 3])
    with tg.SyncSession(graph) as session:
        assert session.run(y, {x: ones(1, 3)}).tolist() == [2, 3]
        with pytest.raises(tg.OpError):
            session.run(y, {x: ones(5, 3)})


def test_an_empty_tensor_has_nothing_to_mirror():
    assert tg.function(lambda: tg.sobel_edges(tg.zeros([0, 5, 6, 1]))).sync().shape == (0, 5, 6, 1, 2)
