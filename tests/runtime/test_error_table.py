"""Every error class on bad input: it names the operation, the user's line and something to try; the session goes on.

Each case builds a program in the graph at hand, and returns what to run (fetches and feeds) unless building it
fails already. The line that the error must name ends in ``# here``.
"""

import linecache

import numpy as np
import pytest
import tagloom as tg
from tagloom.base import errors

LATER = {"CheckpointError"}  # tests/training/checkpoints
ELSEWHERE = {"SessionClosed", "StepTimeout", "Overloaded", "DeviceMemoryError", "SwapError"}
CASES = []


def case(error, operation, match, cause=None, rules=()):
    """Register a case: the class it raises, the operation it names, a text it contains, the class of its cause."""
    marks = [pytest.mark.rule(*rules)] if rules else []

    def register(function):
        CASES.append(pytest.param(function, error, operation, match, cause, id=function.__name__, marks=marks))
        return function

    return register


@pytest.mark.parametrize(("build", "error", "operation", "match", "cause"), CASES)
async def test_an_error_says_what_where_and_what_to_try(graph, executor, build, error, operation, match, cause):
    async with tg.Session(graph, executor=executor) as session:
        with pytest.raises(tg.TagloomError, match=match) as caught:
            await run(session, build)
        check(caught.value, error, operation, cause)
        assert session.statistics().steps_running == 0
        assert await session.run(tg.constant(20.0) + 1.0) == 21.0


async def run(session, build):
    fetches, *feeds = build()
    return await session.run(fetches, *feeds)


def check(error, kind, operation, cause):
    assert type(error) is kind
    assert error.source.file == __file__, error.source
    assert linecache.getline(__file__, error.source.line).rstrip().endswith("# here"), error.source
    assert f"{__file__}:{error.source.line}" in str(error)
    assert error.hint
    assert f"try: {error.hint}" in str(error)
    assert operation in str(error)
    if isinstance(error, tg.OpError):
        assert f"operation: {error.operation.name} ({error.operation.type})" in str(error)
    if isinstance(error, tg.OpError) and kind is not tg.DeadFetchError:
        assert error.operation.name == operation
        assert error.tag.startswith(f"{operation}@root/0")
        assert error.input_shapes is not None
    assert cause is None or isinstance(error.__cause__, cause)


def test_every_error_class_is_in_the_table():
    raised = {parameters.values[1].__name__ for parameters in CASES} | ELSEWHERE
    known = {n for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, errors.TagloomError)}
    assert raised == known - LATER - {"TagloomError"}


# ---- while the graph is built


@case(tg.BranchMismatchError, "choose", "structure", rules=[68])
def branches_of_different_structure():
    x = tg.constant(1.0)
    tg.cond(x > 0.0, lambda: [x, x], lambda: [x], name="choose")  # here


@case(tg.BranchMismatchError, "choose", "dtype", rules=[68])
def branches_of_different_dtype():
    x = tg.constant(1.0)
    tg.cond(x > 0.0, lambda: x * 2.0, lambda: tg.cast(x, "int32"), name="choose")  # here


@case(tg.LoopVariableError, "Cast", r"variable \[0\] changes its dtype")
def a_loop_variable_changes_its_dtype():
    tg.while_loop(lambda i: i < 3, lambda i: tg.cast(i, "float32"), [tg.constant(0)])  # here


@case(tg.LoopVariableError, "Concat", r"variable \[0\] changes its shape")
def a_loop_variable_changes_its_shape():
    start = [tg.zeros([2])]
    tg.while_loop(lambda a: tg.reduce_sum(a) < 3.0, lambda a: tg.concat([a, a], 0), start)  # here


@case(tg.VectorizationError, "Assign", "cannot contain")
def a_vectorized_function_writes_to_a_variable():
    total = tg.Variable(0.0)
    tg.vectorized_map(lambda x: total.assign(x), tg.zeros([2]))  # here


@case(tg.DtypeError, "Add", "cast")
def mixed_dtypes():
    tg.constant(1.0) + tg.constant(1)  # here


@case(tg.ShapeError, "product", "(?i)shape|dimension")
def shapes_that_do_not_multiply():
    tg.matmul(tg.zeros([2, 3]), tg.zeros([2, 3]), name="product")  # here


@case(tg.GraphError, "leaked", "outside the true branch", rules=[63])
def a_tensor_of_a_branch_used_outside():
    leaked = []
    tg.cond(tg.constant(True), lambda: leaked.append(tg.constant(1.0, name="leaked")) or leaked[0], lambda: 2.0)
    tg.identity(leaked[0])  # here


@case(tg.GraphError, "leaked", "outside the loop body", rules=[63])
def a_tensor_of_a_loop_used_outside():
    leaked = []
    tg.while_loop(lambda i: i < 3, lambda i: leaked.append(tg.add(i, 1, name="leaked")) or leaked[0], [0])
    tg.identity(leaked[0])  # here


@case(tg.GraphError, "x", "truth value")
def a_tensor_asked_for_its_truth():
    x = tg.placeholder("bool", [], name="x")  # here
    assert x


@case(tg.GraphError, "leave", "hand-made")
def a_gradient_through_a_hand_made_loop():
    x = tg.constant(1.0)
    start = tg.enter(x, "hand", name="start")
    merged = tg.merge([start, start])[0]
    back = tg.next_iteration(merged * 2.0, name="back")
    merged.op.update_input(1, back)
    left = tg.exit(merged, name="leave")  # here
    tg.gradients(left, [x])


# ---- while a step is compiled


@case(tg.GraphError, "inner", "may not be fetched", rules=[62])
def a_fetch_inside_a_loop():
    inner = []

    def body(i):
        inner.append(tg.add(i, 1, name="inner"))  # here
        return inner[0]

    tg.while_loop(lambda i: i < 3, body, [0])
    return inner


@case(tg.GraphError, "inner", "may not be fed", rules=[61])
def a_feed_inside_a_branch():
    inner = []

    def branch():
        inner.append(tg.constant(1.0, name="inner"))  # here
        return inner[0]

    return tg.cond(tg.constant(True), branch, lambda: 2.0), {inner[0]: 1.0}


@case(tg.GraphError, "w/handle", "may not be fetched")
def a_fetch_of_a_handle():
    w = tg.Variable(1.0, name="w")  # here
    return [w.handle]


@case(tg.GraphError, "x", "must feed a value")
def a_placeholder_that_is_not_fed():
    x = tg.placeholder("float32", [2], name="x")  # here
    return tg.cond(tg.constant(True), lambda: x, lambda: x + 1.0), {}


@case(tg.ShapeError, "x", r"wanted: \[\?,2\](.|\n)*got: \[3\]")
def a_feed_of_the_wrong_shape():
    x = tg.placeholder("float32", [None, 2], name="x")  # here
    return x, {x: np.zeros(3, np.float32)}


@case(tg.DtypeError, "x", r"wanted: float32(.|\n)*got: complex64")
def a_feed_of_the_wrong_dtype():
    x = tg.placeholder("float32", [None], name="x")  # here
    return x, {x: np.zeros(3, np.complex64)}


@case(tg.GraphError, "x", "fed twice")
def a_tensor_fed_twice():
    x = tg.placeholder("float32", [], name="x")  # here
    return x, {x: 1.0, "x:0": 2.0}


@case(tg.GraphError, "both", "frames", rules=[52])
def two_frames_in_one_operation():
    left, right = tg.enter(1.0, "left"), tg.enter(1.0, "right")
    both = tg.add(left, right, name="both")  # here
    return [tg.exit(both)]


@case(tg.GraphError, "turn", "cycle", rules=[55])
def a_cycle_without_next_iteration():
    first = tg.identity(tg.constant(1.0), name="turn")  # here
    first.op.update_input(0, first + 1.0)
    return [first]


# ---- while a step runs


@case(
    tg.DeadFetchError,
    "doubled",
    r"Switch sorted, whose predicate was False, built at .*test_error_table.py:\d+",
    rules=[20],
)
def a_dead_fetch():
    x = tg.placeholder("float32", [], name="x")
    _, positive = tg.switch(x, x > 0.0, name="sorted")
    doubled = tg.multiply(positive, 2.0, name="doubled")  # here
    return [doubled], {x: -1.0}


@case(tg.TensorArrayError, "second", "written", rules=[105])
def a_double_write():
    array = tg.TensorArray("float32", 2, name="array").write(0, 1.0)
    array = array.write(0, 2.0, name="second")  # here
    return [array.stack()]


@case(tg.TensorArrayError, "early", "never written|not written|written")
def a_read_of_what_was_never_written():
    array = tg.TensorArray("float32", 2, name="array")
    return [array.read(1, name="early")]  # here


@case(tg.TensorArrayError, "far", "outside|range|index", rules=[106])
def a_write_beyond_the_end():
    array = tg.TensorArray("float32", 2, name="array")
    return [array.write(7, 1.0, name="far").stack()]  # here


@case(tg.QueueClosed, "take", "is closed and has insufficient elements", rules=[128])
def a_take_from_a_queue_that_is_closed():
    queue = tg.FIFOQueue(1, "float32", shapes=[[]])
    with tg.control_dependencies([queue.close()]):
        return [queue.dequeue(name="take")]  # here


@case(tg.StackError, "pop", "is empty", rules=[103])
def a_pop_of_an_empty_stack():
    return [tg.stack_pop(tg.stack(elem_type="float32"), name="pop")]  # here


@case(tg.StackError, "push", "max_size", rules=[103])
def a_push_to_a_full_stack():
    handle = tg.stack(elem_type="float32", max_size=0)
    return [tg.stack_push(handle, 1.0, name="push")]  # here


@case(tg.StackError, "pop", "closed")
def a_pop_after_closing():
    handle = tg.stack(elem_type="float32")
    with tg.control_dependencies([tg.stack_close(handle)]):
        return [tg.stack_pop(handle, name="pop")]  # here


@case(tg.UninitializedVariableError, "w", "before it was initialized", rules=[22])
def a_variable_read_before_it_was_assigned():
    w = tg.Variable(1.0, name="w")  # here
    return [w + 1.0]


@case(tg.OpError, "fine", "loss(.|\n)*NaN", FloatingPointError)
def a_nan_under_check_numerics():
    x = tg.placeholder("float32", [2], name="x")
    return [tg.check_numerics(tg.log(x), "loss", name="fine")], {x: [1.0, -1.0]}  # here


@case(tg.OpError, "call", "ZeroDivisionError", ZeroDivisionError)
def a_kernel_that_raises():
    return [tg.py_function(lambda: 1 // 0, [], "int32", name="call")]  # here


@case(tg.OpError, "call", "KeyError", KeyError)
def an_asynchronous_kernel_that_raises_in_a_loop():
    async def look(i):
        return {}[int(i)]

    def body(i):
        return tg.py_function(look, [i], "int32", output_shapes=[], name="call")  # here

    return [tg.while_loop(lambda i: i < 3, body, [0])]


@case(tg.PipelineError, "numbers/next", "another dtype", tg.DtypeError)
def an_element_of_a_pipeline_that_does_not_fit():
    data = tg.data.from_iterable(["one"], output=tg.TensorSpec([], "int32"))
    return [data.next(name="numbers")]  # here


@case(tg.OpError, "call", "Tout")
def a_function_that_returns_another_dtype():
    return [tg.py_function(lambda: np.zeros(1), [], "float32", name="call")]  # here


@case(tg.OpError, "sure", "not positive")
def an_assertion():
    x = tg.placeholder("float32", [], name="x")
    with tg.control_dependencies([tg.Assert(x > 0.0, ["not positive", x], name="sure")]):  # here
        return [tg.identity(x)], {x: -1.0}


@case(tg.OpError, "sum", r"input shapes: \[\(2,\), \(3,\)\]")
def shapes_that_differ_only_when_it_runs():
    x, y = (tg.placeholder("float32", [None]) for _ in range(2))
    return [tg.add(x, y, name="sum")], {x: [1, 2], y: [1, 2, 3]}  # here


@case(tg.OpError, "rows", "(?i)index|range|bounds")
def an_index_out_of_range():
    i = tg.placeholder("int32", [])
    return [tg.gather(tg.constant([1.0, 2.0]), i, name="rows")], {i: 5}  # here


@case(tg.OpError, "choose", "scalar")
def a_predicate_that_is_no_scalar():
    p = tg.placeholder("bool", None)
    return [tg.merge(tg.switch(1.0, p, name="choose"))[0]], {p: [True, False]}  # here


@case(tg.OpError, "set", "shape")
def an_assignment_of_another_shape():
    w = tg.Variable(tg.zeros([2]), name="w")
    x = tg.placeholder("float32", [None])
    return [w.assign(x, name="set")], {x: [1, 2, 3]}  # here


@case(tg.OpError, "power", "negative", ValueError)
def an_integer_power_that_numpy_refuses():
    x = tg.placeholder("int32", [None])
    return [tg.pow(tg.constant([2]), x, name="power")], {x: [-1]}  # here


# ---- the session itself


async def test_a_closed_session_names_the_line_that_used_it(graph, executor):
    value = tg.constant(1.0)
    async with tg.Session(graph, executor=executor) as session:
        step = session.make_step(value)
    for use in (lambda: session.run(value), step, session.read_variables):
        with pytest.raises(tg.SessionClosed, match="try: open a new one") as caught:
            await use()  # here
        assert linecache.getline(__file__, caught.value.source.line).rstrip().endswith("# here")


@pytest.mark.parametrize(
    ("fetches", "feeds", "match"),
    [
        (["nothing"], {}, "no such operation"),
        (["nothing:0"], {}, "no such operation"),
        (["x:7"], {}, "no such output"),
        ([None], {}, "not a tensor"),
        ([1.0], {}, "not a tensor"),
        ([], {"both": 1.0}, r"only tensors can be fed(.|\n)*feed one of its outputs, both:0, both:1"),
        ([], {"nothing_to_feed": 1.0}, "only tensors can be fed"),
        ([], {"x:0": "text"}, "wrong dtype"),
        ([], {"x:0": [[1.0], [2.0, 3.0]]}, "wrong dtype"),
        ([], {"x:0": object()}, "wrong dtype"),
        ([], {"x:0": None}, "wrong dtype"),
    ],
)
async def test_what_is_no_tensor_or_no_value(graph, fetches, feeds, match):
    x = tg.placeholder("float32", None, name="x")
    tg.identity_n([x, x], name="both")
    tg.no_op(name="nothing_to_feed")
    async with tg.Session(graph) as session:
        with pytest.raises(tg.GraphError, match=match):
            await session.run(fetches, feeds=feeds)
        assert session.statistics().steps_started == 0


async def test_another_graphs_tensor_is_refused(graph):
    with tg.Graph().as_default():
        stranger = tg.constant(1.0)
    async with tg.Session(graph) as session:
        with pytest.raises(tg.GraphError, match="another graph"):
            await session.run(stranger)
        with pytest.raises(tg.GraphError, match="another graph"):
            await session.run([], feeds={stranger: 1.0})


async def test_a_step_wants_all_its_feeds(graph):
    x = tg.placeholder("float32", [], name="x")
    async with tg.Session(graph) as session:
        step = session.make_step(x, [x])
        for values in ((), (1.0, 2.0)):
            with pytest.raises(tg.GraphError, match=r"wrong number(.|\n)*x:0"):
                await step(*values)


def test_there_are_two_executors(graph):
    with pytest.raises(tg.GraphError, match="machine or reference"):
        tg.Session(graph, executor="fast")


@pytest.mark.rule(20)
@pytest.mark.parametrize("value", [3.0, -3.0])
async def test_a_dead_fetch_beside_a_live_one(graph, executor, value):
    x = tg.placeholder("float32", [], name="x")
    negative, positive = tg.switch(x, x > 0.0)
    live, dead = (positive, negative) if value > 0 else (negative, positive)
    async with tg.Session(graph, executor=executor) as session:
        assert await session.run(live, feeds={x: value}) == value
        with pytest.raises(tg.DeadFetchError, match=f"predicate was {value > 0}") as caught:
            await session.run([live, dead], feeds={x: value})
        assert f"alive if {'~' if value > 0 else ''}*Greater:0;" in caught.value.got
        assert await session.run(tg.merge([negative, positive])[0], feeds={x: value}) == value


@pytest.mark.rule(20)
async def test_a_fetch_dead_by_a_control_edge_or_a_loop(graph, executor):
    x = tg.placeholder("float32", [], name="x")
    _, positive = tg.switch(x, x > 0.0, name="sorted")
    with tg.control_dependencies([tg.identity(positive)]):
        after = tg.constant(1.0, name="after") + tg.identity(x)
    _, looped = tg.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + 1.0), [0, positive])
    async with tg.Session(graph, executor=executor) as session:
        for fetch in (after, looped):
            with pytest.raises(tg.DeadFetchError, match="Switch sorted, whose predicate was False"):
                await session.run(fetch, feeds={x: -1.0})


def test_an_unfed_placeholder_is_the_users_own():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [], name="x")
        y = tg.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + x), [0, 1.0])[1]
    with tg.SyncSession(graph) as session:
        for fetch in (x, y):
            with pytest.raises(tg.GraphError, match="you must feed") as caught:
                session.run(fetch)
            assert caught.value.operation is x.op
