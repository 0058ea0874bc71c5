"""Scopes: control dependencies, devices, colocation, names."""

import asyncio
from contextlib import ExitStack
from itertools import count

import pytest
from tagloom.base.errors import GraphError
from tagloom.frontend.control.conditional import cond
from tagloom.frontend.control.loops import while_loop
from tagloom.frontend.control.scopes import colocate_with, control_dependencies, device, name_scope
from tagloom.frontend.state.tensor_array import TensorArray
from tagloom.frontend.state.variables import Variable
from tagloom.ir.apply import constant
from tagloom.ir.graph import Graph
from tagloom.ops.control.placeholders import identity, no_op, placeholder

from tests.ops.evaluation import declare_all
from tests.support.execute import Calls, execute

declare_all()


def names(operations):
    return [op.name for op in operations]


# ---- control_dependencies


def test_dependencies_add_up_and_none_clears_them():
    a, b = no_op("a"), constant(1, name="b")
    with control_dependencies([a]):
        with control_dependencies([b, a]):
            both = no_op()
            with control_dependencies(None):
                none = no_op()
                with control_dependencies([b]):
                    again = no_op()
        one = no_op()
    assert names(both.control_inputs) == ["a", "b"]
    assert none.control_inputs == []
    assert names(again.control_inputs) == ["b"]
    assert names(one.control_inputs) == ["a"]
    assert no_op().control_inputs == []


def test_everything_that_stands_for_an_operation_can_be_waited_for():
    v, array = Variable(1.0, name="v"), TensorArray("float32", 2)
    with control_dependencies([v, array, "v/initial_value", v.initializer]):
        op = no_op()
    assert op.control_inputs[0] is v.op
    assert op.control_inputs[1] is array.flow.op
    assert op.control_inputs[2].name == "v/initial_value"


@pytest.mark.parametrize("wrong", [3, "no/such/operation", [None]])
def test_what_is_no_operation_can_not_be_waited_for(wrong):
    with pytest.raises(GraphError), control_dependencies(wrong if isinstance(wrong, list) else [wrong]):
        no_op()


def test_an_operation_of_another_graph_can_not_be_waited_for():
    with Graph().as_default():
        other = no_op()
    with pytest.raises(GraphError, match="another graph"), control_dependencies([other]):
        no_op()


async def test_a_constant_waits_too():
    calls = Calls()
    with control_dependencies([calls.watch(1)]):
        c = constant(5)
        y = constant(2) + 3
    assert await execute([c, y]) == [5, 5]
    assert calls.count == 1


async def test_what_waits_runs_after_what_it_waits_for():
    first, second = Calls(), Calls()
    with control_dependencies([first.watch(1)]):
        y = second.watch(2)
    assert await execute([y]) == [2]
    assert (first.count, second.count) == (1, 1)


@pytest.mark.rule(63, 78)
def test_an_operation_of_an_inner_region_can_not_be_waited_for_outside():
    leaked, p = [], placeholder("bool", [])
    cond(p, lambda: leaked.append(no_op("inside")) or constant(1), lambda: constant(2), name="choose")
    outside = pytest.raises(GraphError, match="inside cannot be waited for outside the true branch")
    with outside as caught, control_dependencies(leaked):
        no_op()
    assert caught.value.wanted == "an operation of the graph or of a region around it"
    assert "true branch of choose" in caught.value.got
    assert caught.value.operation is leaked[0]


@pytest.mark.rule(63)
def test_an_operation_of_a_sibling_region_can_not_be_waited_for():
    leaked, p = [], placeholder("bool", [])

    def true():
        leaked.append(no_op("inside"))
        return constant(1)

    def false():
        with control_dependencies([leaked[0]]):
            return constant(2)

    with pytest.raises(GraphError, match="outside the true branch"):
        cond(p, true, false)


@pytest.mark.rule(76)
def test_dependencies_do_not_reach_into_regions():
    inside, first, p = [], no_op("first"), placeholder("bool", [])
    with control_dependencies([first]):
        y = cond(p, lambda: inside.append(no_op()) or constant(1), lambda: constant(2))
        z = while_loop(lambda i: i < 3, lambda i: inside.append(no_op()) or i + 1, [0])
    assert [op.control_inputs for op in inside] == [[], []]
    assert names(y.op.control_inputs) == names(z.op.control_inputs) == ["first"]


@pytest.mark.rule(76)
async def test_a_cond_and_a_loop_wait_for_what_is_around_them():
    for build in (
        lambda: cond(constant(True), lambda: constant(1), lambda: constant(2)),
        lambda: while_loop(lambda i: i < 1, lambda i: i + 1, [0]),
    ):
        calls = Calls()
        with control_dependencies([calls.watch(0)]):
            y = build()
        assert await execute([y]) == [1]
        assert calls.count == 1


# ---- device


def test_what_an_inner_scope_says_holds_and_none_clears():
    with device("/cpu:0"):
        with device("/cpu:1"):
            inner = no_op()
        with device(None):
            none = no_op()
            with device("/task:2"):
                again = no_op()
        outer, value = no_op(), constant(1)
    assert (inner.device, none.device, again.device) == ("/device:CPU:1", "", "/task:2")
    assert outer.device == value.device == "/device:CPU:0"
    assert no_op().device == ""


def nested(*scopes):
    """Return the device of an operation made inside some device scopes, the outermost first."""
    with ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(device(scope))
        return no_op().device


@pytest.mark.parametrize(
    ("scopes", "wanted"),
    [
        (["/job:worker", "/cpu:1"], "/job:worker/device:CPU:1"),
        (["/cpu:1", "/job:worker"], "/job:worker/device:CPU:1"),
        (["/job:worker/replica:1/task:2/cpu:3", "/task:5"], "/job:worker/replica:1/task:5/device:CPU:3"),
        (["/job:ps/task:1/cpu:0", "/job:worker", "/cpu:4"], "/job:worker/task:1/device:CPU:4"),
        (["/job:worker/gpu:3", "/cpu:*"], "/job:worker/device:CPU:*"),
        (["/gpu:3", "/device:*:1"], "/device:GPU:1"),
        (["/job:worker", "", "/cpu:1"], "/job:worker/device:CPU:1"),
        (["/job:worker", None, "/cpu:1"], "/device:CPU:1"),
    ],
)
def test_what_an_inner_scope_leaves_open_the_outer_one_says(scopes, wanted):
    assert nested(*scopes) == wanted


def test_a_device_function_is_asked_for_each_operation():
    asked = []

    def choose(op):
        asked.append(op.type)
        return "/cpu:7" if op.type == "Const" else None

    with device("/cpu:1"), device(choose):
        a, b = constant(1), no_op()
    assert (a.device, b.device) == ("/device:CPU:7", "/device:CPU:1")
    assert asked == ["Const", "NoOp"]
    assert nested(lambda op: "/cpu:3", choose) == "/device:CPU:3"


def test_a_device_function_sees_what_inner_scopes_say_and_adds_to_it():
    seen = []

    def choose(op):
        seen.append(op.device)
        return "/job:ps/cpu:7"

    assert nested("/task:3", choose, "/cpu:1") == "/job:ps/task:3/device:CPU:1"
    assert nested(choose, lambda op: "/task:2") == "/job:ps/task:2/device:CPU:7"
    assert nested(choose, None) == ""
    assert seen == ["/device:CPU:1", "/task:2"]


def test_parameters_may_be_spread_over_tasks():
    tasks = count()
    spread = lambda op: f"/job:ps/task:{next(tasks)}" if op.type == "VariableHandle" else "/job:worker"  # noqa: E731
    with device(spread):
        variables = [Variable(1.0) for _ in range(2)]
        total = variables[0] + variables[1]
    assert [v.device for v in variables] == ["/job:ps/task:0", "/job:ps/task:1"]
    assert {v.initializer.device for v in variables} == {"/job:ps/task:0", "/job:ps/task:1"}
    assert total.device == "/job:worker"


@pytest.mark.parametrize("wrong", [3, "cpu one", "/job:a/job:b"])
def test_what_is_no_device_is_refused_where_it_is_asked_for(wrong):
    with pytest.raises(GraphError, match="device"), device(wrong):
        pytest.fail("the scope was entered")


@pytest.mark.parametrize("wrong", [3, "cpu one"])
def test_what_is_no_device_from_a_function_names_the_operation(graph, wrong):
    with pytest.raises(GraphError, match="device") as caught, device(lambda op: wrong):
        no_op("here")
    assert caught.value.operation.name == "here"
    assert graph.get_operations() == []


# ---- colocate_with


def test_colocation_names_the_other_operation():
    a, v = constant(1, name="a"), Variable(1.0, name="v")
    with colocate_with(a):
        b = no_op()
        with colocate_with(v):
            c = no_op()
        with colocate_with(None):
            d = no_op()
    assert b.get_attr("colocate") == "a"
    assert c.get_attr("colocate") == v.op.name
    assert "colocate" not in d.attrs
    with pytest.raises(GraphError), colocate_with(3):
        no_op()


def test_colocation_is_stronger_than_devices_around_it_and_is_added_to_by_those_inside():
    with device("/job:ps/cpu:1"):
        a = constant(1, name="a")
    with device("/cpu:2"):
        with colocate_with(a):
            b = no_op()
            with device("/task:3"):
                c = no_op()
            with colocate_with(None):
                d = no_op()
        with colocate_with(None):
            e = no_op()
        with colocate_with(None, ignore_existing=True):
            f = no_op()
    assert b.device == "/job:ps/device:CPU:1"
    assert c.device == "/job:ps/task:3/device:CPU:1"
    assert (d.device, e.device, f.device) == ("", "/device:CPU:2", "")


# ---- name_scope


def test_scopes_of_names_nest_and_are_unique():
    with name_scope("a") as outer:
        x = constant(1, name="x")
        with name_scope("b") as inner:
            y = constant(1, name="x")
        with name_scope("b") as twin:
            pass
    with name_scope("a") as second:
        z = constant(1, name="x")
    assert (outer, inner, twin, second) == ("a/", "a/b/", "a/b_1/", "a_1/")
    assert names([x.op, y.op, z.op]) == ["a/x", "a/b/x", "a_1/x"]


def test_a_whole_scope_is_entered_again_and_none_leaves_all():
    with name_scope("a") as scope:
        pass
    with name_scope("other"):
        with name_scope(scope) as again:
            x = no_op("x")
        with name_scope(None) as root:
            y = no_op("y")
        with name_scope(None, "default") as default:
            pass
    assert (again, root, default) == ("a/", "", "other/default/")
    assert names([x, y]) == ["a/x", "y"]


@pytest.mark.parametrize("wrong", ["two words", "/a", "a:0"])
def test_a_scope_has_a_plain_name(wrong):
    with pytest.raises(GraphError, match="not a name for a scope"), name_scope(wrong):
        no_op()


async def test_scopes_are_the_tasks_own():
    async def build(name):
        with Graph().as_default(), name_scope(name), device(f"/cpu:{len(name)}"):
            await asyncio.sleep(0)
            x = identity(constant(1), name="x")
            return x.op.name, x.device

    assert await asyncio.gather(build("a"), build("bb")) == [("a/x", "/device:CPU:1"), ("bb/x", "/device:CPU:2")]
