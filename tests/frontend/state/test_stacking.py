"""``stack``: tensors joined, and last-in-first-out stacks while a step runs (rules 102 and 103)."""

import numpy as np
import pytest
import tagloom as tg


def after(value):
    return tg.control_dependencies([value])


class TestJoining:
    def test_along_an_axis(self, run):
        a, b = tg.constant([1, 2]), tg.constant([3, 4])
        assert run(tg.stack([a, b])).tolist() == [[1, 2], [3, 4]]
        assert run(tg.stack([a, b], 1, "columns")).tolist() == [[1, 3], [2, 4]]
        assert run(tg.stack(values=(a, b), axis=-1)).tolist() == [[1, 3], [2, 4]]

    def test_gradient(self, run):
        a = tg.constant([1.0, 2.0])
        assert run(tg.gradients(tg.stack([a, a * 3.0]), [a]))[0].tolist() == [4.0, 4.0]


@pytest.mark.rule(102)
class TestLastInFirstOut:
    def test_pops_in_reverse(self, run):
        handle = tg.stack(elem_type="int32")
        first = tg.stack_push(handle, 1)
        with after(first):
            second = tg.stack_push(handle, 2)
        with after(second):
            top = tg.stack_pop(handle, "int32")
        with after(top):
            bottom = tg.stack_pop(handle, "int32")
        assert run([top, bottom]) == [2, 1]
        assert run([top, bottom]) == [2, 1]  # a new stack in each step

    def test_one_name_makes_no_common_stack(self, run):
        one, two = (tg.stack(elem_type="int32", stack_name="s") for _ in range(2))
        with after(tg.stack_push(one, 1)):
            top = tg.stack_pop(two, "int32")
        with pytest.raises(tg.StackError, match="is empty"):
            run(top)

    def test_what_a_loop_pushes_another_pops(self, run):
        handle = tg.stack(elem_type="int32")

        def push(i):
            with after(tg.stack_push(handle, i * i)):
                return i + 1

        def pop(i, found):
            return i + 1, found.write(i, tg.stack_pop(handle, "int32"))

        pushed = tg.while_loop(lambda i: i < 4, push, [0], parallel_iterations=1)
        with after(pushed):
            start = tg.identity(0)
        found = tg.TensorArray("int32", 4, element_shape=[])
        _, found = tg.while_loop(lambda i, f: i < 4, pop, (start, found), parallel_iterations=1)
        assert run(found.stack()).tolist() == [9, 4, 1, 0]


@pytest.mark.rule(103)
class TestErrors:
    def test_push_returns_its_input(self, run):
        handle = tg.stack(elem_type="float32")
        assert run(tg.stack_push(handle, [1.0, 2.0])).tolist() == [1.0, 2.0]

    def test_overflow(self, run):
        handle = tg.stack(elem_type="int32", max_size=1, stack_name="small")
        with after(tg.stack_push(handle, 1)):
            second = tg.stack_push(handle, 2)
        with pytest.raises(tg.StackError, match="'small' overflowed its max_size of 1") as caught:
            run(second)
        assert caught.value.source.file == __file__

    def test_another_dtype(self, run):
        with pytest.raises(tg.StackError, match="another dtype"):
            run(tg.stack_push(tg.stack(elem_type="int32"), np.float64(1)))

    def test_use_after_close(self, run):
        handle = tg.stack(elem_type="int32")
        with after(tg.stack_close(handle)):
            late = tg.stack_push(handle, 1)
        with pytest.raises(tg.StackError, match="closed"):
            run(late)


@pytest.mark.parametrize("arguments", [{}, {"values": [1.0], "elem_type": "float32"}])
def test_it_is_one_or_the_other(arguments):
    with pytest.raises(tg.GraphError, match="either joins tensors or makes"):
        tg.stack(**arguments)


def test_parallel_stack_is_stack_for_shapes_that_are_known(run):
    x = tg.constant([1.0, 2.0])
    y = tg.parallel_stack([x, x * 3.0], name="both")
    assert y.op.name == "both"
    assert y.shape == [2, 2]
    assert run(y).tolist() == [[1.0, 2.0], [3.0, 6.0]]
    assert run(tg.gradients(y, [x]))[0].tolist() == [4.0, 4.0]
    with pytest.raises(tg.ShapeError, match="shapes that are known") as caught:
        tg.parallel_stack([tg.placeholder("float32", [None])])
    assert "use stack" in str(caught.value)
