"""When tensors of a user's graph are alive, as `tg.liveness` tells it."""

import pytest
import tagloom as tg

pytestmark = pytest.mark.usefixtures("graph")


@pytest.fixture
def p():
    return tg.placeholder("bool", [], "p")


def test_the_answer_has_the_structure_of_the_question(p):
    low, high = tg.switch(1.0, p)
    assert tg.liveness({"high": high, "both": (low, [p])}) == {"high": "*p:0", "both": ("~*p:0", ["#true"])}
    assert tg.liveness([]) == []


def test_a_tensor_in_a_branch_or_a_loop(p):
    inside = {}

    def body(i, x):
        inside["i"], inside["of predicate"] = i, inside["less"].op.inputs[0]
        inside["y"] = tg.cond(p, lambda: inside.setdefault("exp", tg.exp(x)), lambda: x, name="choose")
        inside["constant"] = tg.constant(1.0)
        return i + 1, inside["y"] + inside["constant"]

    def predicate(i, x):
        inside["less"] = tg.less(i, 3, name="less")
        return inside["less"]

    result = tg.while_loop(predicate, body, [0, 1.0], name="loop")[1]
    found = tg.liveness(inside)
    alive = "{#true,&,*less:0}<loop>"
    assert found["less"] == found["of predicate"] == alive
    assert found["i"] == found["y"] == found["constant"] == f"(*less:0 & {alive})"
    assert found["exp"] == f"(*less:0 & *p:0 & {alive})"
    assert tg.liveness(result) == "#true"


def test_what_a_branch_saves_for_its_gradient_is_as_alive_as_the_branch(p):
    x = tg.placeholder("float32", [], "x")
    y = tg.cond(p, lambda: tg.exp(x) * x, lambda: x)
    (slope,) = tg.gradients(y, [x])
    assert tg.liveness([y, slope]) == ["#true", "#true"]


def test_nothing_is_built_and_nothing_needs_feeds(graph, p):
    y = tg.switch(tg.placeholder("float32", []), p)[1]
    before = graph.to_text()
    assert tg.liveness(y) == "*p:0"
    assert graph.to_text() == before


def test_only_tensors_of_one_graph(p):
    with pytest.raises(tg.GraphError, match="tensors of one graph"):
        tg.liveness(1.0)
    with pytest.raises(tg.GraphError, match="tensors of one graph"):
        tg.liveness([p, p.op])
    with tg.Graph().as_default():
        other = tg.constant(1.0)
    with pytest.raises(tg.GraphError, match="tensors of one graph"):
        tg.liveness([p, other])


def test_a_loop_that_is_being_built_is_refused(p):
    def body(x):
        with pytest.raises(tg.GraphError, match="still being built"):
            tg.liveness(x)
        return x

    tg.while_loop(lambda x: p, body, [1.0])
