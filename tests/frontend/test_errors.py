"""What can not be built or compiled is refused, naming the operations, what was wanted and what to try."""

from typing import NamedTuple

import numpy as np
import pytest
from tagloom.base.errors import BranchMismatchError, DtypeError, GraphError, LoopVariableError, ShapeError
from tagloom.base.shapes import Shape
from tagloom.frontend.control.conditional import case, cond, switch_case
from tagloom.frontend.control.loops import while_loop
from tagloom.ir.apply import apply, constant
from tagloom.ir.program import Program
from tagloom.ops.control.placeholders import identity, placeholder
from tagloom.ops.control.primitives import enter, exit, loop_cond, merge, next_iteration, switch

from tests.ops.evaluation import declare_all
from tests.support.compiling import plan_of

declare_all()


def compiled(*fetches):
    return plan_of(Program(fetches[0].graph, [], list(fetches)))


# ---- cond


@pytest.mark.rule(68)
@pytest.mark.parametrize(
    ("true", "false", "got"),
    [
        (lambda: [constant(1), constant(2)], lambda: [constant(1)], "single value"),
        (lambda: (constant(1), constant(2)), lambda: [constant(1), constant(2)], "tuple"),
        (lambda: {"a": constant(1), "b": constant(1)}, lambda: {"a": constant(1), "c": constant(1)}, "keys"),
        (lambda: [constant(1), [constant(2)]], lambda: [constant(1), constant(2)], r"\[1\] is"),
    ],
)
def test_branches_of_different_structure(true, false, got):
    with pytest.raises(BranchMismatchError, match="return different structures") as caught:
        cond(placeholder("bool", []), true, false, name="choose")
    assert "choose" in caught.value.what
    with pytest.raises(BranchMismatchError, match=got):
        cond(placeholder("bool", []), true, false)


@pytest.mark.rule(68)
def test_branches_of_different_dtype():
    with pytest.raises(BranchMismatchError, match=r"different dtypes for \['a'\]") as caught:
        cond(
            placeholder("bool", []),
            lambda: {"a": constant(1, name="one")},
            lambda: {"a": identity(constant(1.0))},
        )
    assert caught.value.wanted == "float32 (from the false branch)"
    assert caught.value.got == "int32 (from the true branch)"
    assert caught.value.operation.name == "one"
    assert "cast(..., 'float32')" in caught.value.hint


@pytest.mark.rule(64)
def test_a_python_bool_is_no_predicate():
    with pytest.raises(GraphError, match="Python bool"):
        cond(True, lambda: 1, lambda: 2)


@pytest.mark.rule(67)
def test_none_is_no_result():
    with pytest.raises(GraphError, match="must return tensors"):
        cond(placeholder("bool", []), lambda: None, lambda: None)


def test_predicates_are_scalars_of_the_right_dtype():
    with pytest.raises(DtypeError, match="predicate of cond") as caught:
        cond(constant(1), lambda: 1, lambda: 2)
    assert (str(caught.value.wanted), str(caught.value.got)) == ("bool", "int32")
    with pytest.raises(ShapeError, match="must be a scalar"):
        cond(placeholder("bool", [2]), lambda: 1, lambda: 2)
    with pytest.raises(DtypeError, match="predicate of switch_case"):
        switch_case(constant(True), [lambda: 1])


def test_case_and_switch_case_need_branches():
    with pytest.raises(GraphError, match="at least one branch"):
        switch_case(constant(0), [])
    with pytest.raises(GraphError, match="0 to n-1"):
        switch_case(constant(0), {0: lambda: 1, 2: lambda: 2})
    with pytest.raises(GraphError, match="at least one"):
        case([])


# ---- while_loop


@pytest.mark.rule(80)
@pytest.mark.parametrize(
    ("body", "got"),
    [
        (lambda i, d: (i + 1,), "2 elements on one side and 1"),
        (lambda i, d: (i + 1, d, d), "2 elements on one side and 3"),
        (lambda i, d: (i + 1, d["a"]), r"\[1\] is a dict on one side"),
        (lambda i, d: (i + 1, {"b": d["a"]}), "keys"),
    ],
)
def test_a_body_of_another_structure(body, got):
    with pytest.raises(LoopVariableError, match=got):
        while_loop(lambda i, d: i < 3, body, (0, {"a": constant(1.0)}))


class Pair(NamedTuple):
    left: object
    right: object


@pytest.mark.rule(80)
def test_only_the_outermost_sequence_type_is_free():
    out = while_loop(lambda i, p: i < 3, lambda i, p: [i + 1, Pair(p.right, p.left)], (0, Pair(1, 2)))
    assert isinstance(out, tuple)
    assert isinstance(out[1], Pair)
    with pytest.raises(LoopVariableError, match=r"\[1\] is a Pair on one side and a tuple"):
        while_loop(lambda i, p: i < 3, lambda i, p: [i + 1, (p.right, p.left)], (0, Pair(1, 2)))


@pytest.mark.rule(79)
def test_a_loop_variable_keeps_its_dtype():
    with pytest.raises(LoopVariableError, match=r"loop variable \[1\] changes its dtype") as caught:
        while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, i), [0, 1.0])
    assert (str(caught.value.wanted), str(caught.value.got)) == ("float32", "int32")
    assert "cast(..., 'float32')" in caught.value.hint


@pytest.mark.rule(79)
def test_a_loop_variable_keeps_its_shape_unless_told():
    x, row = placeholder("float32", [1]), placeholder("float32", [None])

    def body(i, y):
        return i + 1, row

    with pytest.raises(LoopVariableError, match=r"loop variable \[1\] changes its shape") as caught:
        while_loop(lambda i, y: i < 3, body, [0, x])
    assert (caught.value.wanted, caught.value.got) == ([1], [None])
    assert "shape_invariants with [?]" in caught.value.hint
    out = while_loop(lambda i, y: i < 3, body, [0, x], shape_invariants=[[], [None]])
    assert out[1].shape == [None]


@pytest.mark.rule(79)
def test_an_initial_value_fits_its_shape_invariant():
    with pytest.raises(LoopVariableError, match="not compatible with its shape invariant") as caught:
        while_loop(lambda i, y: i < 3, lambda i, y: (i, y), [0, placeholder("float32", [2])], [[], [3]])
    assert (caught.value.wanted, caught.value.got) == (Shape([3]), Shape([2]))
    with pytest.raises(LoopVariableError, match="structure of loop_vars"):
        while_loop(lambda i, y: i < 3, lambda i, y: (i, y), [0, 1.0], [[]])


def test_the_predicate_of_a_loop_is_a_bool_scalar():
    with pytest.raises(DtypeError, match="predicate of while_loop must be bool"):
        while_loop(lambda i: i, lambda i: i, [0])
    with pytest.raises(ShapeError, match="must be a scalar"):
        while_loop(lambda x: x < 1, lambda x: x, [np.zeros(2)])


def test_a_loop_has_variables():
    with pytest.raises(GraphError, match="at least one loop variable"):
        while_loop(lambda: constant(True), lambda: [], [])


@pytest.mark.rule(35)
@pytest.mark.parametrize("window", [0, -1, 1.5])
def test_the_window_is_a_positive_integer(window):
    with pytest.raises(GraphError, match="must be a positive integer"):
        while_loop(lambda i: i < 3, lambda i: i + 1, [0], parallel_iterations=window)


@pytest.mark.rule(81)
@pytest.mark.parametrize("maximum", ["many", 1.5, [1, 2]])
def test_maximum_iterations_is_an_integer_scalar(maximum):
    with pytest.raises(GraphError, match="maximum_iterations must be an integer scalar"):
        while_loop(lambda i: i < 3, lambda i: i + 1, [0], maximum_iterations=maximum)


def countdown(n):
    return cond(n > 0, lambda: countdown(n - 1), lambda: n)


def forever(n):
    return while_loop(lambda i: i < n, lambda i: forever(i), [n])


@pytest.mark.parametrize("function", [countdown, forever])
def test_a_function_that_calls_itself_while_it_is_built(function):
    with pytest.raises(GraphError, match="nested too deep") as caught:
        function(constant(3))
    assert "while_loop" in caught.value.hint


def test_a_recursion_of_the_users_own_is_his():
    def recurse():
        return recurse()

    with pytest.raises(RecursionError):
        cond(placeholder("bool", []), recurse, lambda: 1)


# ---- tensors out of scope


@pytest.mark.rule(63)
def test_a_tensor_of_a_body_is_not_used_outside():
    leaked = []
    while_loop(lambda i: i < 3, lambda i: leaked.append(i * 2) or i + 1, [0], name="loop")
    with pytest.raises(GraphError, match="used outside the loop body it was made in") as caught:
        leaked[0] + 1
    assert "loop body of loop" in caught.value.got
    assert "test_errors.py" in caught.value.got
    assert "tensor of the graph" in caught.value.wanted
    assert caught.value.operation is leaked[0].op


@pytest.mark.rule(63)
def test_a_tensor_of_a_branch_is_not_used_outside_nor_in_another():
    leaked, p = [], placeholder("bool", [])
    with pytest.raises(GraphError, match="used outside the true branch it was made in"):
        cond(p, lambda: leaked.append(constant(1) + 1) or leaked[0], lambda: leaked[0] + 1)


@pytest.mark.rule(63)
def test_a_tensor_of_one_loop_is_not_used_in_another():
    leaked = []
    while_loop(lambda i: i < 3, lambda i: leaked.append(i) or i + 1, [0], name="first")
    with pytest.raises(GraphError, match="outside the loop body it was made in"):
        while_loop(lambda i: i < leaked[0], lambda i: i + 1, [0], name="second")


@pytest.mark.rule(63)
def test_a_tensor_of_a_loop_is_used_in_a_loop_inside_it():
    y = while_loop(lambda i: i < 3, lambda i: while_loop(lambda j: j < i, lambda j: j + i + 1, [0]) + i + 1, [0])
    assert compiled(y).num_fetches == 1


def test_a_result_out_of_scope_names_both_places():
    leaked, p = [], placeholder("bool", [])
    with pytest.raises(GraphError) as caught:
        cond(p, lambda: cond(p, lambda: leaked.append(constant(1) * 2) or leaked[0], lambda: 0) * leaked[0], lambda: 1)
    assert "true branch" in caught.value.wanted
    assert "true branch" in caught.value.got


# ---- hand-made loops


@pytest.mark.rule(52)
def test_two_frames_in_one_operation():
    a, b = enter(constant(1), "a", name="in_a"), enter(constant(2), "b", name="in_b")
    with pytest.raises(GraphError, match="mixed has inputs from different frames") as caught:
        compiled(exit(apply("Add", a, b, name="mixed")))
    assert caught.value.wanted == "inputs of frame 'a'"
    assert "in_b:0 of frame 'b'" in caught.value.got


@pytest.mark.rule(52)
def test_a_frame_and_the_root_in_one_operation():
    x = constant(1)
    with pytest.raises(GraphError, match="inputs from different frames") as caught:
        compiled(exit(enter(constant(1), "a") + x))
    assert "frame 'root'" in caught.value.got


@pytest.mark.rule(53)
def test_an_exit_without_enter():
    with pytest.raises(GraphError, match="no corresponding Enter") as caught:
        compiled(exit(constant(1), name="lost"))
    assert caught.value.operation.name == "lost"


@pytest.mark.rule(53)
def test_a_frame_has_a_name():
    with pytest.raises(GraphError, match="a frame needs a name"):
        enter(constant(1), "")


@pytest.mark.rule(54)
def test_enters_of_a_frame_have_one_parent():
    inner = enter(enter(constant(1), "outer"), "same")
    other = enter(constant(2), "same")
    with pytest.raises(GraphError, match="frame 'same' has mismatched parent frames") as caught:
        compiled(exit(exit(inner)), exit(other))
    assert {caught.value.wanted, caught.value.got} == {"outer", "the root frame"}


@pytest.mark.rule(54)
def test_a_frame_has_one_loop_cond():
    x = enter(constant(True), "frame")
    first, second = loop_cond(x), loop_cond(identity(x))
    with pytest.raises(GraphError, match="frame 'frame' has more than one LoopCond"):
        compiled(exit(first), exit(second))


@pytest.mark.rule(55)
def test_a_cycle_without_next_iteration():
    start = enter(constant(0), "frame")
    variable, _ = merge([start, start])
    done, more = switch(variable, loop_cond(variable < 3))
    variable.op.update_input(1, identity(more, name="back"))
    with pytest.raises(GraphError, match="contains a cycle") as caught:
        compiled(exit(done))
    assert "back" in caught.value.got
    assert "NextIteration to a Merge" in caught.value.hint


@pytest.mark.rule(55)
def test_a_next_iteration_that_leads_to_something_else_than_a_merge():
    first = identity(enter(constant(0), "frame"), name="first")
    second = next_iteration(first)
    first.op.update_input(0, second)
    with pytest.raises(GraphError, match="contains a cycle"):
        compiled(exit(first))


@pytest.mark.rule(56)
def test_static_shapes_of_the_primitives():
    x, y = placeholder("float32", [2, 3]), placeholder("float32", [4, 3])
    merged, index = merge([x, y])
    assert (merged.shape, index.shape) == ([None, 3], [])
    assert merge([x, placeholder("float32", [2])])[0].shape == Shape(None)
    assert enter(x, "frame").shape == Shape(None)
    assert enter(x, "frame", is_constant=True).shape == [2, 3]
    assert exit(x).shape == [2, 3]
    assert next_iteration(x).shape == [2, 3]
    with pytest.raises(ShapeError, match="must be a scalar"):
        loop_cond(placeholder("bool", [1]))
