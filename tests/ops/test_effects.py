import asyncio

import numpy as np
import pytest
from tagloom.base.errors import GraphError, OpError
from tagloom.frontend.functions.py_function import py_function
from tagloom.frontend.state.variables import Variable
from tagloom.ir import scopes
from tagloom.ir.apply import constant
from tagloom.ir.region import Region
from tagloom.ops.control.assertions import assert_equal, assert_less
from tagloom.ops.control.effects import Assert, group, print_, tuple_
from tagloom.ops.math import arithmetic, comparison  # noqa: F401

from tests.ops.instances import Walk, cotangents

pytestmark = pytest.mark.usefixtures("graph")


def test_group_waits_for_everything_in_any_structure():
    w, x = Variable(1.0), constant(2.0)
    op = group(x, [w.initializer, {"w": w}], w.handle.op)
    assert op.control_inputs == [x.op, w.initializer, w.op, w.handle.op]
    assert op.outputs == []


def test_group_refuses_what_is_out_of_scope(graph):
    with scopes.inside(Region(graph, graph.root, "body")):
        inner = constant(1.0)
    with pytest.raises(GraphError, match="outside the body"):
        group(inner)


def test_tuple_keeps_structure_and_waits_for_all():
    a, b, c = constant(1.0), constant(2), constant(3)
    result = tuple_({"a": a, "b": (b,)}, [c])
    assert result["b"][0].op.control_inputs == [a.op, b.op, c.op]
    assert [Walk().run(t) for t in (result["a"], result["b"][0])] == [1, 2]


def test_print_passes_through_and_writes_to_standard_error(capsys):
    x = constant([1.0, 2.0])
    out = print_(x, [x, constant(np.arange(9))], "here: ", summarize=4)
    np.testing.assert_array_equal(Walk().run(out), [1, 2])
    captured = capsys.readouterr()
    assert (captured.err, captured.out) == ("here: [1.0 2.0][0 1 2 3...]\n", "")
    g = constant([5.0, 5.0])
    assert cotangents(out.op, g) == [g, None, None]


def test_assert_says_what_failed_and_shows_the_data():
    Walk().run(Assert(constant([True, True])))
    with pytest.raises(OpError, match=r"assertion failed: sizes(.|\n)*got: \[1 2\] \[3\]"):
        Walk().run(Assert(constant([True, False]), [constant([1, 2]), constant(3)], message="sizes"))


def test_comparisons_assert():
    x = constant([1, 2], name="x")
    Walk().run(assert_equal(x, [1, 2]))
    Walk().run(assert_less(x, 3))
    with pytest.raises(OpError, match="lengths: x:0 == Const_2:0 does not hold"):
        Walk().run(assert_equal(x, [1, 3], message="lengths"))


def test_py_function_calls_and_converts():
    x = constant([1.0, 2.0])
    doubled = py_function(lambda a: a * 2, [x], "float32", output_shapes=[2])
    total, size = py_function(lambda a: (float(a.sum()), a.size), [x], ["float64", "int32"])
    assert (doubled.shape, total.shape.rank, total.dtype) == ([2], None, "float64")
    walk = Walk()
    np.testing.assert_array_equal(walk.run(doubled), [2, 4])
    assert (walk.run(total), walk.run(size), walk.run(size).dtype) == (3, 2, np.int32)


def test_py_function_for_its_effect_returns_the_operation():
    seen = []
    op = py_function(lambda a: seen.append(int(a)), [constant(4)], [], name="note")
    assert op.name == "note"
    Walk().run(op)
    assert seen == [4]


async def awaited(promised):
    return await promised


def test_an_async_function_gives_something_to_await():
    async def wait(a):
        await asyncio.sleep(0)
        return a + 1

    tensor = py_function(wait, [constant(1)], "int32")
    assert tensor.op.name == "wait"
    result = Walk().run(tensor.op)[0]
    assert asyncio.run(awaited(result)) == 2


def test_an_async_result_is_checked_too():
    async def wrong():
        return "text"

    result = Walk().run(py_function(wrong, [], "int32").op)[0]
    with pytest.raises(OpError, match="output 0"):
        asyncio.run(awaited(result))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.float64([1]), "another dtype(.|\n)*wanted: float32(.|\n)*got: float64"),
        (None, "another dtype(.|\n)*got: NoneType None"),
        ("text", "another dtype(.|\n)*got: str 'text'"),
        (np.float32([1, 2, 3]), r"another shape(.|\n)*wanted: \[2\](.|\n)*got: \[3\]"),
    ],
)
def test_a_wrong_result_is_refused_with_what_was_wanted(value, message):
    def compute():
        return value

    tensor = py_function(compute, [], "float32", output_shapes=[2])
    with pytest.raises(OpError, match=rf"py_function .*compute returned {message}"):
        Walk().run(tensor)


@pytest.mark.parametrize(("result", "got"), [((1.0, 2.0, 3.0), "tuple"), (1.0, "float 1.0"), (None, "NoneType")])
def test_a_wrong_number_of_results_is_refused(result, got):
    first, _ = py_function(lambda: result, [], ["float32", "float32"])
    with pytest.raises(OpError, match=rf"does not return what Tout says(.|\n)*wanted: 2 values(.|\n)*got: {got}"):
        Walk().run(first)


def test_one_dtype_takes_a_list_as_one_array():
    np.testing.assert_array_equal(Walk().run(py_function(lambda: [3.0], [], "float32")), [3])
    np.testing.assert_array_equal(Walk().run(py_function(lambda: [3.0], [], ["float32"])[0]), 3)


def test_inputs_are_read_only():
    def spoil(a):
        a[0] = 1

    with pytest.raises(ValueError, match="read-only"):
        Walk().run(py_function(spoil, [constant([1.0]) + 1.0], []))


def test_py_function_has_no_gradient():
    op = py_function(lambda: 1, [], "int32").op
    assert "custom_gradient" in op.definition.gradient.reason
