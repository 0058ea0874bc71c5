"""Every registered operation at many elements: programs for `loop_lag`, which asks whether any of them holds the loop.

What works element by element is scaled up from the samples of its definition. Others have a program here, or a reason
why their size does not matter. An operation with neither is an error, so that a new one is not forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from tagflow.base import dtypes

from .experiment import BenchError

ROW = 1000  # elements of a row, where there are rows


@dataclass
class Program:
    """A step that runs one operation on many elements.

    Attributes
    ----------
    fetches : structure of Tensor or Operation
    feeds : dict of Tensor to numpy.ndarray
    prepare : structure of Tensor or Operation
        What is run once before it.
    options : dict
        Of its session.
    """

    fetches: Any
    feeds: dict[Any, np.ndarray] = field(default_factory=dict)
    prepare: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)


Build = Callable[[int], Program]


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Return numbers between 0.25 and 0.75, where every function is defined and none is slow by accident."""
    return np.resize(np.linspace(0.25, 0.75, 997), prod(shape)).reshape(shape).astype(dtype)


def numbers(*shape: int, below: int = 7, dtype: Any = np.int32) -> np.ndarray:
    """Return integers from 0 to less than `below`, in no simple order."""
    return (np.arange(prod(shape), dtype=np.int64) * 7919 % below).reshape(shape).astype(dtype)


def flags(*shape: int) -> np.ndarray:
    """Return bools, most of them true."""
    return numbers(*shape) > 0


def fed(value: Any, feeds: dict[Any, np.ndarray]) -> Any:
    """Return a placeholder of unknown shape for an array, which is noted in `feeds`; for each of a list."""
    import tagflow as tg

    if isinstance(value, list):
        return [fed(each, feeds) for each in value]
    if isinstance(value, tg.Tensor):
        return value
    array = np.asarray(value)
    tensor = tg.placeholder(array.dtype)
    feeds[tensor] = array
    return tensor


def call(type: str, *inputs: Any, **attrs: Any) -> Program:
    """Return a program that runs one operation, all of whose inputs are fed."""
    from tagflow.ir.apply import apply

    feeds: dict[Any, np.ndarray] = {}
    made = apply(type, *[fed(each, feeds) for each in inputs], **attrs)
    op = made[0].op if isinstance(made, list) else made.op
    return Program(list(op.outputs), feeds)


def scaled(definition: Any, n: int) -> Program:
    """Return a program of an operation that works element by element: its first sample, again and again."""
    sample = definition.samples[0]
    inputs = [np.resize(np.asarray(each), n) for each in sample.inputs]
    return call(definition.type, *inputs, **sample.attrs)


# ---- operations without state


def rows(n: int, dtype: Any = np.float32) -> np.ndarray:
    """Return numbers in rows."""
    return floats(n // ROW, ROW, dtype=dtype)


def fused(n: int) -> Program:
    """Return a chain of operations that become one."""
    import tagflow as tg

    x = tg.placeholder("float32", [n])
    return Program(tg.tanh(x * 2.0 + 1.0) * x, {x: floats(n)})


def stacked(n: int, count: int = 10) -> list[np.ndarray]:
    return [floats(n // count) for _ in range(count)]


def sizes(*values: int) -> np.ndarray:
    """Return a shape, or other integers in the host's memory."""
    return np.array(values, np.int32)


def products(n: int) -> Program:
    """Return sums of products, as the gradients of a loop's weights have."""
    from tagflow.ir.apply import apply

    feeds: dict[Any, np.ndarray] = {}
    side = int((n // 10) ** 0.5)
    total = apply("ProductSumBegin", fed(np.zeros((side, side), np.float32), feeds))
    a, b = (fed(floats(100, side), feeds) for _ in range(2))
    total = apply("ProductSumAdd", apply("ProductSumAdd", total, a, b), a, b)
    return Program(apply("ProductSumEnd", total, dtype=np.float32, shape=[side, side]), feeds)


CALLS: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "Abs": lambda n: (floats(n),),
    "AddN": lambda n: ([floats(n), floats(n), floats(n)],),
    "All": lambda n: (flags(n), dict(axis=None)),
    "Any": lambda n: (~flags(n // ROW, ROW), dict(axis=(0,))),
    "ArgMax": lambda n: (rows(n), dict(axis=1)),
    "ArgMin": lambda n: (rows(n), dict(axis=0)),
    "BooleanMask": lambda n: (floats(n), flags(n)),
    "BroadcastTo": lambda n: (floats(ROW), sizes(n // ROW, ROW)),
    "CheckNumerics": lambda n: (floats(n), dict(message="")),
    "Complex": lambda n: (floats(n), floats(n), dict(dtype=dtypes.complex64)),
    "Concat": lambda n: (stacked(n), dict(axis=0)),
    "Cumprod": lambda n: (rows(n),),
    "Cumsum": lambda n: (rows(n),),
    "Identity": lambda n: (floats(n),),
    "CustomGradient": lambda n: ([floats(n)], dict(dtypes=("float32",), num=1, gradient=lambda g: [g])),
    "ExpandDims": lambda n: (floats(n), dict(axis=0)),
    "Fill": lambda n: (sizes(n // ROW, ROW), np.float32(1)),
    "Gather": lambda n: (rows(n), numbers(n // ROW, below=n // ROW)),
    "GatherGrad": lambda n: (rows(n), numbers(n // ROW, below=n // ROW), sizes(n // ROW, ROW)),
    "GatherNd": lambda n: (rows(n), numbers(n // ROW, 1, below=n // ROW)),
    "IdentityN": lambda n: ([floats(n), floats(n)], dict(dtypes=("float32", "float32"))),
    "LeakyRelu": lambda n: (floats(n),),
    "LinSpace": lambda n: (np.float32(0), np.float32(1), np.int32(n)),
    "LogSoftmax": lambda n: (rows(n),),
    "LogSumExp": lambda n: (rows(n), dict(axis=(1,))),
    "MatMul": lambda n: (floats(n // ROW, ROW), floats(ROW, 100)),
    "MatMulAdd": lambda n: (floats(n // ROW, ROW), floats(ROW, 100), floats(n // ROW, 100)),
    "Max": lambda n: (rows(n), dict(axis=(1,))),
    "Mean": lambda n: (floats(n), dict(axis=None)),
    "Min": lambda n: (rows(n), dict(axis=(0,))),
    "MirrorPad": lambda n: (rows(n), sizes(1, 1, 2, 2).reshape(2, 2), dict(mode="reflect")),
    "MirrorPadGrad": lambda n: (rows(n), sizes(1, 1, 2, 2).reshape(2, 2), dict(mode="reflect")),
    "NonZero": lambda n: (flags(n),),
    "OneHot": lambda n: (numbers(n // ROW, below=ROW), np.int32(ROW), np.float32(1), np.float32(0)),
    "Pad": lambda n: (rows(n), sizes(1, 1, 2, 2).reshape(2, 2), np.float32(0)),
    "PlaceholderWithDefault": lambda n: (floats(n), dict(shape=None)),
    "Prod": lambda n: (rows(n), dict(axis=(1,))),
    "ProdOthers": lambda n: (rows(n), dict(axis=1)),
    "Range": lambda n: (np.int64(0), np.int64(n), np.int64(1)),
    "Rank": lambda n: (floats(n),),
    "Reshape": lambda n: (floats(n), sizes(ROW, -1)),
    "Reverse": lambda n: (rows(n), dict(axis=(0, 1))),
    "ScatterNd": lambda n: (numbers(n // ROW, 1, below=n // ROW), rows(n), sizes(n // ROW, ROW)),
    "Shape": lambda n: (floats(n),),
    "Size": lambda n: (floats(n),),
    "Slice": lambda n: (rows(n), sizes(0, 1), sizes(-1, ROW - 2)),
    "Softmax": lambda n: (rows(n),),
    "SoftmaxCrossEntropyWithLogits": lambda n: (rows(n), rows(n)),
    "SparseSoftmaxCrossEntropyWithLogits": lambda n: (numbers(n // ROW, below=ROW), rows(n)),
    "Split": lambda n: (rows(n), dict(num=4, axis=1)),
    "SplitV": lambda n: (rows(n), sizes(ROW // 4, ROW - ROW // 4), dict(num=2, axis=1)),
    "Squeeze": lambda n: (floats(1, n), dict(axis=None)),
    "Stack": lambda n: (stacked(n),),
    "StopGradient": lambda n: (floats(n),),
    "StridedSlice": lambda n: (rows(n), [], dict(spec=(slice(None), slice(None, None, -1)))),
    "StridedSliceGrad": lambda n: (
        sizes(n // ROW, ROW), rows(n), [], dict(spec=(slice(None), slice(None, None, -1))),
    ),
    "Sum": lambda n: (floats(n), dict(axis=None)),
    "SumTo": lambda n: (rows(n), sizes(ROW)),
    "Tile": lambda n: (floats(ROW), sizes(n // ROW)),
    "TileGrad": lambda n: (floats(n), sizes(n // ROW), sizes(ROW)),
    "Transpose": lambda n: (rows(n),),
    "UnsortedSegmentSum": lambda n: (rows(n), numbers(n // ROW, below=100), np.int32(100)),
    "Unreduce": lambda n: (floats(n // ROW), sizes(n // ROW, ROW), dict(axis=(1,))),
    "Unstack": lambda n: (floats(10, n // 10), dict(num=10)),
}  # fmt: skip


def called(type: str, n: int) -> Program:
    """Return the program of an operation of the table."""
    *inputs, last = CALLS[type](n)
    attrs = last if isinstance(last, dict) else {}
    return call(type, *inputs, *([] if isinstance(last, dict) else [last]), **attrs)


# ---- random numbers, state, arrays of values


def drawn(build: Callable[[Any, Any], Any]) -> Build:
    """Return what builds a random operation of a fed shape."""

    def program(n: int) -> Program:
        import tagflow as tg

        shape = tg.placeholder("int32", [2])
        return Program(build(tg, shape), {shape: sizes(n // ROW, ROW)})

    return program


def categorical(n: int) -> Program:
    import tagflow as tg

    logits, count = tg.placeholder("float32"), tg.placeholder("int32", [])
    return Program(tg.categorical(logits, count), {logits: floats(n // ROW // 4, ROW), count: np.int32(4)})


def shuffled(n: int) -> Program:
    import tagflow as tg

    x = tg.placeholder("float32")
    return Program(tg.random_shuffle(x), {x: rows(n)})


def updated(update: Callable[[Any, Any, Any], Any]) -> Build:
    """Return what builds a large variable and runs an update of it with fed rows."""

    def program(n: int) -> Program:
        import tagflow as tg

        v, x = tg.Variable(tg.zeros([n // ROW, ROW])), tg.placeholder("float32")
        return Program(update(tg, v, x), {x: rows(n)}, prepare=v.initializer)

    return program


def scattered(name: str) -> Build:
    def update(tg: Any, v: Any, x: Any) -> Any:
        return getattr(v, name)(tg.range(tg.shape(x)[0]), x).op

    return updated(update)


def array(use: Callable[[Any, Any, Any], Any], count: int = 100, **options: Any) -> Build:
    """Return what builds a TensorArray of `count` rows, all written, and uses it."""

    def program(n: int) -> Program:
        import tagflow as tg

        x = tg.placeholder("float32", [count, n // count])
        ta = tg.TensorArray("float32", count, **options).unstack(x)
        return Program(use(tg, ta, x), {x: floats(count, n // count)})

    return program


def series(use: Callable[[Any, Any], Any], count: int = 100) -> Build:
    """Return what builds a series of `count` rows and uses it; what makes one is an operation of the tests."""

    def program(n: int) -> Program:
        from tagflow.ir.apply import apply

        feeds: dict[Any, np.ndarray] = {}
        made = apply(_series_maker(), fed(floats(count, n // count), feeds))
        return Program(use(apply, made), feeds)

    return program


def _series_maker() -> str:
    from tagflow.base.shapes import SCALAR
    from tagflow.ir.definition import NotDifferentiable, all_definitions, define
    from tagflow.ir.traits import Role
    from tagflow.kernels.scheduler.series import Series

    def kernel(xp: Any, value: Any) -> Any:
        made = Series()
        for index, row in enumerate(value):
            made.put(index, row)
        return made

    if not any(each.type == "TestSeries" for each in all_definitions()):
        define(
            "TestSeries",
            "rows: T -> series: series",
            shape=lambda op: SCALAR,
            role=Role.SERIES,
            kernel=kernel,
            gradient=NotDifferentiable("made for a bench"),
        )
    return "TestSeries"


def nested(use: Callable[[Any, Any], Any]) -> Build:
    """Return what builds a series of one series and uses it."""
    return series(lambda apply, rows: use(apply, apply("SeriesSpread", rows, apply("SeriesSpread", 0.0, rows))), 10)


def summed(apply: Any, rows: Any) -> Any:
    """Return the size of a series' sum, a tensor that can be fetched."""
    return apply("SeriesSum", rows, sizes(1), dtype=dtypes.float32)


def gradient_writes(n: int) -> Program:
    """Return the gradient of an array whose elements are read twice, so that its gradient array adds up."""
    import tagflow as tg

    x = tg.placeholder("float32", [10, n // 10])
    ta = tg.TensorArray("float32", 10, clear_after_read=False).unstack(x)
    y = tg.reduce_sum(ta.stack()) + tg.reduce_sum(ta.stack() * 2.0)
    return Program(tg.gradients(y, [x]), {x: floats(10, n // 10)})


def stack_of(n: int) -> Program:
    import tagflow as tg

    x, handle = tg.placeholder("float32"), tg.stack(elem_type="float32")
    pushed = tg.stack_push(handle, x)
    with tg.control_dependencies([pushed]):
        popped = tg.stack_pop(handle)
    with tg.control_dependencies([popped]):
        return Program([popped, tg.stack_close(handle)], {x: floats(n)})


def printed(n: int) -> Program:
    import tagflow as tg

    x = tg.placeholder("float32")
    return Program(tg.print_(x, [x], "large"), {x: floats(n)})


def asserted(n: int) -> Program:
    import tagflow as tg

    x = tg.placeholder("float32")
    return Program(tg.assert_less(x, 1.0), {x: floats(n)})


def python(n: int) -> Program:
    import tagflow as tg

    x = tg.placeholder("float32", [None])
    return Program(tg.py_function(np.sin, [x], "float32", blocking=True), {x: floats(n)})


def across_devices(n: int) -> Program:
    import tagflow as tg

    x = tg.placeholder("float32", [n])
    with tg.device("/cpu:0"):
        y = tg.tanh(x)
    with tg.device("/cpu:1"):
        return Program(tg.reduce_max(y), {x: floats(n)}, options={"devices": 2})


PROGRAMS: dict[str, Build] = {
    "Assert": asserted,
    "AssignAddVariable": updated(lambda tg, v, x: v.assign_add(x).op),
    "AssignSubVariable": updated(lambda tg, v, x: v.assign_sub(x).op),
    "AssignVariable": updated(lambda tg, v, x: v.assign(x).op),
    "Categorical": categorical,
    "Fused": fused,
    "Print": printed,
    "ProductSumAdd": products,
    "ProductSumBegin": products,
    "ProductSumEnd": products,
    "PyFunction": python,
    "RandomShuffle": shuffled,
    "RandomStandardNormal": drawn(lambda tg, shape: tg.random_normal(shape)),
    "RandomUniform": drawn(lambda tg, shape: tg.random_uniform(shape)),
    "RandomUniformInt": drawn(lambda tg, shape: tg.random_uniform(shape, maxval=9, dtype="int32")),
    "ReadVariable": updated(lambda tg, v, x: v.read_value()),
    "Recv": across_devices,
    "ScatterAdd": scattered("scatter_add"),
    "ScatterSub": scattered("scatter_sub"),
    "ScatterUpdate": scattered("scatter_update"),
    "SeriesAdd": series(lambda apply, rows: summed(apply, apply("SeriesAdd", rows, rows))),
    "SeriesConcat": series(lambda apply, rows: apply("SeriesConcat", rows, sizes(0), dtype=dtypes.float32)),
    "SeriesReadOrZeros": series(lambda apply, rows: apply("SeriesReadOrZeros", rows, np.int64(-1), sizes(10_000_000), dtype=dtypes.float32)),
    "SeriesSplit": series(lambda apply, rows: apply("SeriesSum", apply("SeriesSplit", apply("SeriesConcat", rows, sizes(0), dtype=dtypes.float32), rows), sizes(1), dtype=dtypes.float32)),
    "SeriesSpread": series(lambda apply, rows: summed(apply, apply("SeriesSpread", 1.0, rows))),
    "SeriesSum": series(summed),
    "SeriesSumSeries": nested(lambda apply, rows: summed(apply, apply("SeriesSumSeries", rows))),
    "StackPop": stack_of,
    "StackPush": stack_of,
    "TensorArrayConcat": array(lambda tg, ta, x: ta.concat()),
    "TensorArrayGather": array(lambda tg, ta, x: ta.gather(tg.range(0, 100, 2))),
    "TensorArrayGrad": gradient_writes,
    "TensorArrayRead": array(lambda tg, ta, x: ta.read(1), 2),
    "TensorArrayScatter": array(lambda tg, ta, x: tg.TensorArray("float32", 100).scatter(tg.range(100), x).stack()),
    "TensorArraySplit": array(
        lambda tg, ta, x: tg.TensorArray("float32", 100, infer_shape=False).split(x, np.ones(100, np.int32)).concat()
    ),
    "TensorArrayStack": array(lambda tg, ta, x: ta.stack()),
    "TensorArrayUnstack": array(lambda tg, ta, x: ta.size()),
    "TensorArrayWrite": array(lambda tg, ta, x: tg.TensorArray("float32", 1).write(0, x).size(), 2),
    "TruncatedNormal": drawn(lambda tg, shape: tg.truncated_normal(shape)),
}

# Other ways through the same operations: other dtypes, strides, no C kernel for it.
VARIANTS: dict[str, Build] = {
    "Add int64": lambda n: call("Add", numbers(n, dtype=np.int64), numbers(n, dtype=np.int64)),
    "Add rows and columns": lambda n: call("Add", floats(ROW), floats(n // ROW, 1)),
    "Add strided": lambda n: call("Add", floats(2 * n)[::2], floats(n)),
    "Add bfloat16": lambda n: call("Add", *[floats(n).astype(__import__("ml_dtypes").bfloat16)] * 2),
    "Exp float16": lambda n: call("Exp", floats(n, dtype=np.float16)),
    "Pow": lambda n: call("Pow", floats(n), floats(n)),
    "Pow int64": lambda n: call("Pow", numbers(n, dtype=np.int64), numbers(n, dtype=np.int64)),
    "Sum float16": lambda n: call("Sum", rows(n, np.float16), axis=(1,)),
    "Sum columns": lambda n: call("Sum", rows(n), axis=(0,)),
    "MatMul int32": lambda n: call("MatMul", numbers(n // 10000, 100), numbers(100, n // 10000)),
    "MatMul of one": lambda n: call("MatMul", floats(1, n), floats(n, 1)),
    "Transpose of three": lambda n: call("Transpose", floats(100, n // 10000, 100), perm=(2, 0, 1)),
    "Cumsum reverse": lambda n: call("Cumsum", rows(n), axis=1, reverse=True),
    "Cumsum float16": lambda n: call("Cumsum", rows(n, np.float16), axis=1),
    "Softmax of columns": lambda n: call("Softmax", rows(n), axis=0),
    "Softmax float16": lambda n: call("Softmax", rows(n, np.float16)),
    "Cast to float64": lambda n: call("Cast", floats(n), dtype="float64"),
    "Cast to float16": lambda n: call("Cast", floats(n), dtype="float16"),
    "Cast to bool": lambda n: call("Cast", floats(n), dtype="bool"),
    "Gather elements": lambda n: call("Gather", floats(n), numbers(n, below=n)),
    "Gather columns": lambda n: call("Gather", rows(n), numbers(ROW, below=ROW), axis=1),
    "GatherNd elements": lambda n: call("GatherNd", floats(n), numbers(n, 1, below=n)),
    "ScatterNd elements": lambda n: call("ScatterNd", numbers(n, 1, below=n), floats(n), sizes(n)),
    "BooleanMask rows": lambda n: call("BooleanMask", rows(n), flags(n // ROW)),
    "Concat columns": lambda n: call("Concat", [rows(n // 2), rows(n // 2)], axis=1),
    "OneHot from front": lambda n: call("OneHot", numbers(n // ROW, below=ROW), np.int32(ROW), np.float32(1), np.float32(0), axis=0),
    "Tile elements": lambda n: call("Tile", floats(ROW, 1), sizes(1, n // ROW)),
    "BroadcastTo columns": lambda n: call("BroadcastTo", floats(n // ROW, 1), sizes(n // ROW, ROW)),
    "Equal of strings": lambda n: call("Equal", *[np.resize(np.array(["a", "some longer text", "b"], "T"), n)] * 2),
    "Where broadcast": lambda n: call("Where", flags(n // ROW, 1), rows(n), np.float32(0)),
    "Adam": lambda n: adam(n),
    "gradients of Softmax": lambda n: softmax_gradient(n),
    "fetch of a feed": lambda n: fetched_feed(n),
    "fetch of a variable": updated(lambda tg, v, x: v),
    "initializer": lambda n: initializer(n),
}


def adam(n: int) -> Program:
    import tagflow as tg
    from tagflow.training import AdamOptimizer

    v = tg.Variable(tg.ones([n]))
    train = AdamOptimizer(0.1).minimize(tg.reduce_sum(v * v))
    return Program(train, prepare=tg.global_variables_initializer())


def softmax_gradient(n: int) -> Program:
    import tagflow as tg

    x = tg.placeholder("float32", [None, ROW])
    return Program(tg.gradients(tg.reduce_sum(tg.square(tg.softmax(x))), [x]), {x: rows(n)})


def fetched_feed(n: int) -> Program:
    import tagflow as tg

    x = tg.placeholder("float32")
    return Program(tg.identity(x), {x: floats(n)})


def initializer(n: int) -> Program:
    import tagflow as tg

    v = tg.Variable(tg.random_normal([n]))
    return Program(v.initializer)


_MOVES = "hands its input on as it is"
_HANDLE = "makes or closes a handle"
WITHOUT: dict[str, str] = {
    **dict.fromkeys(("Switch", "SwitchN", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "Send"), _MOVES),
    **dict.fromkeys(("SeriesPush", "SeriesRead", "SeriesExit", "SeriesReadSeries", "MaybeGet"), _MOVES),
    **dict.fromkeys(("Const", "Param", "Feed", "Placeholder"), "has a value that is there already"),
    **dict.fromkeys(("Cond", "While"), "becomes primitives"),
    **dict.fromkeys(("NoOp", "ControlTrigger", "TripCount", "Instance", "PartialEnd", "SeriesEmpty"), "has no arrays"),
    **dict.fromkeys(("VariableHandle", "IsInitialized", "StackNew", "StackClose"), _HANDLE),
    **dict.fromkeys(("TensorArrayNew", "TensorArrayClose", "TensorArraySize"), _HANDLE),
    **dict.fromkeys(("TensorArrayReadBlock", "TensorArrayRowOf"), "gives views"),
    **dict.fromkeys(("ToHost", "ToDevice", "IntoDevice"), "copies from or to a GPU, on a stream of it"),
    **dict.fromkeys(("PartialFeed", "PartialFetch", "Watch"), "is part of what a session does, which has other names"),
}
