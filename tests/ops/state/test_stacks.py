import numpy as np
import pytest
from tagloom.base.errors import StackError
from tagloom.ir import scopes
from tagloom.ir.apply import constant
from tagloom.ops.state.stacks import stack, stack_close, stack_pop, stack_push

from tests.ops.instances import Walk

pytestmark = pytest.mark.usefixtures("graph")


def after(*tensors):
    return scopes.within(control_inputs=tuple(getattr(t, "op", t) for t in tensors))


@pytest.mark.rule(103)
def test_last_in_first_out_and_a_push_returns_its_input():
    handle = stack(elem_type="float32")
    first = stack_push(handle, constant(1.0))
    with after(first):
        second = stack_push(handle, constant([2.0, 3.0]))
    with after(second):
        top = stack_pop(handle)
    with after(top):
        bottom = stack_pop(handle)
    walk = Walk()
    assert walk.run(bottom) == 1
    assert [walk.run(t).tolist() for t in (first, second, top)] == [1.0, [2, 3], [2, 3]]


@pytest.mark.rule(102)
def test_each_execution_makes_a_new_stack_whatever_its_name():
    a, b = stack(stack_name="s"), stack(stack_name="s")
    push = stack_push(a, constant(1.0))
    with after(push):
        pop = stack_pop(b)
    with pytest.raises(StackError, match="'s' is empty"):
        Walk().run(pop)
    walk = Walk()
    assert walk.run(a) is not Walk(walk.step).run(a)


@pytest.mark.rule(102, 103)
def test_a_bound_is_kept():
    handle = stack(max_size=1, stack_name="small")
    push = stack_push(handle, constant(1.0))
    with after(push):
        over = stack_push(handle, constant(2.0))
    with pytest.raises(StackError, match="'small' overflowed its max_size of 1"):
        Walk().run(over)


@pytest.mark.rule(103)
def test_another_dtype_and_use_after_close_are_refused():
    handle = stack(elem_type="float32", stack_name="s")
    with pytest.raises(StackError, match=r"another dtype(.|\n)*wanted: float32(.|\n)*got: int32"):
        Walk().run(stack_push(handle, constant(1)))
    with pytest.raises(StackError, match="popped as another dtype"):
        Walk().run(stack_pop(handle, "int32"))
    with after(stack_close(handle)):
        late = stack_push(handle, constant(1.0))
    with pytest.raises(StackError, match="used after it was closed"):
        Walk().run(late)


@pytest.mark.rule(104)
def test_swap_memory_changes_no_result():
    for swap in (False, True):
        handle = stack()
        push = stack_push(handle, constant(np.ones(1000, np.float32)), swap_memory=swap)
        with after(push):
            pop = stack_pop(handle)
        np.testing.assert_array_equal(Walk().run(pop), np.ones(1000))
