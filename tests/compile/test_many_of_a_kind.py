"""The work of compiling grows with the size of a program, not with its square."""

import sys

import pytest
import tagloom as tg
from tagloom.ir.program import Program

from tests.support.compiling import plan_of
from tests.support.settings import ON


def switch_case(x, n):
    return tg.switch_case(tg.cast(x, "int32"), [lambda k=k: x * float(k) for k in range(n)])


def case(x, n):
    return tg.case([(x > float(k), lambda k=k: x * float(k)) for k in range(n)], default=lambda: x)


def conds_in_a_row(x, n):
    y = x
    for k in range(n):
        y = tg.cond(x > float(k), lambda y=y: y * 2.0, lambda y=y: y + 1.0)
    return y


def conds_side_by_side(x, n):
    return tg.add_n([tg.cond(x > float(k), lambda k=k: x * float(k), lambda: x + 1.0) for k in range(n)])


def captures_of_branches(x, n):
    values = [x * float(k) for k in range(n)]
    return tg.switch_case(tg.cast(x, "int32"), [lambda: tg.add_n(values), lambda: x, lambda: tg.add_n(values) * x])


def captures_of_a_loop(x, n):
    values = [x * float(k) for k in range(n)]
    return tg.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * tg.add_n(values)), [0, x])[1]


def loops_in_a_row(x, n):
    y = x
    for _ in range(n):
        y = tg.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 1.5), [0, y])[1]
    return y


def variables_of_a_loop(x, n):
    return tg.add_n(tg.while_loop(lambda i, *v: i < 3, lambda i, *v: (i + 1, *[a * 1.5 for a in v]), [0] + [x] * n)[1:])


def results_of_branches(x, n):
    found = tg.switch_case(tg.cast(x, "int32"), [lambda k=k: [x * float(k + i) for i in range(n)] for k in range(3)])
    return tg.add_n(found)


BUILDERS = [
    switch_case,
    case,
    conds_in_a_row,
    conds_side_by_side,
    captures_of_branches,
    captures_of_a_loop,
    loops_in_a_row,
    variables_of_a_loop,
    results_of_branches,
]


def calls_to_compile(build, n):
    """Return how many Python functions are called while a program and its gradient are compiled."""
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [])
        y = build(x, n)
        program = Program(graph, [x], [y, *tg.gradients(y, x)])
    count = 0

    def note(_, event, __):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        plan_of(program, ON)
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("build", BUILDERS)
def test_the_calls_grow_with_the_size(build):
    calls_to_compile(build, 4)  # what is found once and kept
    few, many = calls_to_compile(build, 10), calls_to_compile(build, 40)
    assert many < 5 * few


def test_case_takes_more_pairs_than_conds_can_be_nested():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [])
        y = tg.case([(x < float(k), lambda k=k: x * float(k)) for k in range(300)], default=lambda: -x)
        slope = tg.gradients(y, x)
    with tg.SyncSession(graph) as session:
        assert session.run([y, *slope], {x: 250.5}) == [250.5 * 251, 251.0]
        assert session.run([y, *slope], {x: -1.0}) == [0.0, 0.0]
        assert session.run([y, *slope], {x: 299.0}) == [-299.0, -1.0]
