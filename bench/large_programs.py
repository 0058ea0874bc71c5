"""Programs that run one operation on many elements, where a call is not enough: state, series."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

ROW = 1000  # elements of a row, where there are rows


@dataclass
class Program:
    """A step that runs an operation on many elements.

    Attributes
    ----------
    fetches : structure of Tensor or Operation
    feeds : dict of Tensor to numpy.ndarray
    prepare : structure of Tensor or Operation
        What is run once before it.
    options : mapping
        Of its session.
    watched : bool
        Whether what is fetched is watched as well.
    """

    fetches: Any
    feeds: dict[Any, np.ndarray] = field(default_factory=dict)
    prepare: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    watched: bool = False


Build = Callable[[int], Program]


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Return numbers between 0.25 and 0.75, where every function is defined and none is slow by accident."""
    return np.tile(np.linspace(0.25, 0.75, 1000).astype(dtype), -(-prod(shape) // 1000))[: prod(shape)].reshape(shape)


def rows(n: int, dtype: Any = np.float32) -> np.ndarray:
    """Return such numbers in rows."""
    return floats(n // ROW, ROW, dtype=dtype)


def stacked(n: int, count: int = 10) -> list[np.ndarray]:
    """Return such numbers in several arrays."""
    return [floats(n // count) for _ in range(count)]


def numbers(*shape: int, below: int = 7, dtype: Any = np.int32) -> np.ndarray:
    """Return integers from 0 to less than `below`, in no simple order."""
    return (np.arange(prod(shape), dtype=np.int64) * 7919 % below).reshape(shape).astype(dtype)


def flags(*shape: int) -> np.ndarray:
    """Return bools, most of them true."""
    return numbers(*shape) > 0


def sizes(*values: int) -> np.ndarray:
    """Return a shape, or other integers in the host's memory."""
    return np.array(values, np.int32)


def fed(value: Any, feeds: dict[Any, np.ndarray]) -> Any:
    """Return a placeholder of unknown shape for an array, which is noted in `feeds`; for each of a list."""
    import tagloom as tg

    if isinstance(value, list):
        return [fed(each, feeds) for each in value]
    array = np.asarray(value)
    tensor = tg.placeholder(array.dtype)
    feeds[tensor] = array
    return tensor


def call(type: str, *inputs: Any, **attrs: Any) -> Program:
    """Return a program that runs one operation, all of whose inputs are fed."""
    from tagloom.ir.apply import apply

    feeds: dict[Any, np.ndarray] = {}
    made = apply(type, *[fed(each, feeds) for each in inputs], **attrs)
    op = made[0].op if isinstance(made, list) else made.op
    return Program(list(op.outputs), feeds)


def strings(n: int) -> np.ndarray:
    """Return texts, some of them longer than those that are kept in place."""
    return np.resize(np.array(["a", "a text that is rather long", "b"], "T"), n)


# ---- variables


def updated(update: Callable[[Any, Any, Any], Any]) -> Build:
    """Return what builds a large variable and an update of it with fed rows."""

    def program(n: int) -> Program:
        import tagloom as tg

        v, x = tg.Variable(tg.zeros([n // ROW, ROW])), tg.placeholder("float32")
        return Program(update(tg, v, x), {x: rows(n)}, prepare=v.initializer)

    return program


def scattered(name: str) -> Build:
    """Return what builds an update of all rows by their numbers."""
    return updated(lambda tg, v, x: getattr(v, name)(tg.range(tg.shape(x)[0]), x).op)


def scattered_blocks(name: str) -> Build:
    """Return what builds an update of all rows by index vectors."""
    return updated(lambda tg, v, x: getattr(v, name)(tg.range(tg.shape(x)[0])[:, None], x).op)


def initializer(n: int) -> Program:
    """Return the initializer of random weights."""
    import tagloom as tg

    return Program(tg.Variable(tg.random_normal([n])).initializer)


def adam(n: int) -> Program:
    """Return a step of an optimizer."""
    import tagloom as tg
    from tagloom.training import AdamOptimizer

    v = tg.Variable(tg.ones([n]))
    train = AdamOptimizer(0.1).minimize(tg.reduce_sum(v * v))
    return Program(train, prepare=tg.global_variables_initializer())


# ---- arrays of values, and what loops save


def array(use: Callable[[Any, Any, Any], Any], count: int = 100) -> Build:
    """Return what builds a TensorArray of `count` rows, all written, and uses it."""

    def program(n: int) -> Program:
        import tagloom as tg

        x = tg.placeholder("float32", [count, n // count])
        ta = tg.TensorArray("float32", count).unstack(x)
        return Program(use(tg, ta, x), {x: floats(count, n // count)})

    return program


def split(tg: Any, ta: Any, x: Any) -> Any:
    """Return what is written in pieces and joined again."""
    return tg.TensorArray("float32", 100, infer_shape=False).split(x, np.ones(100, np.int32)).concat()


def gradient_writes(n: int) -> Program:
    """Return the gradient of an array whose elements are used twice, so that its gradient array adds up."""
    import tagloom as tg

    x = tg.placeholder("float32", [10, n // 10])
    ta = tg.TensorArray("float32", 10, clear_after_read=False).unstack(x)
    y = tg.reduce_sum(ta.stack()) + tg.reduce_sum(ta.stack() * 2.0)
    return Program(tg.gradients(y, [x]), {x: floats(10, n // 10)})


def on_stack(n: int) -> Program:
    """Return what is pushed and popped again."""
    import tagloom as tg

    x, handle = tg.placeholder("float32"), tg.stack(elem_type="float32")
    pushed = tg.stack_push(handle, x)
    with tg.control_dependencies([pushed]):
        return Program(tg.stack_pop(handle), {x: floats(n)})


def tabled(use: Callable[[Any, Any], Any]) -> Build:
    """Return what builds a table of many numbers, filled once, and a use of it."""

    def program(n: int) -> Program:
        import tagloom as tg

        table = tg.MutableHashTable("int64", "float32", 0.0)
        keys = np.arange(n // 10)
        x = tg.placeholder("int64", [None])
        return Program(use(table, x), {x: keys}, prepare=table.insert(keys, floats(n // 10)))

    return program


def through_queue(many: bool) -> Build:
    """Return what builds a queue, and what goes in and comes out: one array, or its rows."""

    def program(n: int) -> Program:
        import tagloom as tg

        feeds: dict[Any, np.ndarray] = {}
        x = fed(floats(100, n // 100), feeds)
        queue = tg.FIFOQueue(1000, "float32", shapes=[[n // 100] if many else [100, n // 100]])
        with tg.control_dependencies([queue.enqueue_many(x) if many else queue.enqueue(x)]):
            return Program(queue.dequeue_many(100) if many else queue.dequeue(), feeds)

    return program


def accumulated(n: int) -> Program:
    """Return the mean of what is put into an accumulator."""
    import tagloom as tg

    feeds: dict[Any, np.ndarray] = {}
    x = fed(floats(100, n // 100), feeds)
    accumulator = tg.ConditionalAccumulator("float32")
    with tg.control_dependencies([accumulator.apply_grad(x, local_step=1 << 40)]):  # however often it is run
        return Program(accumulator.take_grad(1), feeds)


def accumulated_rows(n: int) -> Program:
    """Return the mean of rows that are put into an accumulator."""
    import tagloom as tg

    feeds: dict[Any, np.ndarray] = {}
    x = fed(floats(100, n // 100), feeds)
    accumulator = tg.SparseConditionalAccumulator("float32")
    with tg.control_dependencies([accumulator.apply_grad(np.arange(100), x, local_step=1 << 40)]):
        return Program(accumulator.take_grad(1), feeds)


def staged(n: int) -> Program:
    """Return what goes through a staging area, looked at in between."""
    import tagloom as tg

    feeds: dict[Any, np.ndarray] = {}
    area = tg.compat.tf1.StagingArea("float32")
    with tg.control_dependencies([area.put(fed(floats(n), feeds))]):
        seen = area.peek()[0]
    with tg.control_dependencies([seen]):
        return Program([seen, area.get()], feeds)


def staged_by_key(n: int) -> Program:
    """Return what goes through a map staging area, looked at in between."""
    import tagloom as tg

    feeds: dict[Any, np.ndarray] = {}
    area = tg.compat.tf1.MapStagingArea("float32")
    with tg.control_dependencies([area.put(1, fed(floats(n), feeds))]):
        seen = area.peek(1)[0]
    with tg.control_dependencies([seen]):
        return Program([seen, area.get(1)], feeds)


def through_barrier(n: int) -> Program:
    """Return what is put together by keys."""
    import tagloom as tg

    feeds: dict[Any, np.ndarray] = {}
    barrier = tg.compat.tf1.Barrier("float32")
    keys = [str(i) for i in range(100)]
    with tg.control_dependencies([barrier.insert_many(0, keys, fed(floats(100, n // 100), feeds))]):
        return Program(barrier.take_many(100), feeds)


def series(use: Callable[[Any, Any, int], Any], count: int = 100) -> Build:
    """Return what builds a series of `count` rows and uses it; what makes one is an operation made for this."""

    def program(n: int) -> Program:
        from tagloom.ir.apply import apply

        feeds: dict[Any, np.ndarray] = {}
        made = apply(_series_maker(), fed(floats(count, n // count), feeds))
        return Program(use(apply, made, n), feeds)

    return program


def _series_maker() -> str:
    from tagloom.base.shapes import SCALAR
    from tagloom.ir.definition import NotDifferentiable, all_definitions, define
    from tagloom.ir.traits import Role
    from tagloom.kernels.scheduler.series import Series

    def kernel(xp: Any, value: Any) -> Any:
        made = Series()
        for index, row in enumerate(value):
            made.put(index, row)
        return made

    if not any(each.type == "BenchSeries" for each in all_definitions()):
        define(
            "BenchSeries",
            "rows: T -> series: series",
            shape=lambda op: SCALAR,
            role=Role.SERIES,
            kernel=kernel,
            gradient=NotDifferentiable("it is made for a bench"),
        )
    return "BenchSeries"


def summed(apply: Any, rows: Any, n: int) -> Any:
    """Return the sum of a series' slots, a tensor that can be fetched."""
    from tagloom.base.dtypes import float32

    return apply("SeriesSum", rows, sizes(1), dtype=float32)


def joined(apply: Any, rows: Any, n: int) -> Any:
    """Return a series' slots joined."""
    from tagloom.base.dtypes import float32

    return apply("SeriesConcat", rows, sizes(0), dtype=float32)


def unwritten(apply: Any, rows: Any, n: int) -> Any:
    """Return zeros in place of a slot that was never written."""
    from tagloom.base.dtypes import float32

    return apply("SeriesReadOrZeros", rows, np.int64(-1), sizes(n), dtype=float32)


def nested(apply: Any, rows: Any, n: int) -> Any:
    """Return the sum of a series of series."""
    return summed(apply, apply("SeriesSumSeries", apply("SeriesSpread", rows, rows)), n)


# ---- other programs


def fused(n: int) -> Program:
    """Return a chain of operations that become one."""
    import tagloom as tg

    x = tg.placeholder("float32", [n])
    return Program(tg.tanh(x * 2.0 + 1.0) * x, {x: floats(n)})


def products(n: int) -> Program:
    """Return a sum of products, as the gradients of a loop's weights are, of as many elements."""
    from tagloom.ir.apply import apply

    feeds: dict[Any, np.ndarray] = {}
    side = int(n**0.5)
    total = apply("ProductSumBegin", fed(np.zeros((side, side), np.float32), feeds))
    a, b = (fed(floats(100, side), feeds) for _ in range(2))
    for _ in range(2):
        total = apply("ProductSumAdd", total, a, b)
    return Program(apply("ProductSumEnd", total, dtype="float32", shape=[side, side]), feeds)


def gradients_of_softmax(n: int) -> Program:
    """Return the gradient of a function of a softmax."""
    import tagloom as tg

    x = tg.placeholder("float32", [None, ROW])
    return Program(tg.gradients(tg.reduce_sum(tg.square(tg.softmax(x))), [x]), {x: rows(n)})


def of_placeholder(use: Callable[[Any, Any], Any], **options: Any) -> Build:
    """Return what builds something from a fed vector."""

    def program(n: int) -> Program:
        import tagloom as tg

        x = tg.placeholder("float32", [None])
        return Program(use(tg, x), {x: floats(n)}, options=options)

    return program


@cache
def directory() -> Path:
    """Return a directory for files, which goes with the process."""
    made = Path(tempfile.mkdtemp(prefix="bench-tensors-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def in_file(restores: bool) -> Build:
    """Return what builds the saving of a vector, or the restoring of one that was saved."""

    def program(n: int) -> Program:
        import tagloom as tg

        path, whole = str(directory() / f"{n}"), [""]
        save = tg.save_v2(path, ["x"], whole, [tg.constant(floats(n))])
        return Program(tg.restore_v2(path, ["x"], whole, ["float32"]), prepare=save) if restores else Program(save)

    return program


def whole_file(use: Callable[[Any, str], Any]) -> Build:
    """Return what builds a program about a file of `n` numbers, which is written before."""

    def program(n: int) -> Program:
        import tagloom as tg

        path = str(directory() / f"{n} bytes")
        prepare = tg.write_file(path, tg.constant(floats(n).view(np.uint8)))
        return Program(use(tg, path), prepare=prepare)

    return program


def written_again(tg: Any, path: str) -> Any:
    """Return what writes a file's content to another."""
    return tg.write_file(path + " again", tg.read_file(path))


def by_reader(tg: Any, path: str) -> Any:
    """Return a file's content from a reader."""
    files = tg.FIFOQueue(1, "string", shapes=[[]])
    with tg.control_dependencies([files.enqueue(path)]):
        return tg.compat.tf1.WholeFileReader().read(files)[1]


def from_pipeline(n: int) -> Program:
    """Return the elements of a pipeline."""
    import tagloom as tg

    return Program(tg.data.from_arrays(floats(1, n)).repeat().next())


def across_devices(tg: Any, x: Any) -> Any:
    """Return what is computed on one device and used on another."""
    with tg.device("/cpu:0"):
        y = tg.tanh(x)
    with tg.device("/cpu:1"):
        return tg.reduce_max(y)


def watched(n: int) -> Program:
    """Return what is watched while it is computed."""
    program = of_placeholder(lambda tg, x: tg.exp(x))(n)
    program.watched = True
    return program


PROGRAMS: dict[str, Build] = {
    "TableExport": tabled(lambda table, x: table.export()),
    "TableFind": tabled(lambda table, x: table.lookup(x)),
    "TableInsert": tabled(lambda table, x: table.insert(x, table.lookup(x))),
    "TableRemove": tabled(lambda table, x: table.remove(x)),
    "Assert": of_placeholder(lambda tg, x: tg.assert_less(x, 1.0)),
    "AssignAddVariable": updated(lambda tg, v, x: v.assign_add(x).op),
    "AssignAddVariable: fetched": updated(lambda tg, v, x: v.assign_add(x)),
    "AssignSubVariable": updated(lambda tg, v, x: v.assign_sub(x).op),
    "AssignVariable": updated(lambda tg, v, x: v.assign(x).op),
    "AssignVariable: Adam": adam,
    "AssignVariable: initializer": initializer,
    "Exp: under check_numerics": of_placeholder(lambda tg, x: tg.exp(x), check_numerics=True),
    "Exp: in the reference executor": of_placeholder(lambda tg, x: tg.exp(x), executor="reference"),
    "Exp: under a limit of memory": of_placeholder(lambda tg, x: tg.exp(x), memory_limit="4GiB"),
    "Erf: under a limit of memory": of_placeholder(lambda tg, x: tg.erf(x), memory_limit="4GiB"),
    "Fused": fused,
    "GetSessionHandle": of_placeholder(lambda tg, x: tg.get_session_handle(tg.exp(x))),
    "Print": of_placeholder(lambda tg, x: tg.reduce_max(tg.print_(x, [x], "of many:"))),
    "ProductSumAdd": products,
    "ProductSumBegin": products,
    "ProductSumEnd": products,
    "PyFunction": of_placeholder(lambda tg, x: tg.py_function(np.sin, [x], "float32", blocking=True)),
    "ReadVariable": updated(lambda tg, v, x: v.read_value()),
    "Recv": of_placeholder(across_devices, devices=2),
    "IteratorGetNext": from_pipeline,
    "ReadFile": whole_file(lambda tg, path: tg.read_file(path)),
    "ReaderRead": whole_file(by_reader),
    "WriteFile": whole_file(written_again),
    "RestoreV2": in_file(restores=True),
    "SaveV2": in_file(restores=False),
    "ScatterAdd": scattered("scatter_add"),
    "ScatterDiv": scattered("scatter_div"),
    "ScatterMax": scattered("scatter_max"),
    "ScatterMin": scattered("scatter_min"),
    "ScatterMul": scattered("scatter_mul"),
    "ScatterNdAdd": scattered_blocks("scatter_nd_add"),
    "ScatterNdSub": scattered_blocks("scatter_nd_sub"),
    "ScatterNdUpdate": scattered_blocks("scatter_nd_update"),
    "ScatterSub": scattered("scatter_sub"),
    "ScatterUpdate": scattered("scatter_update"),
    "SeriesAdd": series(lambda apply, rows, n: summed(apply, apply("SeriesAdd", rows, rows), n)),
    "SeriesConcat": series(joined),
    "SeriesReadOrZeros": series(unwritten),
    "SeriesSplit": series(lambda apply, rows, n: summed(apply, apply("SeriesSplit", joined(apply, rows, n), rows), n)),
    "SeriesSpread": series(lambda apply, rows, n: summed(apply, apply("SeriesSpread", 1.0, rows), n)),
    "SeriesSum": series(summed),
    "SeriesSumSeries": series(nested, 10),
    "Softmax: gradients": gradients_of_softmax,
    "StackPop": on_stack,
    "StackPush": on_stack,
    "Enqueue": through_queue(many=False),
    "EnqueueMany": through_queue(many=True),
    "Dequeue": through_queue(many=False),
    "DequeueMany": through_queue(many=True),
    "AccumulatorApplyGradient": accumulated,
    "AccumulatorTakeGradient": accumulated,
    "AccumulatorApplyRows": accumulated_rows,
    "AccumulatorTakeRows": accumulated_rows,
    "StagePeek": staged,
    "MapStagePut": staged_by_key,
    "MapStageGet": staged_by_key,
    "MapStagePeek": staged_by_key,
    "BarrierInsertMany": through_barrier,
    "BarrierTakeMany": through_barrier,
    "TensorArrayConcat": array(lambda tg, ta, x: ta.concat()),
    "TensorArrayGather": array(lambda tg, ta, x: ta.gather(tg.range(0, 100, 2))),
    "TensorArrayGrad": gradient_writes,
    "TensorArrayRead": array(lambda tg, ta, x: ta.read(1), 2),
    "TensorArrayScatter": array(lambda tg, ta, x: tg.TensorArray("float32", 100).scatter(tg.range(100), x).stack()),
    "TensorArraySplit": array(split),
    "TensorArrayStack": array(lambda tg, ta, x: ta.stack()),
    "TensorArrayUnstack": array(lambda tg, ta, x: ta.size()),
    "TensorArrayWrite": array(lambda tg, ta, x: tg.TensorArray("float32", 1).write(0, x).size(), 2),
    "Watch": watched,
}
