import numpy as np
import pytest
from tagloom.base import dtypes
from tagloom.base.errors import DtypeError, GraphError, ShapeError, TensorArrayError
from tagloom.base.nest import flatten
from tagloom.base.shapes import Shape
from tagloom.frontend.state.tensor_array import TensorArray
from tagloom.ir import scopes
from tagloom.ir.apply import apply, constant
from tagloom.ops.state.tensor_array import gradient_arrays
from tagloom.ops.state.tensor_array.element_rules import ElementRules
from tagloom.ops.state.tensor_array.storage import ArrayStorage

from tests.ops.evaluation import declare_all, pull_back
from tests.ops.instances import Instance, Walk

pytestmark = pytest.mark.usefixtures("graph")

declare_all()


def storage(size=3, **options):
    return ArrayStorage(dtypes.float32, size, ElementRules(**options), name="ta")


def at(operation, iteration=0):
    return Instance(operation=operation, iteration=iteration)


def f32(*values):
    return np.array(values, np.float32)


def after(tensor):
    return scopes.within(control_inputs=(tensor.op,))


def gradients(y, xs, g=None):
    """Walk back through a graph without control flow, as gradients() does, with fresh gradient arrays."""

    def make(handle):
        with after(y):
            return apply("TensorArrayGrad", handle, constant(0.0))[0]

    cotangent = constant(np.ones(y.shape.as_tuple(), np.float32)) if g is None else g
    with gradient_arrays.gradient_scope(make):
        return pull_back([y], [cotangent], xs)


# ---- storage


@pytest.mark.rule(105)
def test_a_second_write_names_who_wrote_first_and_when():
    array = storage()
    array.write(1, f32(1), at("first", 4))
    message = r"index 1 of TensorArray 'ta' \(size 3\) has already been written to(.|\n)*'first' in iteration 4"
    with pytest.raises(TensorArrayError, match=message + r".*'second' in iteration 5(.|\n)*operation: second"):
        array.write(1, f32(1), at("second", 5))


@pytest.mark.rule(105)
def test_a_write_after_a_read_is_refused():
    array = storage(element_shape=Shape([1]))
    np.testing.assert_array_equal(array.read(0, at("reader", 2)), [0])
    with pytest.raises(TensorArrayError, match=r"has already been read(.|\n)*'reader' in iteration 2"):
        array.write(0, f32(1), at("writer"))


@pytest.mark.rule(106)
@pytest.mark.parametrize("index", [-1, 3])
def test_indices_outside_are_refused_by_name_and_size(index):
    message = f"index {index} of TensorArray 'ta' is out of bounds(.|\n)*size 3"
    with pytest.raises(TensorArrayError, match=message):
        storage().write(index, f32(1), at("w"))
    with pytest.raises(TensorArrayError, match=message):
        storage().read(index, at("r"))


@pytest.mark.rule(106)
def test_a_dynamic_array_grows_on_write_but_never_below_zero():
    array = storage(0, dynamic_size=True)
    array.write(4, f32(1), at("w"))
    assert array.size == 5
    with pytest.raises(TensorArrayError, match="index -1"):
        array.write(-1, f32(1), at("w"))
    with pytest.raises(TensorArrayError, match="index 5"):
        array.read(5, at("r"))


@pytest.mark.rule(106)
def test_another_dtype_is_refused():
    with pytest.raises(TensorArrayError, match=r"another dtype(.|\n)*wanted: float32(.|\n)*got: float64"):
        storage().write(0, np.zeros(2), at("w"))


@pytest.mark.rule(107)
def test_a_read_clears_and_a_second_one_says_so():
    array = storage()
    array.write(0, f32(1, 2), at("w"))
    np.testing.assert_array_equal(array.read(0, at("one", 1)), [1, 2])
    assert array.elements[0].value is None
    with pytest.raises(
        TensorArrayError, match=r"already read, and cleared(.|\n)*'one' in iteration 1(.|\n)*clear_after"
    ):
        array.read(0, at("two", 2))


@pytest.mark.rule(107)
def test_without_clearing_reads_repeat():
    array = storage(clear_after_read=False)
    array.write(0, f32(1, 2), at("w"))
    for _ in range(2):
        np.testing.assert_array_equal(array.read(0, at("r")), [1, 2])


@pytest.mark.rule(108)
def test_unwritten_elements_read_as_zeros_of_a_known_shape_only():
    with pytest.raises(TensorArrayError, match=r"could not read index 0 of TensorArray 'ta'(.|\n)*element_shape"):
        storage().read(0, at("r"))
    learnt = storage(identical_shapes=True)
    learnt.write(1, f32(1, 2), at("w"))
    np.testing.assert_array_equal(learnt.read(0, at("r")), [0, 0])
    different = storage()
    different.write(1, f32(1, 2), at("w"))
    with pytest.raises(TensorArrayError, match="never written"):
        different.read(0, at("r"))


@pytest.mark.rule(108)
def test_stack_and_concat_fill_holes():
    for function in (
        lambda a: a.stack(range(3), at("s"), None, Shape(None)),
        lambda a: a.concat((), at("c"), Shape(None))[0],
    ):
        array = storage(identical_shapes=True)
        array.write(1, f32(1, 2), at("w"))
        np.testing.assert_array_equal(function(array).reshape(3, 2), [[0, 0], [1, 2], [0, 0]])


@pytest.mark.rule(109)
def test_identical_shapes_are_checked_when_a_step_runs():
    array = storage(identical_shapes=True)
    array.write(0, f32(1, 2), at("w"))
    with pytest.raises(TensorArrayError, match=r"index 1(.|\n)*another shape(.|\n)*wanted: \[2\](.|\n)*got: \[3\]"):
        array.write(1, f32(1, 2, 3), at("w"))
    free = storage()
    free.write(0, f32(1, 2), at("w"))
    free.write(1, f32(1, 2, 3), at("w"))


@pytest.mark.rule(110)
def test_stack_needs_equal_and_known_shapes():
    with pytest.raises(TensorArrayError, match="known element shape"):
        storage(0).stack(range(0), at("s"), None, Shape(None))
    assert storage(0).stack(range(0), at("s"), None, Shape([2])).shape == (0, 2)
    assert storage(0, element_shape=Shape([3])).stack(range(0), at("s"), None, Shape(None)).shape == (0, 3)
    array = storage(2)
    array.write(0, f32(1), at("w"))
    array.write(1, f32(1, 2), at("w"))
    with pytest.raises(TensorArrayError, match=r"differ in shape(.|\n)*\[2\] at index 1"):
        array.stack(range(2), at("s"), None, Shape(None))


@pytest.mark.rule(110)
def test_concat_needs_rank_and_equal_trailing_dimensions():
    for first, second in ((np.float32(1), np.float32(1)), (np.ones((1, 2), np.float32), np.ones((1, 3), np.float32))):
        array = storage(2)
        array.write(0, first, at("w"))
        array.write(1, second, at("w"))
        with pytest.raises(TensorArrayError, match="trailing dimensions"):
            array.concat((), at("c"), Shape(None))
    with pytest.raises(TensorArrayError, match="known element shape"):
        storage(0).concat((), at("c"), Shape(None))
    value, lengths = storage(0, element_shape=Shape([None, 2])).concat((), at("c"), Shape(None))
    assert (value.shape, lengths.shape) == ((0, 2), (0,))


@pytest.mark.rule(110)
@pytest.mark.parametrize(
    ("lengths", "message"),
    [([1, 1], "do not sum"), ([[3]], "vector"), ([4, -1], "vector"), ([1, 2, 0], "as many lengths")],
)
def test_split_checks_its_lengths(lengths, message):
    with pytest.raises(TensorArrayError, match=message):
        storage(2).split(f32(1, 2, 3), lengths, at("s"))


@pytest.mark.rule(110)
def test_split_into_a_dynamic_array_takes_any_number():
    array = storage(0, dynamic_size=True)
    array.split(f32(1, 2, 3), [1, 0, 2], at("s"))
    assert [array.read(i, at("r")).tolist() for i in range(3)] == [[1], [], [2, 3]]


@pytest.mark.rule(110)
def test_scatter_needs_a_row_for_each_index_within_the_size():
    with pytest.raises(TensorArrayError, match=r"one row for each index(.|\n)*wanted: 2 rows"):
        storage().write_rows([0, 1], f32(1), at("s"))
    with pytest.raises(TensorArrayError, match="index 3"):
        storage().write_rows([0, 3], f32(1, 2), at("s"))


@pytest.mark.rule(114)
def test_a_closed_array_is_refused():
    array = storage()
    array.write(0, f32(1), at("w"))
    array.close()
    assert array.elements == []
    for use in (lambda: array.read(0, at("r")), lambda: array.write(1, f32(1), at("w"))):
        with pytest.raises(TensorArrayError, match="'ta' was used after it was closed"):
            use()


# ---- gradient arrays


@pytest.mark.rule(111)
def test_a_gradient_array_sums_writes_and_is_read_many_times():
    gradient = storage().gradient(None, at("g"))
    mine = f32(1, 2)
    for _ in range(3):
        gradient.write(0, mine, at("w"))
    for _ in range(2):
        np.testing.assert_array_equal(gradient.read(0, at("r")), [3, 6])
    np.testing.assert_array_equal(mine, [1, 2])


@pytest.mark.rule(111)
def test_a_sum_refuses_another_shape_and_a_late_write():
    gradient = storage().gradient(None, at("g"))
    gradient.write(0, f32(1, 2), at("w"))
    with pytest.raises(TensorArrayError, match=r"one shape only(.|\n)*\[2\](.|\n)*\[1\]"):
        gradient.write(0, f32(1), at("w"))
    gradient.read(0, at("r"))
    with pytest.raises(TensorArrayError, match="already been read"):
        gradient.write(0, f32(1, 2), at("w"))


@pytest.mark.rule(111)
def test_size_and_shapes_come_from_the_primal_even_after_it_cleared():
    primal = storage(2)
    gradient = primal.gradient(None, at("g"))
    primal.write(0, f32(1, 2), at("w"))
    primal.write(1, f32(1, 2, 3), at("w"))
    primal.read(0, at("r"))
    assert gradient.size == 2
    np.testing.assert_array_equal(gradient.read(0, at("r")), [0, 0])
    np.testing.assert_array_equal(gradient.read(1, at("r")), [0, 0, 0])
    np.testing.assert_array_equal(gradient.gradient(None, at("g")).read(1, at("r")), [0, 0, 0])


@pytest.mark.rule(111)
def test_named_gradient_arrays_are_shared_and_unnamed_ones_are_not():
    array = storage()
    assert array.gradient("a", at("g")) is array.gradient("a", at("g"))
    assert array.gradient("a", at("g")) is not array.gradient("b", at("g"))
    assert array.gradient(None, at("g")) is not array.gradient(None, at("g"))


@pytest.mark.rule(112)
def test_naming_a_gradient_array_fixes_the_size():
    array = storage(1, dynamic_size=True)
    gradient = array.gradient("a", at("g"))
    with pytest.raises(TensorArrayError, match=r"cannot grow to index 1(.|\n)*gradient array"):
        array.write(1, f32(1), at("w"))
    with pytest.raises(TensorArrayError, match=r"index 1(.|\n)*out of bounds"):
        gradient.write(1, f32(1), at("w"))


# ---- the class


@pytest.mark.rule(105)
def test_order_is_carried_by_the_array_that_write_returns():
    array = TensorArray("float32", size=2).write(0, 1.0).write(1, 2.0)
    np.testing.assert_array_equal(Walk().run(array.stack()), [1, 2])


def test_without_size_it_starts_empty_and_grows():
    elems = constant([1.0, 2.0, 3.0])
    array = TensorArray(dtype=elems.dtype).unstack(elems)
    walk = Walk()
    assert [walk.run(t) for t in (array.size(), array.read(0), array.read(2))] == [3, 1, 3]
    assert array.read(1).shape == []


def test_all_pairs_of_access():
    rows = constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    by_index = TensorArray("float32", 3, clear_after_read=False).scatter([2, 0, 1], rows)
    walk = Walk()
    np.testing.assert_array_equal(walk.run(by_index.gather([1, 2])), [[5, 6], [1, 2]])
    np.testing.assert_array_equal(walk.run(by_index.stack()), [[3, 4], [5, 6], [1, 2]])
    np.testing.assert_array_equal(walk.run(by_index.concat()), [3, 4, 5, 6, 1, 2])
    pieces = TensorArray("float32", 2, infer_shape=False).split(rows, [1, 2])
    np.testing.assert_array_equal(walk.run(pieces.read(1)), [[3, 4], [5, 6]])
    np.testing.assert_array_equal(walk.run(pieces.identity().read(0)), [[1, 2]])


def test_lengths_and_indices_may_be_int64_and_empty():
    rows = constant([[1.0], [2.0]])
    array = TensorArray("float32", 2, infer_shape=False, clear_after_read=False).split(rows, np.array([2, 0]))
    assert array.flow.op.inputs[2].dtype == "int32"
    empty = TensorArray("float32", 2, element_shape=[3])
    assert Walk().run(empty.gather([])).shape == (0, 3)
    assert Walk().run(TensorArray("float32", 1).write(np.int64(0), 4.0).read(np.int64(0))) == 4


@pytest.mark.rule(109)
def test_shapes_learnt_from_writes_are_checked_when_the_graph_is_built():
    array = TensorArray("float32", 3)
    written = array.write(0, [1.0, 2.0])
    assert (array.element_shape, written.element_shape) == ([2], [2])
    with pytest.raises(ShapeError, match=r"does not fit the TensorArray(.|\n)*wanted: \[2\](.|\n)*got: \[3\]"):
        written.write(1, [1.0, 2.0, 3.0])
    assert TensorArray("float32", 3, infer_shape=False).write(0, [1.0]).write(1, 1.0).element_shape.rank is None
    declared = TensorArray("float32", 3, infer_shape=False, element_shape=[None, 2])
    with pytest.raises(ShapeError):
        declared.write(0, [1.0])


@pytest.mark.rule(109)
def test_static_shapes_of_results():
    array = TensorArray("float32", 2).unstack([[1.0, 2.0], [3.0, 4.0]])
    assert [t.shape for t in (array.read(0), array.stack(), array.gather([0]), array.concat())] == [
        [2],
        [2, 2],
        [1, 2],
        [None],
    ]
    assert TensorArray("float32").write(0, 1.0).stack().shape == [None]
    assert TensorArray("float32", 2).split([[1.0], [2.0]], [1, 1]).element_shape == [1, 1]


@pytest.mark.rule(109, 110)
def test_bad_use_is_refused_when_the_graph_is_built():
    with pytest.raises(ShapeError, match="at most 1"):
        TensorArray("float32", 1).unstack([1.0, 2.0])
    with pytest.raises(ShapeError, match="rank 1 or more"):
        TensorArray("float32", 1).unstack(1.0)
    with pytest.raises(ShapeError):
        TensorArray("float32", 1).gather(constant(0))
    with pytest.raises(DtypeError, match="float32"):
        TensorArray("float32", 1).write(0, constant(1))
    with pytest.raises(GraphError, match="both"):
        TensorArray("float32", handle=TensorArray("float32", 1).handle)


@pytest.mark.rule(82)
def test_it_is_a_leaf_that_its_flow_stands_for():
    array = TensorArray("float32", 1)
    flow = constant(0.0)
    assert flatten([array]) == [array]
    other = array.with_flow(flow)
    assert (other.handle, other.flow) == (array.handle, flow)
    other.write(0, [1.0, 2.0])
    assert array.element_shape == [2]


@pytest.mark.rule(114)
def test_each_step_has_its_own_array_and_close_frees_it():
    array = TensorArray("float32", 1, tensor_array_name="mine", clear_after_read=False)
    written = array.write(0, 1.0)
    read = written.read(0)
    assert [Walk().run(read), Walk().run(read)] == [1, 1]
    with scopes.within(control_inputs=(written.close(),)):
        late = written.read(0)
    with pytest.raises(TensorArrayError, match="'mine' was used after it was closed"):
        Walk().run(late)


# ---- gradients


def check(y, x, wanted, g=None):
    (found,) = gradients(y, [x], g)
    np.testing.assert_allclose(Walk().run(found), wanted)
    return found


@pytest.mark.rule(113)
def test_reads_pass_their_gradients_to_writes_and_unread_elements_get_zeros():
    x = constant([1.0, 2.0])
    z = constant([5.0, 6.0])
    array = TensorArray("float32", 2, clear_after_read=False).write(0, x).write(1, z)
    y = array.read(0) * 3.0 + array.read(0)
    dx, dz = gradients(y, [x, z])
    walk = Walk()
    np.testing.assert_array_equal(walk.run(dx), [4, 4])
    np.testing.assert_array_equal(walk.run(dz), [0, 0])


@pytest.mark.rule(113)
def test_unstack_and_stack_are_dual():
    x = constant([[1.0, 2.0], [3.0, 4.0]])
    check(TensorArray("float32").unstack(x).read(1), x, [[0, 0], [1, 1]])
    g = constant([[1.0, 2.0], [3.0, 4.0]])
    check(TensorArray("float32").unstack(x).stack() * x, x, [[2, 8], [18, 32]], g)
    row = constant([1.0, 2.0])
    y = TensorArray("float32", 2).write(1, row).write(0, row * 2.0).stack()
    check(y, row, [2 * 1 + 3, 2 * 2 + 4], g)


@pytest.mark.rule(113)
def test_scatter_and_gather_are_dual():
    x = constant([[1.0], [2.0]])
    array = TensorArray("float32", 3, clear_after_read=False, element_shape=[1]).scatter([2, 0], x)
    g = constant([[10.0], [20.0], [30.0], [40.0]])
    check(array.gather([0, 2, 1, 0]), x, [[20], [50]], g)


@pytest.mark.rule(113)
def test_split_and_concat_are_dual():
    x = constant([1.0, 2.0, 3.0])
    pieces = TensorArray("float32", 2, infer_shape=False, clear_after_read=False).split(x, [1, 2])
    check(pieces.concat(), x, [4, 5, 6], constant([4.0, 5.0, 6.0]))
    check(pieces.read(1), x, [0, 1, 1], constant([1.0, 1.0]))
    a, b = constant([1.0]), constant([2.0, 3.0])
    joined = TensorArray("float32", 2, infer_shape=False).write(0, a).write(1, b).concat()
    da, db = gradients(joined, [a, b], constant([7.0, 8.0, 9.0]))
    walk = Walk()
    assert [walk.run(t).tolist() for t in (da, db)] == [[7], [8, 9]]


@pytest.mark.rule(111)
def test_two_gradient_calls_in_one_step_do_not_share_an_array():
    x = constant(3.0)
    y = TensorArray("float32", 1).write(0, x).read(0)
    (first,), (second,) = gradients(y, [x]), gradients(y, [x])
    walk = Walk()
    assert [walk.run(first), walk.run(second)] == [1, 1]


@pytest.mark.rule(112, 113)
def test_second_order_goes_through_gradient_arrays():
    x = constant([2.0, 3.0])
    array = TensorArray("float32", 2, clear_after_read=False).unstack(x)
    y = array.read(0) * array.read(0) * array.read(1)
    (dx,) = gradients(y, [x])
    np.testing.assert_allclose(Walk().run(dx), [12, 4])
    (row,) = gradients(dx, [x], constant([1.0, 0.0]))
    np.testing.assert_allclose(Walk().run(row), [6, 4])
    (third,) = gradients(row, [x], constant([0.0, 1.0]))
    np.testing.assert_allclose(Walk().run(third), [2, 0])


def test_gradients_need_a_scope():
    x = constant(3.0)
    y = TensorArray("float32", 1).write(0, x).read(0)
    with pytest.raises(GraphError, match="only built by gradients"):
        pull_back([y], [constant(1.0)], [x])


@pytest.mark.rule(111, 112)
def test_a_gradient_array_of_ones_own():
    array = TensorArray("float32", 2).write(0, [1.0, 2.0]).write(1, [3.0, 4.0])
    sums = array.grad("mine").write(0, [1.0, 1.0])
    again = array.grad("mine", flow=sums.flow).write(0, [10.0, 10.0])
    assert (again.dtype, again.element_shape) == ("float32", [2])
    np.testing.assert_array_equal(Walk().run(again.stack()), [[11, 11], [0, 0]])


def test_the_size_is_a_scalar():
    with pytest.raises(ShapeError, match="size of a TensorArray") as refused:
        TensorArray("float32", size=[3])
    assert refused.value.hint


def test_no_elements_of_a_known_shape_are_joined():
    value, lengths = storage(0).concat((), at("c"), Shape([3, 5]))
    assert [value.shape, lengths.shape] == [(0, 5), (0,)]
    array = TensorArray("float32", size=0, dynamic_size=False)
    array.unstack(np.zeros([0, 3, 5], np.float32))
    assert Walk().run(array.concat()).shape == (0, 5)
