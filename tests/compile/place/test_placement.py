"""Where operations go: what they ask for, what must be together, and what follows its data."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.device_names import DeviceSpec, parse_device
from tagloom.base.errors import GraphError
from tagloom.compile.place import place
from tagloom.ir.program import Program

from tests.support.compiling import lowered

pytestmark = pytest.mark.usefixtures("graph")

DEVICES = [parse_device(f"/job:localhost/task:0/device:CPU:{i}") for i in range(3)]


@pytest.fixture
def where(graph):
    """Return a function that places what some fetches and targets need, and gives device numbers by name."""

    def run(fetches, targets=(), feeds=(), devices=DEVICES, **options):
        program = lowered(Program(graph, list(feeds), list(fetches), list(targets)))
        return {op.name: device.index for op, device in place(program, devices, **options).items()}

    return run


def on(index, function, *args, **options):
    with tg.device(f"/cpu:{index}"):
        return function(*args, **options)


def source(index=None, name="x", dtype="float32", shape=()):
    """Return what an operation without inputs computes."""

    def make():
        return tg.py_function(lambda: np.zeros(shape, dtype), [], dtype, name=name, output_shapes=shape)

    return make() if index is None else on(index, make)


# ---- constraints


def test_what_is_asked_for_holds(where):
    a = source(1)
    b = on(2, tg.exp, a, name="b")
    assert where([b], feeds=[a]) == {"x": 1, "b": 2}


def test_a_partial_constraint_is_any_device_of_that_kind(where):
    a, b = source(name="a"), source(1, "b")
    with tg.device("/job:worker"):
        far = tg.exp(a, name="far")
    with tg.device("/task:0"):
        near = tg.exp(b, name="near")
    devices = [*DEVICES, parse_device("/job:worker/task:0/device:CPU:0")]
    program = lowered(Program(far.graph, [a, b], [far, near]))
    found = {op.name: device for op, device in place(program, devices).items()}
    assert found["far"] == found["a"] == devices[3]
    assert found["near"] == devices[1]  # of those that will do, where its data comes from


def test_what_nothing_constrains_is_together_on_the_first_device(where):
    x = source()
    assert set(where([tg.exp(x) + 1.0], feeds=[x]).values()) == {0}


def test_what_nothing_constrains_goes_where_its_data_comes_from(where):
    x, y = source(2), source(1, "y")
    a = tg.tanh(tg.exp(x, name="a"), name="b")
    c = tg.add(tg.exp(y), a, name="c")
    d = tg.add(on(0, tg.exp, y), a, name="d")
    found = where([a, c, d], feeds=[x, y])
    assert found["b"] == 2
    assert found["c"] == 1  # two places: the first input's
    assert found["d"] == 0  # two places: the first device, if it is one of them


def test_of_several_places_it_goes_where_most_of_its_data_comes_from(where):
    small, large = source(0), source(2, "large", shape=[8, 8])
    unknown, row = source(1, "unknown", shape=None), source(2, "row", shape=[None, 4])
    a = tg.multiply(small, large, name="a")
    b = tg.add(unknown, row, name="b")
    found = where([a, b], feeds=[small, large, unknown, row])
    assert found["a"] == found["b"] == 2


def test_constants_feeds_and_invariants_go_where_they_are_used_first(where):
    x = source()
    y = on(2, tg.multiply, x, tg.constant(3.0, name="three"), name="y")
    assert set(where([y], feeds=[x]).values()) == {2}


def test_a_device_that_is_not_there(where):
    x = source()
    y = on(7, tg.exp, x, name="far")
    with pytest.raises(GraphError, match="far cannot run on the device asked for") as caught:
        where([y], feeds=[x])
    assert "cpu:7" in str(caught.value)
    assert "cpu:2" in str(caught.value)
    assert caught.value.source.file == __file__
    assert set(where([y], feeds=[x], soft=True).values()) == {0}


def test_a_name_that_is_no_device_names_the_operation(where):
    y = tg.exp(source(), name="y")
    y.op.device = "cpu one"
    with pytest.raises(GraphError, match="not the name of a device") as caught:
        where([y])
    assert caught.value.operation is not None


def test_a_type_goes_only_where_it_has_a_kernel(where):
    x = source()
    y = tg.matmul(tg.exp(tg.reshape(x, [1, 1])), tg.ones([1, 1]), name="y")

    def supports(type, device):
        return type != "MatMul" or device.index == 2

    assert where([y], feeds=[x], supports=supports)["y"] == 2
    with pytest.raises(GraphError, match="no device runs MatMul"):
        where([y], feeds=[x], supports=lambda type, device: type != "MatMul")
    with pytest.raises(GraphError, match="no device"):
        where([y], feeds=[x], devices=[])


# ---- together


def test_colocated_operations(where):
    x, other, third = source(), source(1, "other"), source(2, "third")
    a = on(2, tg.exp, x, name="a")
    with tg.colocate_with(a):
        b = tg.tanh(other, name="b")
    free = tg.exp(x, name="free")
    with tg.colocate_with(free):
        d = on(1, tg.tanh, x, name="asks")
        c = tg.tanh(third, name="c")
    found = where([a, b, c, free, d], feeds=[])
    assert found["a"] == found["b"] == 2
    assert found["free"] == found["asks"] == found["c"] == 1


def test_operations_colocated_with_what_is_not_needed_have_its_device(where):
    v, x = on(2, tg.Variable, 1.0, name="v"), source(0)
    with tg.colocate_with(v):
        a = tg.exp(x, name="a")
    assert where([a])["a"] == 2


def test_colocation_with_a_loop_or_a_branch_means_its_results(where):
    p = source(0, "p", "bool")
    loop = tg.while_loop(lambda i: i < 3.0, lambda i: on(1, tg.add, i, 1.0), [0.0])
    chosen = on(2, tg.cond, p, lambda: tg.constant(1.0), lambda: tg.constant(2.0))
    x = source(0)
    with tg.colocate_with(loop):
        a = tg.exp(x, name="a")
    with tg.colocate_with(chosen):
        b = tg.tanh(x, name="b")
    found = where([a, b, loop, chosen])
    assert (found["a"], found["b"]) == (1, 2)


def test_a_contradiction_names_both_operations_and_lines(where):
    a = on(1, tg.exp, source(), name="a")
    with tg.colocate_with(a), tg.device("/cpu:2"):
        b = tg.exp(a, name="b")
    with pytest.raises(GraphError, match="a and b must be on one device, but were asked onto two") as caught:
        where([b])
    text = str(caught.value)
    assert "/device:CPU:1 for a, built at" in text
    assert "/device:CPU:2 for b, built at" in text
    assert text.count(__file__) >= 3
    assert where([b], soft=True)["a"] == where([b], soft=True)["b"]


def test_a_variable_and_what_reads_and_assigns_it_are_together(where):
    v = on(1, tg.Variable, 1.0, name="v")
    with tg.device("/cpu:2"):
        y = tg.exp(v + 1.0, name="y")
        update = v.assign_add(y)
    found = where([y], [update.op, v.initializer])
    assert found["y"] == 2
    assert {i for name, i in found.items() if name.startswith("v/") or name == "v"} == {1}
    assert found[update.op.name] == 1


def test_a_variable_without_a_device_is_in_the_same_place_in_every_step(where):
    v = tg.Variable(1.0, name="v")
    y = on(2, tg.exp, v, name="y")
    assert where([y])[v.op.name] == 0


@pytest.mark.rule(114)
def test_an_array_goes_where_it_is_written_first(where):
    array = tg.TensorArray("float32", 2, name="array")
    array = on(1, array.write, 0, source(0, "x"))
    array = on(2, array.write, 1, 3.0)
    found = where([on(0, array.stack)])
    assert {i for name, i in found.items() if "array" in name.lower()} == {1}


def test_an_array_stays_where_it_was_made_if_that_was_asked_for(where):
    array = on(2, tg.TensorArray, "float32", 1)
    result = on(1, array.write, 0, source(1)).stack(name="result")
    assert where([result])["result"] == 2


def test_an_array_is_with_the_value_written_if_nobody_asks(where):
    result = tg.TensorArray("float32", 1).write(0, on(2, tg.exp, source())).stack(name="result")
    assert where([result])["result"] == 2


def test_a_stack_and_its_users_are_together(where):
    handle = on(1, tg.stack, elem_type="float32")
    pushed = on(2, tg.stack_push, handle, source(2))
    with tg.control_dependencies([pushed]):
        popped = tg.stack_pop(handle, name="popped")
    found = where([popped])
    assert found["popped"] == found[pushed.op.name] == 1


def test_a_series_is_where_its_values_are_made(where):
    x = source(0)
    y = tg.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, on(2, lambda: tg.exp(y) * y)), [0, x])[1]
    found = where(tg.gradients(y, [x]), feeds=[x])
    series = {name: i for name, i in found.items() if "Series" in name}
    assert set(series.values()) == {2}


# ---- primitives


@pytest.mark.rule(65, 115)
def test_switch_goes_with_its_data_and_exit_with_its_producer(where):
    data, p = source(1), source(2, "p", "bool")
    with tg.device("/cpu:0"):
        false, true = tg.switch(data, p, name="switch")
        y = tg.merge([on(2, tg.exp, false, name="a"), on(1, tg.tanh, true, name="b")], name="merge")[0]
    found = where([y], feeds=[data, p])
    assert (found["switch"], found["a"], found["b"], found["merge"]) == (1, 2, 1, 0)


@pytest.mark.rule(115)
def test_a_loop_variable_is_where_its_next_value_is_made(where):
    n = source(0, "n", "int32")
    with tg.device("/cpu:0"):
        i, y = tg.while_loop(
            lambda i, y: i < n,
            lambda i, y: (i + 1, on(2, tg.multiply, on(1, tg.exp, y, name="e"), 2.0)),
            [0, 1.0],
            name="loop",
        )
    found = where([i, y], feeds=[n])
    assert found["e"] == 1
    for kind in ("Enter", "Merge", "Switch", "NextIteration", "Exit"):
        assert (found[f"loop/{kind}"], found[f"loop/{kind}_1"]) == (0, 2), kind
    assert found["loop/LoopCond"] == 0


@pytest.mark.rule(115)
def test_a_sum_in_a_loop_is_where_its_terms_are_made_though_they_are_chosen_elsewhere(where):
    p, x = source(0, "p", "bool"), source(0)

    def body(i, y):
        term = tg.cond(p, lambda: on(2, tg.exp, x, name="e"), lambda: tg.constant(0.0), name="choose")
        return i + 1, tg.add(y, term, name="sum")

    y = tg.while_loop(lambda i, _: i < 3, body, [0, 0.0], name="loop")[1]
    found = where([y], feeds=[p, x])
    assert [found[name] for name in ("e", "choose/Merge", "sum", "loop/Merge_1", "loop/NextIteration_1")] == [2] * 5


@pytest.mark.rule(115)
def test_a_loop_variable_whose_next_value_may_be_anywhere_is_where_it_is_used(where):
    n = source(0, "n", "int32")
    _, y, z = tg.while_loop(
        lambda i, y, z: i < n,
        lambda i, y, z: (i + 1, tg.negative(y, name="next"), on(1, tg.add, z, y)),
        [0, source(0), 0.0],
        name="loop",
    )
    found = where([y, z], feeds=[n])
    assert found["next"] == 1
    assert [found[f"loop/Merge{number}"] for number in ("", "_1", "_2")] == [0, 1, 1]


@pytest.mark.rule(115)
def test_an_enter_goes_with_its_first_consumer(where):
    x = source(1)
    entered = tg.enter(x, "frame", is_constant=True, name="entered")
    first = on(2, tg.exp, entered, name="first")
    y = tg.exit(first, name="left")
    found = where([y], feeds=[x])
    assert (found["entered"], found["first"], found["left"]) == (2, 2, 2)


def test_results_keep_their_places_whatever_the_names(where):
    """An operation that is called as lowering calls its own is still the one to be with."""
    mine, y = on(2, tg.exp, source(name="x"), name="loop/Enter"), source(0, "y")
    with tg.colocate_with(mine):
        near = tg.tanh(y, name="near")
    z = tg.while_loop(lambda i: i < 3.0, lambda i: on(1, tg.add, i, 1.0), [0.0], name="loop")
    found = where([mine, near, z])
    assert found["loop/Enter"] == found["near"] == 2
    assert found["loop/Enter_1"] == 1


def test_placing_changes_nothing(graph):
    x = source()
    program = lowered(Program(graph, [x], [on(1, tg.exp, x) + np.float32(1)]))
    before = [(op.name, op.device) for op in program.graph.get_operations()]
    assert set(place(program, DEVICES)) == set(program.graph.get_operations())
    assert [(op.name, op.device) for op in program.graph.get_operations()] == before
    alone = DeviceSpec(type="CPU", index=1)
    assert set(place(program, [alone]).values()) == {alone}
