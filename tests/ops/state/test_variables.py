import numpy as np
import pytest
from tagloom.base.errors import DtypeError, GraphError, OpError, ShapeError, UninitializedVariableError
from tagloom.base.nest import flatten
from tagloom.frontend.state.variables import (
    Variable,
    global_variables,
    global_variables_initializer,
    trainable_variables,
)
from tagloom.ir import scopes
from tagloom.ir.apply import apply, constant
from tagloom.ir.definition import definition_of
from tagloom.ir.region import Region
from tagloom.ops.math import arithmetic, elementwise  # noqa: F401
from tagloom.ops.state.variables.operations import VariableSlot, prepare_slots, slots_of
from tagloom.ops.state.variables.values import fit_values
from tagloom.runtime.resources.manager import ResourceManager

from tests.ops.instances import Instance, Walk, cotangents, make_step


def initialized():
    walk = Walk()
    walk.run(global_variables_initializer())
    return walk.step


def test_a_variable_reads_what_its_initializer_assigned(graph):
    w = Variable([[1.0, 2.0]], name="w")
    assert (w.name, w.dtype, w.shape) == ("w", "float32", [1, 2])
    np.testing.assert_array_equal(Walk(initialized()).run(w.value()), [[1, 2]])


def test_initial_values_come_from_callables_and_tensors(graph):
    a = Variable(lambda: [1, 2], dtype="int64")
    b = Variable(constant([1.0]) + 1.0, shape=[None])
    step = initialized()
    assert (a.dtype, b.shape) == ("int64", [None])
    assert [Walk(step).run(v.value()).tolist() for v in (a, b)] == [[1, 2], [2.0]]


@pytest.mark.rule(22)
def test_reading_before_assigning_names_the_variable_and_the_initializer(graph):
    w = Variable(1.0, name="speed")
    with pytest.raises(UninitializedVariableError, match=r"'speed'(.|\n)*global_variables_initializer"):
        Walk().run(w.value())
    assert not Walk().run(w.is_initialized())
    assert Walk(initialized()).run(w.is_initialized())


def test_updates_return_the_new_value(graph):
    w = Variable([1.0, 2.0])
    step = initialized()
    for update, wanted in ((w.assign_add([1, 1]), [2, 3]), (w.assign_sub([1, 0]), [1, 3]), (w.assign([5, 6]), [5, 6])):
        np.testing.assert_array_equal(Walk(step).run(update), wanted)
        np.testing.assert_array_equal(Walk(step).run(w.read_value()), wanted)


def test_scatters_change_rows_and_add_up_repeated_ones(graph):
    w = Variable(np.zeros((3, 2), np.float32))
    step = initialized()
    Walk(step).run(w.scatter_add([0, 2, 0], np.ones((3, 2), np.float32)))
    np.testing.assert_array_equal(Walk(step).run(w.read_value()), [[2, 2], [0, 0], [1, 1]])
    Walk(step).run(w.scatter_sub([2], np.ones((1, 2), np.float32)))
    Walk(step).run(w.scatter_update([1], np.full((1, 2), 9, np.float32)))
    np.testing.assert_array_equal(Walk(step).run(w.read_value()), [[2, 2], [9, 9], [0, 0]])


def test_scatter_takes_slices(graph):
    class Slices:
        values, indices = constant([[4.0]]), constant([1])

    w = Variable([[1.0], [2.0]])
    np.testing.assert_array_equal(Walk(initialized()).run(w.scatter_sub(Slices())), [[1], [-2]])


@pytest.mark.parametrize(
    ("indices", "updates", "message"),
    [([3], [[1.0]], "out of range"), ([-1], [[1.0]], "out of range"), ([0], [1.0], "another shape")],
)
def test_bad_scatters_are_refused_and_change_nothing(graph, indices, updates, message):
    w = Variable([[1.0], [2.0]], name="w")
    step = initialized()
    with pytest.raises(OpError, match=f"'w'.*{message}"):
        Walk(step).run(w.scatter_add(indices, updates))
    np.testing.assert_array_equal(Walk(step).run(w.value()), [[1], [2]])


def test_an_update_in_place_needs_the_buffer_alone():
    slot = VariableSlot("v")
    slot.assign(np.arange(3.0))
    address = slot.read().ctypes.data
    slot.combine(np.add, np.ones(3))
    assert slot.read().ctypes.data == address
    held = slot.read()
    slot.combine(np.add, np.ones(3))
    np.testing.assert_array_equal(held, [1, 2, 3])
    np.testing.assert_array_equal(slot.read(), [2, 3, 4])
    assert slot.read().ctypes.data != address


@pytest.mark.parametrize("update", ["assign", "add", "scatter"])
def test_a_held_view_keeps_the_value_that_was_read(update):
    slot = VariableSlot("v")
    slot.assign(np.zeros((2, 2)))
    view = slot.read()[1:]
    if update == "assign":
        slot.assign(np.ones((2, 2)))
    elif update == "add":
        slot.combine(np.add, np.ones((2, 2)))
    else:
        slot.scatter(np.add.at, np.array([0, 1]), np.ones((2, 2)))
    np.testing.assert_array_equal(view, [[0, 0]])
    np.testing.assert_array_equal(slot.read(), np.ones((2, 2)))


def test_a_variable_may_be_added_to_itself():
    slot = VariableSlot("v")
    slot.assign(np.arange(3.0))
    slot.combine(np.add, slot.read())
    np.testing.assert_array_equal(slot.read(), [0, 2, 4])


def test_values_are_copied_in_and_read_only():
    slot, mine = VariableSlot("v"), np.zeros(2)
    slot.assign(mine)
    mine[:] = 5
    np.testing.assert_array_equal(slot.read(), [0, 0])
    with pytest.raises(ValueError, match="read-only"):
        slot.read()[0] = 1


def test_a_value_of_another_shape_is_refused(graph):
    w = Variable([1.0, 2.0], name="w")
    with pytest.raises(ShapeError, match="'w'"):
        w.assign([1.0, 2.0, 3.0])
    with pytest.raises(DtypeError):
        w.assign_add(constant([1, 2]))
    unknown = apply("Placeholder", dtype="float32")
    walk = Walk(initialized())
    walk.values[unknown.op] = [np.zeros(3, np.float32)]
    with pytest.raises(OpError, match="'w'"):
        walk.run(w.assign(unknown))
    with pytest.raises(OpError, match="'w'"):
        walk.run(w.assign_add(unknown))


def test_a_partly_known_shape_takes_values_of_other_sizes(graph):
    w = Variable([1.0], shape=[None])
    step = initialized()
    np.testing.assert_array_equal(Walk(step).run(w.assign([1.0, 2.0])), [1, 2])


def test_operators_build_on_the_value(graph):
    w = Variable([1.0, 2.0])
    step = initialized()
    for result, wanted in ((w + 1.0, [2, 3]), (2.0 * w, [2, 4]), (np.float32([3, 4]) - w, [2, 2]), (-w, [-1, -2])):
        np.testing.assert_array_equal(Walk(step).run(result), wanted)
    with pytest.raises(GraphError, match="no truth value"):
        bool(w)
    with pytest.raises(GraphError, match="iterated"):
        list(w)


def test_all_its_operations_stand_in_the_root_region(graph):
    body = Region(graph, graph.root, "body")
    with scopes.inside(body):
        w = Variable(np.float32(1))
        assert (w + 1.0).op.region is body
    assert {op.region for op in (w.op, w.handle.op, w.initializer, w.initial_value.op)} == {graph.root}


def test_an_initial_value_from_inside_a_body_is_refused(graph):
    with scopes.inside(Region(graph, graph.root, "body")), pytest.raises(GraphError, match="body"):
        Variable(constant(1.0) + 1.0)


def test_control_dependencies_ask_for_a_new_read(graph):
    w = Variable(1.0)
    step = initialized()
    update = w.assign_add(1.0)
    assert w.value() is w.value()
    with scopes.within(control_inputs=(update.op,)):
        after = w + 10.0
    assert w.read_value() is not w.read_value()
    assert Walk(step).run(after) == 12


def test_the_cotangent_of_a_read_goes_to_the_handle(graph):
    w = Variable([1.0])
    g = constant([3.0])
    assert w.value().op.inputs == [w.handle]
    assert cotangents(w.value().op, g) == [g]
    assert not w.assign([1.0]).op.definition.is_differentiable


def test_collections_and_names(graph):
    with scopes.within(name="layer"):
        w = Variable(1.0, name="w")
    step_count = Variable(0, trainable=False, name="w")
    again = Variable(0.0, name="w")
    assert [v.name for v in global_variables()] == ["layer/w", "w", "w_1"]
    assert trainable_variables() == [w, again]
    assert graph.get_tensor_by_name("layer/w:0") is w.value()
    assert graph.as_graph_element(step_count) is step_count.value()
    assert flatten([w, {"a": again}]) == [w, again]


def test_the_initializer_is_a_step_of_its_own(graph):
    with scopes.inside(Region(graph, graph.root, "body")), pytest.raises(GraphError, match="step of its own"):
        global_variables_initializer()


def test_slots_are_written_all_or_none(graph):
    w, n = Variable([1.0, 2.0], name="w"), Variable(3, name="n")
    resources, known = ResourceManager(), {"w": w, "n": n}

    def write(values):
        arrays = fit_values(values, known)
        prepare_slots(slots_of(resources, arrays), arrays)()

    for wrong, error in (({"x": 1}, GraphError), ({"n": 2, "w": [1.0]}, ShapeError), ({"n": 1.5}, DtypeError)):
        with pytest.raises(error):
            write(wrong)
    assert resources.snapshot() == {}
    write({"n": 4, "w": [5.0, 6.0]})
    held = resources.snapshot()["variables"]
    assert not held["w"].flags.writeable  # whoever saves it copies it
    slot, missing = slots_of(resources, ["w", "missing"])
    np.testing.assert_array_equal(slot.read(), [5, 6])
    assert (held["n"], sum(a.nbytes for each in resources for a in each.arrays())) == (4, 12)
    with pytest.raises(UninitializedVariableError):
        missing.read()


def test_slots_are_shared_by_name():
    step = make_step()
    kernel = definition_of("VariableHandle").kernel
    first, second = (kernel(np, Instance(step, name), shared_name="w") for name in ("a", "b"))
    assert first is second
