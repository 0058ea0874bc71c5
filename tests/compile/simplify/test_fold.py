"""Constant folding computes what a step would compute, strings included."""

import pytest
import tagloom as tg
from tagloom.ir.program import Program

from tests.support.compiling import plan_of
from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")


def run(fetches):
    with tg.SyncSession(fetches[0].graph) as session:
        return session.run(fetches)


def test_strings_fold():
    joined, rows = tg.constant("a") + tg.constant("b"), tg.constant(["a", "c"]) + "b"
    assert {node.type for node in plan_of(Program(joined.graph, [], [joined, rows]), ON).nodes} == {
        "Const",
        "Fetch",
    }
    one, many = run([joined, rows])
    assert (one.item(), many.tolist()) == ("ab", ["ab", "cb"])


def test_every_one_of_several_results_folds():
    parts = tg.unstack(tg.constant([1, 2, 3]))
    assert "Unstack" not in {node.type for node in plan_of(Program(parts[0].graph, [], parts), ON).nodes}
    assert run(parts) == [1, 2, 3]


@pytest.mark.rule(58)
def test_a_fed_constant_does_not_fold():
    a = tg.constant("a")
    with tg.SyncSession(a.graph) as session:
        assert session.run(a + "b", {a: "x"}) == "xb"
