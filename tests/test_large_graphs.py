"""No chain and no nest meets Python's recursion limit, and compiling takes time in proportion to the graph."""

import gc
import sys
from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.base.settings import DEFAULTS
from tagloom.compile import pipeline
from tagloom.compile.fuse.groups import _Groups
from tagloom.ir.operation import Operation
from tagloom.ir.program import Program

pytestmark = pytest.mark.usefixtures("graph")


def chain(x, length):
    for _ in range(length):
        x = x * 1.0001
    return x


def test_a_long_chain_runs(graph):
    x = tg.placeholder("float64", [])
    (gradient,) = tg.gradients(chain(x, 5000), [x])
    with tg.SyncSession(graph) as session:
        assert session.run(gradient, {x: 1.0}) == pytest.approx(1.0001**5000)


def test_a_deep_nest_of_conds_runs(graph):
    p, x = tg.placeholder("bool", []), tg.placeholder("float64", [])

    def nested(depth):
        return tg.cond(p, lambda: nested(depth - 1) * x, lambda: x) if depth else x

    (gradient,) = tg.gradients(nested(30), [x])
    with tg.SyncSession(graph) as session:
        assert session.run(gradient, {x: 1.1, p: True}) == pytest.approx(31 * 1.1**30)
        assert session.run(gradient, {x: 1.1, p: False}) == 1.0


def test_a_long_body_with_products_runs(graph):
    x, w = tg.placeholder("float64", [2, 64, 64]), tg.placeholder("float64", [64, 64])

    def body(t, a):
        index = t
        for _ in range(1500):
            index = index + 1 - 1
        a = a + x[index] @ w
        for _ in range(1500):
            a = a + x[t]
        return t + 1, a

    last = tg.while_loop(lambda t, a: t < 2, body, [0, tg.zeros([64, 64], "float64")])[1]
    values = np.ones((2, 64, 64))
    with tg.SyncSession(graph) as session:
        np.testing.assert_allclose(session.run(last, {x: values, w: np.eye(64)}), 2 * 1501 * values[0])


def calls(run, *args):
    """Return what something gives, and how many calls of Python functions it takes, resumed generators included."""
    count = 0

    def note(frame, event, _):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        result = run(*args)
    finally:
        sys.setprofile(before)
    return result, count


def layers(count):
    """Return a program of recurrent layers on one another, with the gradients of their weights."""
    graph = tg.Graph()
    with graph.as_default():
        x = tg.placeholder("float32", [6, 4, 8])
        y, weights = x, []
        for _ in range(count):
            w = tg.placeholder("float32", [16, 8])
            rows = tg.TensorArray("float32", 6, element_shape=[4, 8]).unstack(y)
            cell = lambda h, row, w=w: tg.tanh(tg.concat([row, h], 1) @ w)  # noqa: E731
            last = tg.while_loop(
                lambda t, *_: t < 6,
                lambda t, h, out, rows=rows, cell=cell: (
                    t + 1,
                    (new := cell(h, rows.read(t))),
                    out.write(t, new),
                ),
                [0, tg.zeros([4, 8]), tg.TensorArray("float32", 6, element_shape=[4, 8])],
            )
            y, weights = last[2].stack(), [*weights, w]
        fetches = [y, *tg.gradients(y, weights)]
    return Program(graph, [x, *weights], fetches)


def branches(count):
    """Return a program of conds on one another that read and assign variables, with gradients."""
    graph = tg.Graph()
    with graph.as_default():
        x = tg.placeholder("float32", [4])
        y, assigned = x, []
        for _ in range(count):
            v = tg.Variable(np.ones(4, "float32"))
            y = tg.cond(tg.reduce_sum(y) > 0.0, lambda y=y, v=v: y * v + 1.0, lambda y=y: tg.exp(y))
            assigned.append(v.assign_add(y))
        fetches = [y, *tg.gradients(y, [x]), *assigned]
    return Program(graph, [x], fetches)


@pytest.mark.parametrize("build", [layers, branches])
def test_no_pass_takes_more_for_each_part_when_there_are_more(monkeypatch, build):
    taken = {}

    def counted(row):
        def run(form, target):
            result, taken[row.name] = calls(row.run, form, target)
            return result

        return replace(row, run=run)

    monkeypatch.setattr(pipeline, "PIPELINE", tuple(map(counted, pipeline.PIPELINE)))
    few, many = ({} for _ in range(2))
    for found, count in ((few, 8), (many, 32)):
        pipeline.compile_step(build(count), pipeline.Target(replace(DEFAULTS, check_passes=False)))
        found.update(taken)
    assert {name: many[name] / few[name] for name in few if many[name] > 4.8 * few[name] + 1000} == {}


def test_sets_of_a_long_chain_are_found_by_short_ways(graph):
    """The leaders of a chain's operations are a chain themselves, unless looks shorten it."""
    x = tg.placeholder("float32", [4])
    y = x
    for _ in range(2000):
        y = tg.sin(y)
    groups = _Groups(graph.root, set(), {}, {})
    groups.leader = Counted()
    assert sum(map(len, groups.find_sets())) == 2000
    assert groups.leader.looks < 20 * 2000


class Counted(dict):
    looks = 0

    def get(self, *args):
        self.looks += 1
        return super().get(*args)


def test_a_sum_of_many_is_rewritten_at_one_go(graph, monkeypatch):
    """Each of the terms is replaced by another when the products they are made of are fused."""
    x = tg.placeholder("float32", [4])
    total = tg.add_n([tg.sin(x) * float(i) for i in range(500)])
    replaced = []
    monkeypatch.setattr(Operation, "update_input", lambda self, *_: replaced.append(self))
    with tg.SyncSession(graph) as session:
        got = session.run(total, {x: np.zeros(4, np.float32)})
    np.testing.assert_array_equal(got, np.zeros(4))
    assert replaced == []


def test_what_a_compilation_made_goes_at_once(graph):
    """Programs are cycles of operations and tensors, which only the collector would find, and it is paused."""
    x = tg.placeholder("float32", [4])
    y = chain(tg.cond(x[0] > 0, lambda: x * 2.0, lambda: x), 50)

    def operations():
        return sum(isinstance(each, Operation) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = operations()
        step = pipeline.compile_step(Program(graph, [x], [y]))
        made = operations() - before
    finally:
        gc.enable()
    assert step.devices
    assert made < 3 * len(graph.get_operations()), "those of the last program or two, not of all"
