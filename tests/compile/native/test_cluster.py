"""Clusters: which operations are one native program, and what keeps others out."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.device_names import DeviceSpec
from tagloom.compile import Target, compile_until
from tagloom.compile.native.cluster import FEWEST, MOST
from tagloom.compile.target import DeviceTarget
from tagloom.ir.program import Program
from tagloom.kernels.native.program import MOST_BYTES, NativeProgram

from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

PLAIN = replace(ON, fuse=False)


def compiled(fetches, feeds=(), targets=(), **target):
    target = {"settings": PLAIN, **target}
    program = Program(
        [*fetches, *(op.outputs[0] for op in targets)][0].graph, list(feeds), list(fetches), list(targets)
    )
    return compile_until("cluster", program, Target(**target))


def natives(program):
    """Return the programs of a compiled program's clusters."""
    found = [op for op in program.graph.root.walk() if op.type == "Native"]
    programs = [NativeProgram.from_attribute(op.attrs["program"]) for op in found]
    return [each for each in programs if each.is_cluster]


def clusters(fetches, feeds=(), targets=(), **target):
    """Return the types of what each cluster computes."""
    programs = natives(compiled(fetches, feeds, targets, **target))
    return [[i.computation.type for i in each.instructions if i.computation] for each in programs]


def reasons(fetches, feeds=(), targets=(), **target):
    return compiled(fetches, feeds, targets, **target).not_clustered


def chain(x, length=FEWEST, start=0):
    for k in range(start, start + length):
        x = (tg.sin, tg.tanh, tg.cos, tg.exp)[k % 4](x)
    return x


def late(x):
    """Return a value that is awaited."""

    async def wait(value):
        return value

    return tg.py_function(wait, [x], x.dtype, output_shapes=x.shape, stateful=False)


@pytest.fixture
def x():
    return tg.placeholder("float64", [3], "x")


def test_golden_cluster(golden, x):
    w = tg.placeholder("float64", [3, 2], "w")
    y = tg.reduce_sum(tg.tanh(tg.reshape(x, [1, 3]) @ w), 0)
    z = tg.cond(y[0] > 1.0, lambda: tg.gather(x, [2, 0]) * y, lambda: x[1:] - y)
    (program,) = natives(compiled([z, y], [x, w]))
    golden("native_cluster", program.to_text() + "\n")


def test_not_only_elementwise_work(x):
    y = tg.reduce_max(tg.sin(x)) + tg.reshape(x, [3, 1]) @ tg.reshape(tg.gather(x, [2, 1, 0])[:2], [1, 2])
    (found,) = clusters([tg.transpose(y) * tg.reduce_sum(y)], [x])
    assert {"Max", "MatMul", "Gather", "Transpose", "Sum", "Mul"} <= set(found)


def test_the_operations_stay_beside_their_program(x):
    y = chain(x)
    form = compiled([y], [x])
    (either,) = [op for op in form.graph.root.operations if op.is_cond]
    machine, program = either.regions
    assert [op.type for op in machine.operations] == ["Sin", "Tanh", "Cos", "Exp"] * 2
    assert program.results == either.inputs[0].op.outputs[1:]
    assert form.fetches == either.outputs


def test_constants_go_with_a_cluster(x):
    y = chain(x + 1.0) * 2.0
    form = compiled([y], [x])
    assert not [op.name for op in form.graph.root.operations if op.is_constant]
    (native,) = [op for op in form.graph.root.operations if op.type == "Native"]
    assert [t.op.name for t in native.inputs] == ["x"]


def test_too_few_are_left_alone(x):
    assert clusters([chain(x, FEWEST - 1)], [x]) == []
    assert set(reasons([chain(x, FEWEST - 1)], [x]).values()) == {"is one of fewer than 8 that belong together"}


def test_a_cluster_computes_more_than_it_takes_and_gives(x):
    fed = [tg.placeholder("float64", [3]) for _ in range(FEWEST)]
    pieces = [tg.sin(each) for each in fed]
    y = tg.add_n(pieces)
    assert clusters([y, *pieces], fed) == []
    assert "compute too little for what they take and give" in set(reasons([y, *pieces], fed).values()).pop()
    assert len(clusters([chain(y, 12)], fed)) == 1


def test_large_values_are_left_alone():
    x = tg.placeholder("float64", [MOST_BYTES // 8 + 1])
    assert clusters([chain(x)], [x]) == []
    assert set(reasons([chain(x)], [x]).values()) == {"has values of more than 8 KiB"}


def test_the_size_of_a_cluster_is_bounded(x):
    sizes = list(map(len, clusters([chain(x, 2 * MOST + 20)], [x])))
    assert sizes == [MOST, MOST, 20]


@pytest.mark.parametrize("off", ["native", "loops", "cluster"])
def test_what_switches_clusters_off(x, off):
    assert clusters([chain(x)], [x], settings=PLAIN.without(off)) == []


def test_there_are_none_where_instances_are_looked_at_or_memory_is_limited(x):
    y = chain(x)
    assert clusters([y], [x], observed=True) == []
    device = DeviceSpec()
    assert len(clusters([y], [x], devices=(DeviceTarget(device),))) == 1
    assert clusters([y], [x], devices=(DeviceTarget(device, 1 << 20),)) == []


def test_an_operation_without_a_kernel_says_so(x):
    y = chain(x)
    z = chain(tg.stack([y[0], y[1]]), 2)
    found = reasons([z], [x])
    (pack,) = [name for name in found if "(Stack)" in name]
    assert found[pack] == "has no kernel in C that can be repeated"


# Waiting


def test_what_is_awaited_keeps_operations_apart(x):
    y = chain(late(chain(x)))
    assert list(map(len, clusters([y], [x]))) == [FEWEST, FEWEST]


def test_what_waits_is_apart_from_what_does_not(x):
    """Together they would be one set, connected by the sum."""
    early, behind = chain(x), chain(late(x))
    y = chain(early + behind)
    found = clusters([y], [x])
    assert sorted(map(len, found)) == [FEWEST, 2 * FEWEST + 1]
    assert [each for each in found if "Add" in each] == [["Sin", "Tanh", "Cos", "Exp"] * 2 + ["Add"] + found[-1][-8:]]


def test_who_waits_for_the_last_of_several_waits_for_all(x):
    first = late(x)
    second = late(first)
    y = chain(second, 4) + chain(first * second, 4)
    assert len(clusters([y], [x])) == 1


def test_two_that_wait_for_different_things_are_apart(x):
    one, other = chain(late(x)), chain(late(x + 1.0))
    assert sorted(map(len, clusters([one + other], [x]))) == [FEWEST, FEWEST]


def test_effects_are_waited_for(x):
    v = tg.Variable(np.zeros(3), name="v")
    read = chain(v.assign_add(x))
    assert sorted(map(len, clusters([read + chain(x)], [x]))) == [FEWEST, FEWEST + 1]


def test_reads_of_variables_are_there(x):
    v, w = (tg.Variable(np.zeros(3), name=name) for name in "vw")
    (found,) = clusters([chain(x * v, 4) + chain(x * w, 4)], [x])
    assert len(found) == 11


def test_a_loop_variable_that_waits_is_a_source(x):
    """The chain of the counter must not wait for what the iteration before awaits."""

    def body(i, y):
        k = chain(tg.cast(i, "float64"))
        return i + 1, late(chain(y * 2.0)) + k

    y = tg.while_loop(lambda i, y: i < 5, body, [0, x])[1]
    found = clusters([y], [x])
    assert list(map(len, found)) == [FEWEST + 1, FEWEST + 1]
    assert sum("Cast" in each for each in found) == 1
    assert all(("Cast" in each) != ("Mul" in each) for each in found)


def test_a_variable_that_waits_by_way_of_another(x):
    """The second is the first of the iteration before."""

    def body(i, y, z, k):
        return i + 1, late(y), y, chain(z) * chain(tg.cast(i, "float64") * x) + k

    results = tg.while_loop(lambda i, *_: i < 5, body, [0, x, x, x])
    found = clusters(results[1:], [x])
    assert [("Cast" in each, len(each)) for each in found] == [(True, FEWEST + 2), (False, FEWEST + 1)]


def test_variables_that_wait_for_the_same_are_one_source(x):
    def body(i, h, c):
        y = late(chain(h, 4) * chain(c, 4))
        return i + 1, tg.tanh(y * 0.5), tg.sin(y * 2.0)

    h, c = tg.while_loop(lambda i, *_: i < 5, body, [0, x, x])[1:]
    (found,) = clusters([h, c], [x])
    assert len(found) == 9


def test_a_loop_whose_work_waits_for_nothing_is_no_matter_of_clusters(x):
    y = tg.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, chain(y)), [0, x])[1]
    assert clusters([y], [x]) == []
    (found,) = clusters([y], [x], settings=PLAIN.without("straight"))
    assert len(found) == FEWEST


def test_what_is_behind_a_loop_waits_for_it(x):
    y = tg.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, chain(y)), [0, x])[1]
    assert sorted(map(len, clusters([chain(y) + chain(x)], [x]))) == [FEWEST, FEWEST + 1]


def test_control_dependencies_are_left_out(x):
    y = chain(x)
    with tg.control_dependencies([y.op]):
        z = tg.sin(x)
    found = reasons([chain(z + tg.cos(x))], [x], [y.op])
    apart = "is in an order with others, whatever its values"
    assert [name for name, reason in found.items() if reason == apart] == [f"{t.op.name} ({t.op.type})" for t in (y, z)]


# Branches


def test_a_cond_that_only_computes_is_part_of_a_cluster(x):
    y = tg.cond(tg.reduce_sum(x) > 0.0, lambda: chain(x, 3), lambda: x * 2.0)
    (program,) = natives(compiled([chain(y, 3)], [x]))
    assert "select" in program.to_text()


def test_a_cond_that_does_more_has_clusters_in_its_branches(x):
    y = tg.cond(tg.reduce_sum(x) > 0.0, lambda: chain(late(x)), lambda: chain(x))
    assert list(map(len, clusters([y], [x]))) == [FEWEST, FEWEST]


def test_a_cond_does_not_wait_for_what_its_other_branch_uses(x):
    """In a cluster it would wait for both."""
    slow = late(x)
    y = tg.cond(tg.reduce_sum(x) > 0.0, lambda: chain(x), lambda: slow * 2.0)
    form = compiled([chain(y)], [x])
    assert form.not_clustered[f"{y.op.name} (Cond)"] == "waits for what only one of its branches uses"
    assert list(map(len, clusters([chain(y)], [x]))) == [FEWEST, FEWEST]


def test_a_cond_that_lives_without_what_a_branch_uses(x):
    """The branch that uses what is dead is not the one that runs."""
    p = tg.placeholder("bool", [])
    low, high = tg.switch(x, p)
    y = chain(tg.cond(p, lambda: chain(high, 6), lambda: chain(low, 6)))
    programs = natives(compiled([y], [x, p]))
    assert not any("select" in each.to_text() for each in programs)
    for alive in (True, False):
        with tg.SyncSession(x.graph, settings=PLAIN) as session:
            with_programs = session.run(y, {x: np.ones(3), p: alive})
        with tg.SyncSession(x.graph, settings=PLAIN.without("all")) as session:
            np.testing.assert_array_equal(with_programs, session.run(y, {x: np.ones(3), p: alive}))


# Deadness


def example(p, q, r):
    """Return S and T of the literature's graph: X uses A and B, Y uses B and C; its C is dead where R is."""
    a, b, c = chain(p), chain(q, start=1), chain(r, start=2)
    return chain(a + b), chain(b * c)


def observed(results, feeds, settings):
    """Return the results that are alive, by their number."""
    seen = {}
    graph = results[0].graph
    with graph.as_default():
        targets = [
            tg.py_function(lambda v, k=k: seen.update({k: np.array(v)}), [t], [], stateful=False)
            for k, t in enumerate(results)
        ]
    with tg.SyncSession(graph, settings=settings) as session:
        session.run(targets, feeds)
        session.run(targets, feeds)
    return seen


@pytest.mark.rule(132)
@pytest.mark.parametrize("alive", [True, False])
@pytest.mark.parametrize("where", ["root", "branch", "loop"])
def test_what_is_clustered_lives_and_dies_together(x, where, alive):
    p = tg.placeholder("bool", [], "p")
    dead = tg.switch(x, p)[1]
    if where == "root":
        s, t = example(x, x, dead)
        assert sorted(map(len, clusters([s, t], [x, p]))) == [2 * FEWEST + 1, 3 * FEWEST + 1]
    elif where == "branch":
        s, t = tg.cond(tg.reduce_sum(x) > 0, lambda: example(x, x, dead), lambda: (x, x))
    else:
        _, s, t = tg.while_loop(lambda i, *_: i < 1, lambda i, s, t: (i + 1, *example(x, x, dead)), [0, x, x])
    feeds = {x: np.asarray([0.5, 1.0, 2.0]), p: alive}
    found, plain = (observed([s, t], feeds, each) for each in (PLAIN, PLAIN.without("all")))
    assert sorted(found) == sorted(plain) == ([0, 1] if alive else [0])
    for k in found:
        np.testing.assert_array_equal(found[k], plain[k])


def test_a_cluster_dies_as_a_whole(x):
    p = tg.placeholder("bool", [], "p")
    low, high = tg.switch(x, p)
    y = tg.merge([chain(low), chain(high, start=1)])[0]
    assert list(map(len, clusters([y], [x, p]))) == [FEWEST, FEWEST]
    for alive in (True, False):
        feeds = {x: np.ones(3), p: alive}
        found, plain = (observed([y], feeds, each) for each in (PLAIN, PLAIN.without("all")))
        np.testing.assert_array_equal(found[0], plain[0])


def test_loops_made_by_hand_are_left_alone(x):
    i, y = tg.enter(tg.constant(0), "loop"), tg.enter(x, "loop")
    i, y = (tg.merge([t, t]) for t in (i, y))
    test = tg.loop_cond(i[0] < tg.enter(tg.constant(3), "loop", is_constant=True))
    (_, now), (done, value) = tg.switch(i[0], test), tg.switch(y[0], test)
    i[0].op.update_input(1, tg.next_iteration(now + now))
    y[0].op.update_input(1, tg.next_iteration(chain(value)))
    z = chain(tg.exit(done))
    found = reasons([z], [x])
    assert set(found.values()) >= {"is beside a loop made by hand"}
    assert clusters([z], [x]) == []


def test_parts_of_a_partial_run_wait_for_their_own_feeds(x):
    y = tg.placeholder("float64", [3])
    form = compiled([chain(x), chain(x) + chain(y, start=1)], [x, y], partial_run=True)
    assert sorted(len([i for i in p.instructions if i.computation]) for p in natives(form)) == [FEWEST, FEWEST]


def test_nothing_is_clustered_where_saved_values_may_be_elsewhere(x):
    y = tg.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, tg.sin(y)), [0, x], swap_memory=True)[1]
    assert clusters([chain(y)], [x]) == []
