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
