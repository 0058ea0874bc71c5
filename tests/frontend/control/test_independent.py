"""while_loop(independent=True): what keeps iterations apart is refused, by name, and nothing else is."""

from dataclasses import dataclass

import numpy as np
import pytest
import tagloom as tg


def below(n):
    return lambda i, *_: i < n


def refused(cond, body, loop_vars, **options):
    with pytest.raises(tg.GraphError) as caught:
        tg.while_loop(cond, body, loop_vars, independent=True, **options)
    return caught.value


def accepted(cond, body, loop_vars, **options):
    result = tg.while_loop(cond, body, loop_vars, independent=True, **options)
    with tg.SyncSession() as session:
        return session.run([t.stack() if isinstance(t, tg.TensorArray) else t for t in result])


def array(n=4, dtype="float32"):
    return tg.TensorArray(dtype, n, element_shape=[])


def test_a_sum_is_refused_with_its_name_and_path():
    error = refused(below(3), lambda i, total: (i + 1, tg.add(tg.tanh(total, name="squash"), 1.0, name="up")), [0, 0.0])
    assert "loop variable total" in str(error)
    assert error.got == "total -> squash -> up -> total"
    assert error.operation.name == "up"
    assert "test_independent.py" in str(error.source)


def test_counters_and_distinct_writes_are_accepted():
    def body(i, a):
        return i + 1, a.write(2 * i + 1, tg.cast(i, "float32")).write(i * 2, 0.0)

    assert accepted(below(2), body, [0, array()])[1].tolist() == [0, 0, 0, 1]


def test_counting_down_by_a_step_from_outside():
    step = tg.constant(2, name="step")
    filled = array(3).write(1, 0.0)
    assert accepted(lambda i, a: i > 0, lambda i, a: (i - step, a.write(i - 1, 1.0)), [3, filled])[0] == -1


def test_what_stays_as_it_is_and_what_forgets_is_accepted():
    def body(i, same, fresh):
        return 1 + i, tg.identity(same), tg.cast(i, "float32") * same

    assert accepted(below(3), body, [0, 5.0, 0.0])[2] == 10.0


def test_maximum_iterations_is_a_counter():
    options = {"maximum_iterations": 2, "return_same_structure": True}
    assert accepted(lambda i: i < 9, lambda i: [i + 1], [0], **options) == [2]


def test_a_cycle_through_two_variables():
    error = refused(below(3), lambda i, a, b: (i + 1, tg.exp(b, name="grow"), tg.log(a, name="shrink")), [0, 1.0, 1.0])
    assert error.got == "a -> shrink -> grow -> a"


def test_a_shift_register_is_accepted():
    assert accepted(below(3), lambda i, a, b: (i + 1, tg.cast(i, "float32"), a), [0, -2.0, -1.0])[2] == 1.0


def test_a_step_that_changes_is_no_counter():
    assert "variable i " in str(refused(lambda i, d: i < 9, lambda i, d: (i + d, d + 1), [0, 1]))


def test_a_vector_that_grows_is_no_counter():
    assert "variable v " in str(refused(below(3), lambda i, v: (i + 1, v + 1.0), [0, tg.zeros([4])]))


def test_reading_the_array_that_is_written():
    def body(i, a):
        return i + 1, a.write(i, a.read(i - 1, name="before") + 1.0)

    error = refused(below(3), body, [1, array().write(0, 0.0)])
    assert error.got.startswith("a -> before")


@pytest.mark.parametrize("index", [lambda i: i * 0, lambda i: i * i, lambda i: tg.minimum(i, 1), lambda i: 2])
def test_writes_whose_indices_may_meet(index):
    assert "variable a " in str(refused(below(3), lambda i, a: (i + 1, a.write(index(i), 1.0)), [0, array()]))


def test_a_predicate_that_waits_for_a_value():
    error = refused(lambda i, x: x < 9.0, lambda i, x: (i + 1, tg.exp(tg.cast(i, "float32"))), [0, 0.0])
    assert "variable x " in str(error)
    assert error.got.endswith("-> the predicate")


def test_dependencies_through_branches_loops_and_controls():
    def branch(i, a):
        return i + 1, tg.cond(i < 1, lambda: a, lambda: 0.0)

    def inner(i, a):
        return i + 1, tg.while_loop(lambda j, _: j < 2, lambda j, b: (j + 1, b * 2.0), [0, a])[1]

    def chosen(i, a):
        return i + 1, tg.cond(a < 1.0, lambda: 1.0, lambda: 0.0)

    def ordered(i, a):
        with tg.control_dependencies([tg.exp(a)]):
            one = tg.identity(1.0)
        return i + 1, one

    for body in (branch, inner, chosen, ordered):
        assert "variable a " in str(refused(below(3), body, [0, 0.0])), body


def test_inner_loops_of_what_does_not_change_are_accepted():
    x = tg.constant(2.0)

    def body(i, a):
        power = tg.while_loop(lambda j, _: j < i, lambda j, p: (j + 1, p * x), [0, 1.0])[1]
        return i + 1, a.write(i, tg.cond(i < 3, lambda: power, lambda: -power))

    assert accepted(below(4), body, [0, array()])[1].tolist() == [1, 2, 4, -8]


@dataclass
class State:
    i: object
    h: object


def test_names_within_structures():
    error = refused(lambda s: s.i < 3, lambda s: State(s.i + 1, tg.tanh(s.h)), State(0, 1.0))
    assert "variable s.h " in str(error)
    error = refused(lambda i, s: i < 3, lambda i, s: (i + 1, {"h": tg.tanh(s["h"])}), (0, {"h": 1.0}))
    assert "variable s['h'] " in str(error)
    error = refused(lambda i, *rest: i < 3, lambda *all_: (all_[0] + 1, tg.tanh(all_[1])), (0, 1.0))
    assert "variable 1 " in str(error)


def test_a_single_variable():
    assert "variable x " in str(refused(lambda x: x < 3.0, lambda x: tg.exp(x), [0.0]))


def test_fetched_values_equal_those_of_the_plain_loop():
    x = tg.constant(np.arange(4, dtype=np.float32))

    def body(i, a):
        return i + 1, a.write(i, tg.exp(x[i]))

    plain = tg.while_loop(below(4), body, [0, array()])[1].stack()
    with tg.SyncSession() as session:
        np.testing.assert_array_equal(accepted(below(4), body, [0, array()])[1], session.run(plain))
