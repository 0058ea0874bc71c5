"""The legality table: whole programs pass between all passes, and each broken fact is found and named."""

from dataclasses import replace

import numpy as np
import pytest
from tagloom.base import dtypes
from tagloom.base.errors import GraphError
from tagloom.base.settings import Settings
from tagloom.base.shapes import SCALAR
from tagloom.compile import PIPELINE, Target, pipeline
from tagloom.frontend.control.conditional import cond
from tagloom.frontend.control.loops import while_loop
from tagloom.ir import scopes
from tagloom.ir.apply import constant
from tagloom.ir.graph import Graph
from tagloom.ir.operation import Operation
from tagloom.ir.program import Program
from tagloom.ir.structured import SavedOutput, save_maybe, save_series, trip_count
from tagloom.ir.verify import STAGES, check
from tagloom.ops.control.placeholders import placeholder

from tests.ops.evaluation import declare_all
from tests.support.compiling import lowered
from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

declare_all()
PAIR = [(dtypes.int32, SCALAR)] * 2


def program():
    """Build one Cond and one While with saved values; return both operations and the predicate."""
    p, inner = placeholder("bool", [], name="p"), []
    choose = cond(p, lambda: inner.append(constant(2.0) * 3.0) or inner[0], lambda: constant(1.0), name="choose").op
    squares = []
    loop = while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, squares.append(x * x) or squares[0]), [0, 2.0], name="loop"
    )
    save_maybe(choose, 1, inner[0])
    save_series(loop[0].op, squares[0])
    trip_count(loop[0].op)
    return choose, loop[0].op, p


def test_a_whole_program_is_legal_at_every_seam():
    choose, loop, p = program()
    check(choose.graph, "structured")
    fetches = [*choose.outputs[:1], *loop.outputs]
    check(lowered(Program(choose.graph, [p], fetches), Settings(check_passes=True)).graph, "lowered")


def test_checks_between_passes_are_a_setting(monkeypatch):
    stages = []
    monkeypatch.setattr(pipeline, "check", lambda graph, stage: stages.append(stage))
    y = constant(1) + 1
    lowered(Program(y.graph, [], [y]), replace(ON, check_passes=False))
    assert stages == []
    lowered(Program(y.graph, [], [y]), replace(ON, check_passes=True))
    rows = [row for row in PIPELINE if row.is_on(Target(ON))]
    assert stages == [row.stage for row in rows if row.stage in ("structured", "lowered") and row.name != "place"]
    assert stages.count("structured") > 10


def test_the_default_comes_from_the_environment(monkeypatch):
    monkeypatch.delenv("TAGLOOM_CHECK_PASSES", raising=False)
    assert not Settings().check_passes
    monkeypatch.setenv("TAGLOOM_CHECK_PASSES", "1")
    assert Settings().check_passes


def test_an_unknown_stage_is_refused(graph):
    with pytest.raises(GraphError, match="no such stage"):
        check(graph, "raised")


@pytest.mark.parametrize("type_", sorted(STAGES["structured"].forbidden))
def test_types_that_only_lowering_makes_are_refused_before_it(graph, type_):
    Operation(graph.root, type_, "early", (), ())
    with pytest.raises(GraphError, match=f"structured graph may not hold a {type_}\n.*early"):
        check(graph, "structured")


def test_structured_types_are_refused_after_lowering():
    choose, _, _ = program()
    with pytest.raises(GraphError, match="lowered graph may not hold a Cond") as caught:
        check(choose.graph, "lowered")
    assert caught.value.operation is choose


def test_an_undeclared_type_is_refused(graph):
    Operation(graph.root, "Nonsense", "x", (), ())
    with pytest.raises(GraphError, match="no such operation type"):
        check(graph, "structured")


# ---- broken facts: each takes the Cond, the While and the predicate, breaks something and returns the operation


def _other_graph(choose, loop, p):
    with Graph().as_default():
        foreign = constant(True)
    choose.inputs[0] = foreign
    return choose, "not in the graph"


def _dropped(choose, loop, p):
    del choose.graph._by_name["p"]
    return p.op, "not the one its graph has"


def _not_an_output(choose, loop, p):
    choose.inputs[0] = type(p)(p.op, 0, p.dtype, p.shape)
    return choose, "not an output of the operation it names"


def _out_of_scope(choose, loop, p):
    body = loop.regions[1]
    op = Operation(loop.graph.root, "Identity", "leak", [body.params[0]], [(dtypes.int32, SCALAR)])
    return op, "an input is out of scope"


def _control_out_of_scope(choose, loop, p):
    op = Operation(loop.graph.root, "NoOp", "leak", (), (), control_inputs=[loop.regions[1].operations[-1]])
    return op, "control input is out of scope"


def _mixed_dtypes(choose, loop, p):
    op = Operation(loop.graph.root, "Add", "sum", [constant(1), constant(1.0)], PAIR[:1])
    return op, "mixed dtypes"


def _too_few_inputs(choose, loop, p):
    op = Operation(loop.graph.root, "Add", "sum", [constant(1)], PAIR[:1])
    return op, "wrong number of inputs"


def _too_many_inputs(choose, loop, p):
    op = Operation(loop.graph.root, "Identity", "same", [constant(1), constant(1)], PAIR[:1])
    return op, "wrong number of inputs"


def _empty_merge(choose, loop, p):
    return Operation(loop.graph.root, "Merge", "merge", (), PAIR), "a Merge has no inputs"


def _regions_elsewhere(choose, loop, p):
    op = Operation(loop.graph.root, "NoOp", "owner", (), ())
    op.regions = choose.regions
    return op, "owns regions"


def _stray_region(choose, loop, p):
    choose.regions[0].parent = loop.regions[1]
    return choose, "a region is not where its owner is"


def _stray_param(choose, loop, p):
    return Operation(loop.graph.root, "Param", "param", (), PAIR[:1]), "not a parameter of its region"


def _predicate_of_cond(choose, loop, p):
    choose.inputs[0] = constant(1.0)
    return choose, "one bool or int32 predicate"


def _one_branch(choose, loop, p):
    choose.regions = choose.regions[:1]
    return choose, "wrong number of branches"


def _branch_with_params(choose, loop, p):
    choose.regions[0].add_param(dtypes.int32, SCALAR, "param")
    return choose, "a branch has parameters"


def _branch_dtype(choose, loop, p):
    with scopes.inside(choose.regions[1]):
        choose.regions[1].results[0] = constant(1)
    return choose, "results of the true branch do not agree"


def _branch_count(choose, loop, p):
    choose.regions[0].results.append(choose.regions[0].results[0])
    return choose, "results of the false branch do not agree"


def _result_out_of_scope(choose, loop, p):
    choose.regions[0].results[0] = choose.regions[1].results[0]
    return choose, "a result of the false branch is out of scope"


def _inits(choose, loop, p):
    loop.inputs[1] = constant(1)
    return loop, "initial values of a While do not agree"


def _params(choose, loop, p):
    loop.regions[0].operations.remove(loop.regions[0].params.pop().op)
    return loop, "loop predicate parameters of a While do not agree"


def _body_results(choose, loop, p):
    loop.regions[1].results.reverse()
    return loop, "results of the loop body do not agree"


def _predicate_of_while(choose, loop, p):
    loop.regions[0].results[0] = loop.regions[0].params[0]
    return loop, "results of the loop predicate do not agree"


def _three_regions(choose, loop, p):
    loop.regions += (choose.regions[0],)
    choose.regions[0].owner = loop
    choose.graph.root.operations.remove(choose)
    return loop, "a predicate and a body"


def _extra_kind(choose, loop, p):
    loop.attrs["saved_outputs"][0] = SavedOutput("maybe", loop.attrs["saved_outputs"][0].value, None, 1)
    return loop, "a saved value is of the wrong kind"


def _extra_without_value(choose, loop, p):
    loop.attrs["saved_outputs"][0] = SavedOutput("series")
    return loop, "a saved value has no value"


def _extra_dtype(choose, loop, p):
    choose.outputs[1].dtype = dtypes.int32
    return choose, "a saved value has the wrong dtype"


def _extra_scope(choose, loop, p):
    extra = choose.attrs["saved_outputs"][0]
    choose.attrs["saved_outputs"][0] = SavedOutput("maybe", extra.value, None, 0)
    return choose, "a saved value is out of scope"


BREAKS = [
    value for name, value in sorted(globals().items()) if name.startswith("_") and callable(value) and name[1] != "_"
]


@pytest.mark.parametrize("break_", BREAKS, ids=lambda f: f.__name__[1:])
def test_a_broken_fact_is_found_and_the_operation_named(break_):
    choose, loop, p = program()
    check(choose.graph, "structured")
    operation, what = break_(choose, loop, p)
    with pytest.raises(GraphError, match=what) as caught:
        check(choose.graph, "structured")
    assert caught.value.operation is operation


# ---- the facts of a lowered graph


def test_a_lowered_graph_has_no_operations_in_regions():
    choose, _, p = program()
    program_ = lowered(Program(choose.graph, [p], choose.outputs[:1]))
    op = Operation(choose.regions[0], "NoOp", "inside", (), ())
    op.region.graph = program_.graph
    program_.graph.root.operations.append(op)
    program_.graph._by_name["inside"] = op
    with pytest.raises(GraphError, match="an operation is in a region"):
        check(program_.graph, "lowered")


@pytest.mark.rule(52, 55)
def test_a_lowered_graph_has_frames_and_no_other_cycles():
    y = while_loop(lambda i: i < 3, lambda i: i + 1, [0])
    graph = lowered(Program(y.graph, [], [y])).graph
    add = next(op for op in graph.get_operations() if op.type == "Add")
    outside = Operation(graph.root, "Const", "late", (), PAIR[:1], attrs={"value": np.int32(1)})
    Operation(graph.root, "Add", "mixed", [add.outputs[0], outside.outputs[0]], PAIR[:1])
    with pytest.raises(GraphError, match="mixed has inputs from different frames"):
        check(graph, "lowered")
    graph.root.operations.pop()
    add.inputs[1] = add.outputs[0]
    with pytest.raises(GraphError, match="contains a cycle"):
        check(graph, "lowered")
