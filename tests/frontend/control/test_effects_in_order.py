"""Reads and writes of a variable, calls of Python and prints happen in the order in which they were built."""

import asyncio
import sys

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import AdamOptimizer, GradientDescentOptimizer, MomentumOptimizer


def after(operation, value):
    with tg.control_dependencies([operation]):
        return tg.identity(value)


def squares(v, count):
    return tg.while_loop(lambda i: i < count, lambda i: after(v.assign(tg.square(v)), i + 1), [0])


def types_in(region):
    return [op.type for op in region.operations]


# ---- one after another


@pytest.mark.rule(140, 141)
def test_a_use_is_the_value_where_it_stands(run):
    v = tg.Variable(1.0)
    first = v + 0.0
    added = v.assign_add(10.0)
    second = v + 0.0
    doubled = v.assign(v * 2.0)
    third = v + 0.0
    run(v.initializer)
    assert run([third, second, first, doubled, added]) == [22.0, 11.0, 1.0, 22.0, 11.0]
    assert run(v) == 22.0


@pytest.mark.rule(141)
def test_the_initializer_comes_before_all_reads(run):
    v = tg.Variable(3.0, name="v")
    w = tg.Variable(v * 2.0)
    assert run([v, w + 0.0, tg.global_variables_initializer()])[:2] == [3.0, 6.0]


@pytest.mark.rule(143)
def test_order_adds_no_work(run):
    v = tg.Variable(1.0)
    v.assign_add(10.0)
    read = v + 0.0
    run(v.initializer)
    assert [run(read), run(v)] == [1.0, 1.0]


@pytest.mark.rule(141)
def test_uses_between_two_writes_are_one_read(graph):
    v = tg.Variable(1.0)
    for _ in range(3):
        _ = v + 1.0
    v.assign(2.0)
    for _ in range(3):
        _ = v + 1.0
    assert types_in(graph.root).count("ReadVariable") == 2


@pytest.mark.rule(142)
def test_a_fed_variable_has_that_value_until_the_step_writes_it(run):
    v = tg.Variable(1.0)
    before = v * 1.0
    v.assign(5.0)
    later = v * 1.0
    change = v.assign_add(7.0)
    last = v * 1.0
    run(v.initializer)
    assert run([before, later], {v: 3.0}) == [3.0, 3.0]
    assert run([before, change, last], {v: 3.0}) == [3.0, 8.0, 8.0]


@pytest.mark.rule(140)
def test_rows_are_updated_in_order(run):
    v = tg.Variable(np.zeros([3, 2], np.float32))
    added = v.scatter_add([0, 2], np.ones([2, 2], np.float32))
    read = v + 0.0
    set_ = v.scatter_update([2], np.full([1, 2], 5.0, np.float32))
    taken = v.scatter_sub([2], np.ones([1, 2], np.float32))
    run(v.initializer)
    run([taken.op, set_.op, added.op, read])
    np.testing.assert_array_equal(run(v), [[1, 1], [0, 0], [4, 4]])


def test_is_initialized_is_a_read(run):
    v = tg.Variable(1.0)
    before = v.is_initialized()
    with tg.control_dependencies([before]):
        assigned = v.assign(2.0)
    known = v.is_initialized()
    assert run([known, assigned, before]) == [True, 2.0, False]


@pytest.mark.rule(145)
def test_a_free_update_waits_for_nobody(run):
    event = asyncio.Event()

    async def wait():
        await event.wait()
        return np.float32(1)

    v = tg.Variable(0.0)
    slow = v.assign_add(tg.py_function(wait, [], "float32", stateful=False, output_shapes=[]))
    free = v.assign_add(10.0, ordered=False)
    opened = tg.py_function(lambda _: event.set(), [free], [], stateful=False)
    run(v.initializer)
    assert run([slow, free, opened])[:2] == [11.0, 10.0]


@pytest.mark.rule(145)
def test_a_free_update_does_not_make_a_loop_wait(graph):
    v = tg.Variable(0.0)
    loop = tg.while_loop(lambda i: i < 3, lambda i: after(v.assign_add(v + 1.0, ordered=False), i + 1), [0])
    assert "ReadVariable" not in types_in(loop.op.regions[1]), "nothing in the loop is in order"


# ---- branches


@pytest.mark.rule(140)
@pytest.mark.parametrize("taken", [False, True])
def test_a_branch_counts_as_one_access(run, taken):
    v = tg.Variable(1.0)
    p = tg.placeholder("bool", [])

    def change():
        before = v + 0.0
        v2 = v.assign(before * 10.0)
        return before, v2 + 0.0, v + 0.0

    first = v + 0.0
    inside = tg.cond(p, change, lambda: (v + 0.0, v + 100.0, v + 200.0))
    second = v + 0.0
    added = v.assign_add(1.0)
    third = v + 0.0
    run(v.initializer)
    got = run([first, *inside, second, added, third], {p: taken})
    assert got == ([1, 1, 10, 10, 10, 11, 11] if taken else [1, 1, 101, 201, 1, 2, 2])


@pytest.mark.rule(140)
def test_the_other_branch_reads_what_was_before(run):
    v, p = tg.Variable(1.0), tg.placeholder("bool", [])
    result = tg.cond(p, lambda: v.assign(7.0), lambda: v * 3.0)
    run(v.initializer)
    assert [run([result, v + 0.0], {p: False}), run([result, v + 0.0], {p: True})] == [[3.0, 1.0], [7.0, 7.0]]


@pytest.mark.rule(140)
def test_writes_in_branches_one_after_another(run):
    v = tg.Variable(1.0)
    changed = [tg.cond(v < 20.0, lambda: v.assign(v * 3.0), lambda: v.assign(v - 1.0)) for _ in range(5)]
    run(v.initializer)
    assert run([v + 0.0, *changed]) == [25.0, 3.0, 9.0, 27.0, 26.0, 25.0]


# ---- loops


@pytest.mark.rule(140)
@pytest.mark.parametrize("window", [1, 2, 32])
def test_iterations_come_one_after_another(run, window):
    v = tg.Variable(2.0)

    def body(i):
        return after(v.assign(tg.square(v)), i + 1)

    loop = tg.while_loop(lambda i: i < 4, body, [0], parallel_iterations=window)
    behind = v + 0.0
    run(v.initializer)
    assert run([v, loop, behind]) == [2.0, 4, 65536.0]


@pytest.mark.rule(140)
def test_a_predicate_sees_the_updates(run):
    v, calls = tg.Variable(0.0), []

    def body(i):
        return after(v.assign_add(1.5), i + 1)

    loop = tg.while_loop(lambda _: v < 10.0, body, [0])
    noted = tg.py_function(lambda x: calls.append(float(x)), [v], [])
    run(v.initializer)
    assert run([loop, noted])[0] == 7
    assert calls == [10.5]


@pytest.mark.rule(140)
def test_nested_loops_and_branches(run):
    v = tg.Variable(1.0)

    def inner(j):
        change = tg.cond(tg.equal(j % 2, 0), lambda: v.assign(v * 2.0), lambda: v.assign(v + 1.0))
        return after(change, j + 1)

    def outer(i):
        return after(v.assign_sub(tg.cast(after(tg.while_loop(lambda j: j < i, inner, [0]), i), "float32")), i + 1)

    loop = tg.while_loop(lambda i: i < 5, outer, [0])
    run(v.initializer)
    expected = 1.0
    for i in range(5):
        for j in range(i):
            expected = expected + 1 if j % 2 else expected * 2
        expected -= i
    assert run([loop, v + 0.0]) == [5, expected]


@pytest.mark.rule(142)
def test_a_loop_that_only_reads_reads_once_outside(run, graph):
    v = tg.Variable(2.0)

    def body(i, x):
        inner = tg.while_loop(lambda j, y: y < v * 8.0, lambda j, y: (j + 1, y * v), [0, x])[1]
        return i + 1, inner + tg.cond(i < 2, lambda: v + 0.0, lambda: v * 2.0)

    loop = tg.while_loop(lambda i, x: i < 4, body, [0, v * 1.0])[0]
    assert "ReadVariable" in types_in(graph.root)
    assert not any(op.type == "ReadVariable" for region in loop.op.regions for op in region.walk())
    run(v.initializer)
    assert run(loop) == 4


@pytest.mark.rule(142)
def test_an_inner_loop_that_only_reads_reads_once_in_each_outer_iteration(run):
    v = tg.Variable(1.0)

    def outer(i, total):
        total = tg.while_loop(lambda j, t: j < 3, lambda j, t: (j + 1, t + v), [0, total])[1]
        return after(v.assign_add(1.0), i + 1), total

    loop = tg.while_loop(lambda i, t: i < 3, outer, [0, 0.0])
    inner = next(op for op in loop[0].op.regions[1].operations if op.is_while)
    assert not any(op.type == "ReadVariable" for region in inner.regions for op in region.walk())
    run(v.initializer)
    assert run(loop) == [3, 18.0]


@pytest.mark.rule(142)
def test_read_value_reads_in_each_iteration(graph):
    v = tg.Variable(1.0)
    loop = tg.while_loop(lambda i: i < v.read_value(), lambda i: i + v.read_value(), [0.0])
    assert all("ReadVariable" in types_in(region) for region in loop.op.regions)


@pytest.mark.rule(140)
def test_a_write_waits_for_all_reads_of_a_loop(run):
    v = tg.Variable(1.0)

    async def late(x):
        await asyncio.sleep(0)
        return x

    def body(i, total):
        waited = tg.py_function(late, [i], "int32", stateful=False, output_shapes=[])
        return i + 1, total + after(waited, v.read_value())

    loop = tg.while_loop(lambda i, t: i < 5, body, [0, 0.0])
    written = v.assign(100.0)
    run(v.initializer)
    assert run([loop[1], written]) == [5.0, 100.0]


@pytest.mark.rule(140)
def test_map_fn_goes_in_order(run):
    v = tg.Variable(0.0)
    mapped = tg.map_fn(lambda x: v.assign(v * 2.0 + x), np.float32([1, 2, 3, 4]))
    run(v.initializer)
    np.testing.assert_array_equal(run(mapped), [1, 4, 11, 26])


# ---- training in a loop


def problem():
    x = np.random.default_rng(3).standard_normal((8, 3)).astype(np.float32)
    target = x @ np.float32([[1.0], [-2.0], [0.5]])
    w = tg.Variable(np.zeros([3, 1], np.float32), name="w")
    return w, lambda: tg.reduce_mean(tg.square(tg.matmul(x, w) - target))


@pytest.mark.rule(140)
@pytest.mark.parametrize(
    "optimizer",
    [lambda: GradientDescentOptimizer(0.1), lambda: MomentumOptimizer(0.05, 0.9), lambda: AdamOptimizer(0.05)],
    ids=["sgd", "momentum", "adam"],
)
def test_training_in_a_loop_is_training_outside(run, optimizer):
    w, loss = problem()
    outside = optimizer().minimize(loss())
    start = tg.global_variables_initializer()
    run(start)
    for _ in range(50):
        run(outside)
    expected = run(w)
    trained = optimizer()

    def body(i):
        return after(trained.minimize(loss()), i + 1)

    loop = tg.while_loop(lambda i: i < 50, body, [0])
    run(tg.global_variables_initializer())
    run(loop)
    np.testing.assert_allclose(run(w), expected, rtol=1e-6, atol=1e-6)
    assert np.abs(expected).max() > 0.3


# ---- gradients


@pytest.mark.rule(140)
@pytest.mark.parametrize("every", [None, 2])
@pytest.mark.parametrize("window", [1, 32])
def test_a_gradient_uses_the_values_that_were_read(run, every, window):
    v, x = tg.Variable(np.float64(2.0)), tg.placeholder("float64", [])

    def body(i, a):
        a = tg.tanh(a * v)
        return after(v.assign_add(a), i + 1), a

    y = tg.while_loop(lambda i, a: i < 4, body, [0, x], parallel_iterations=window, checkpoint_every=every)[1]
    v.assign(-100.0)
    (gradient,) = tg.gradients(y, [x])

    run(v.initializer)
    got = run([y, gradient], {x: 0.3})
    a, factor, slope = 0.3, 2.0, 1.0
    for _ in range(4):  # what is assigned carries no gradient
        slope *= factor * (1 - np.tanh(a * factor) ** 2)
        a, factor = np.tanh(a * factor), factor + np.tanh(a * factor)
    np.testing.assert_allclose(got, [a, slope], rtol=1e-12)


@pytest.mark.rule(140)
def test_the_gradient_of_a_variable_is_the_sum_over_its_reads(run):
    v = tg.Variable(3.0)

    def body(i, a):
        a = a * v
        return after(v.assign(v + 1.0), i + 1), a

    looped = tg.while_loop(lambda i, a: i < 3, body, [0, 2.0])[1]
    y = v * looped
    (gradient,) = tg.gradients(y, [v])
    run(v.initializer)
    product = 2.0 * 3.0 * 4.0 * 5.0 * 6.0
    np.testing.assert_allclose(run([y, gradient]), [product, product * (1 / 3 + 1 / 4 + 1 / 5 + 1 / 6)], rtol=1e-6)


# ---- Python


def noting(calls, name, delay=0):
    async def call(*_):
        for _ in range(delay):
            await asyncio.sleep(0)
        calls.append(name)

    return tg.py_function(call, [], [])


@pytest.mark.rule(144)
def test_calls_come_in_the_order_of_building(run):
    calls = []
    operations = [noting(calls, k, delay=10 - k) for k in range(10)]
    run(operations[::-1])
    assert calls == list(range(10))


@pytest.mark.rule(144)
def test_calls_in_loops_and_branches_come_in_order(run):
    calls = []

    async def note(i, k):
        for _ in range(int(7 * i + k) % 5):
            await asyncio.sleep(0)
        calls.append((int(i), int(k)))

    def call(i, k):
        return tg.py_function(note, [i, tg.constant(k)], [])

    def body(i):
        first = call(i, 0)
        second = tg.cond(tg.equal(i % 2, 0), lambda: after(call(i, 1), 0), lambda: 1)
        return after(first, i + 1) + 0 * second

    loop = tg.while_loop(lambda i: i < 6, body, [0])
    run([loop, call(tg.constant(9), 9)])
    assert calls == [(i, k) for i in range(6) for k in ([0, 1] if i % 2 == 0 else [0])] + [(9, 9)]


@pytest.mark.rule(144)
def test_prints_and_calls_share_one_order(run, capsys):
    def say(text):
        print(text, file=sys.stderr)

    first = tg.print_(1.0, [1.0], message="one ")
    second = tg.py_function(lambda: say("two"), [], [])
    third = tg.print_(1.0, [3.0], message="three ")
    run([third, second, first])
    assert capsys.readouterr().err.split("\n")[:3] == ["one [1.0]", "two", "three [3.0]"]


@pytest.mark.rule(144)
def test_free_calls_overlap(run):
    met = asyncio.Barrier(8)

    async def meet(i):
        await met.wait()
        return i

    def body(i, total):
        return i + 1, total + tg.py_function(meet, [i], "int32", stateful=False, output_shapes=[])

    assert run(tg.while_loop(lambda i, _: i < 8, body, [0, 0])[1]) == 28


# ---- made by hand


@pytest.mark.rule(146)
@pytest.mark.parametrize("taken", [False, True])
def test_a_dead_access_holds_nothing_up(run, taken):
    v, p = tg.Variable(1.0), tg.placeholder("bool", [])
    _, there = tg.switch(tg.constant(5.0), p)
    maybe = v.assign(there)
    added = v.assign_add(1.0)
    read = v + 0.0
    run(v.initializer)
    ended = tg.merge([tg.identity(maybe), tg.switch(tg.constant(0.0), p)[0]])[0]
    assert run([ended, added, read], {p: taken}) == ([5.0, 6.0, 6.0] if taken else [0.0, 2.0, 2.0])


@pytest.mark.rule(146)
def test_calls_in_a_hand_made_loop_are_left_alone(run):
    calls = []

    def note(i):
        calls.append(int(i))
        return i + 1

    entered, limit = tg.enter(tg.constant(0), "by hand"), tg.enter(tg.constant(4), "by hand", is_constant=True)
    merged, _ = tg.merge([entered, entered])
    out, again = tg.switch(merged, tg.loop_cond(merged < limit))
    merged.op.update_input(1, tg.next_iteration(tg.py_function(note, [again], "int32", output_shapes=[])))
    done = tg.exit(out)
    last = tg.py_function(lambda: calls.append(99), [], [])
    assert run([done, last])[0] == 4
    assert sorted(calls) == [0, 1, 2, 3, 99]


# ---- in parts


@pytest.mark.rule(140)
async def test_a_part_needs_what_the_updates_before_it_need(graph):
    v, delta = tg.Variable(1.0), tg.placeholder("float32", [])
    before = v + 0.0
    added = v.assign_add(delta)
    behind = v + 0.0
    async with tg.Session(graph) as session:
        await session.run(v.initializer)
        handle = await session.partial_run_setup([before, added, behind], [delta])
        assert await session.partial_run(handle, before) == 1.0
        with pytest.raises(tg.GraphError, match="can't be computed from the feeds"):
            await session.partial_run(handle, behind)
        assert await session.partial_run(handle, [behind, added], {delta: 4.0}) == [5.0, 5.0]
