"""The deadness analysis: the predicates of small graphs, and of random programs against what their steps do."""

import asyncio

import pytest
import tagloom as tg
from hypothesis import given, note
from tagloom.base.device_names import parse_device
from tagloom.compile import DeviceTarget, Target, compile_until
from tagloom.deadness.analysis import analyse
from tagloom.ir.frames import assign_frames
from tagloom.ir.program import Program, needed
from tagloom.ir.topological import topological_order
from tagloom.ir.traits import LEAVES_FRAME, Role
from tagloom.runtime.steps.request import make_request

from tests.property.interpret import initial_values
from tests.property.programs import show
from tests.property.runs import batch_settings, batches
from tests.property.strategies import mixed_programs
from tests.property.translate import build

pytestmark = pytest.mark.usefixtures("graph")


PLAIN = tg.Settings().without("all")


def lowered(*fetches):
    """Return the lowered program of some tensors, as they were built."""
    graph = fetches[0].graph
    feeds = [op.outputs[0] for op in graph.root.operations if op.role is Role.PLACEHOLDER]
    return compile_until("lower", Program(graph, feeds, list(fetches)), Target(PLAIN))


def predicates(*fetches, program=None):
    """Return the predicates of the lowered operations and tensors, as texts by name."""
    program = program or lowered(*fetches)
    operations = topological_order(needed(program))
    return {value.name: str(found) for value, found in analyse(operations, assign_frames(operations)).items()}


def bools(names):
    return [tg.placeholder("bool", [], name) for name in names]


def switched(value, predicate, name=None):
    """Return what is alive where the predicate is true."""
    return tg.switch(value, predicate, name=name)[1]


# ---- without loops


@pytest.mark.rule(132)
def test_an_operation_is_alive_if_all_inputs_are(graph):
    p, q = bools("pq")
    with tg.control_dependencies([tg.exp(switched(1.0, p))]):
        y = tg.add(2.0, switched(3.0, q), name="y")
    assert predicates(y)["y"] == "(*p:0 & *q:0)"


@pytest.mark.rule(132)
def test_a_switch_asks_whether_its_predicate_is_alive_and_true():
    p, q = bools("pq")
    low, high = tg.switch(1.0, switched(p, q), name="s")
    with tg.control_dependencies([low.op]):
        y = tg.constant(1.0, name="y")
    found = predicates(low, high, y)
    assert found["s:1"] == "(*q:0 & *p:0)"
    assert found["s:0"] == "(*q:0 & ~*p:0)"
    assert found["y"] == "*q:0"  # behind the Switch, whatever it chooses


@pytest.mark.rule(132)
def test_a_value_that_decides_by_itself_is_not_what_it_is_alive_by():
    """Of a message only the sender knows whether it is alive; alive and true is another thing (RecvVsSwitch)."""
    with tg.device("/cpu:0"):
        p, q = bools("pq")
        r = switched(p, q)
    with tg.device("/cpu:1"):
        y = switched(1.0, tg.identity(r), name="s")
    devices = tuple(DeviceTarget(parse_device(f"/device:CPU:{k}")) for k in range(2))
    parts = compile_until("partition", Program(y.graph, [p, q], [y]), Target(devices=devices))
    (second,) = [predicates(program=program) for device, program in parts.programs.items() if "CPU:1" in str(device)]
    received = [name for name in second if second[name] == name]
    assert second["s:1"] == f"({received[0]} & *{received[0]}:0)"


@pytest.mark.rule(133)
def test_the_diamond_is_alive_as_what_is_around():
    """The if-then-else of the literature: Condition ? X - 1 : X + 1 (DA2)."""
    x, (condition,) = tg.placeholder("float32", [], "x"), bools(["condition"])
    low, high = tg.switch(x, condition)
    y = tg.merge([tg.add(low, 1.0, name="plus"), tg.subtract(high, 1.0, name="minus")], name="y")[0]
    found = predicates(y)
    assert (found["plus"], found["minus"], found["y"]) == ("~*condition:0", "*condition:0", "#true")


@pytest.mark.rule(133)
def test_a_merge_does_not_look_at_control_inputs():
    p, q = bools("pq")
    with tg.control_dependencies([switched(1.0, q).op]):
        y = tg.merge([*tg.switch(1.0, p)], name="y")[0]
    assert predicates(y)["y"] == "#true"


@pytest.mark.rule(133)
def test_a_merge_of_different_choices_is_alive_if_any_input_is():
    p, q = bools("pq")
    y = tg.merge([tg.switch(1.0, p)[0], switched(1.0, q)], name="y")[0]
    z = tg.merge([switched(y, p), tg.switch(y, p)[0]], name="z")[0]
    found = predicates(z)
    assert found["y"] == "(~*p:0 | *q:0)"
    assert found["z"] == found["y"]


@pytest.mark.rule(133)
def test_control_triggers_always_run():
    (p,) = bools("p")
    with tg.control_dependencies([switched(1.0, p).op]):
        trigger = tg.control_trigger(name="trigger")
    with tg.control_dependencies([trigger]):
        y = tg.constant(1.0, name="y")
    assert predicates(y)["y"] == "#true"


@pytest.mark.rule(133)
def test_a_constant_predicate_is_known():
    low, high = tg.switch(1.0, tg.constant(True), name="s")
    found = predicates(low, high)
    assert (found["s:0"], found["s:1"]) == ("#false", "#true")


@pytest.mark.rule(132)
def test_a_conditional_in_a_conditional():
    p, q = bools("pq")
    x = tg.placeholder("float32", [], "x")
    y = tg.cond(p, lambda: tg.cond(q, lambda: tg.exp(x), lambda: tg.tanh(x), name="inner"), lambda: -x, name="outer")
    found = predicates(y)
    assert (found["outer/Merge"], found["inner/Merge"]) == ("#true", "*p:0")
    assert (found["Exp"], found["Tanh"]) == ("(*p:0 & *q:0)", "(*p:0 & ~*q:0)")


@pytest.mark.rule(138)
def test_one_of_many_branches():
    k, x = tg.placeholder("int32", [], "k"), tg.placeholder("float32", [], "x")
    y = tg.switch_case(k, [lambda: tg.exp(x), lambda: tg.sin(x), lambda: tg.tanh(x)], name="case")
    found = predicates(y)
    assert found["Exp"] == "(k:0=0)"
    assert found["Sin"] == "(k:0=1)"
    assert found["Tanh"] == "(~(k:0=0) & ~(k:0=1))"
    assert found["case/Merge"] == "#true"


def satisfiable(clauses, names):
    """Return a tensor that is alive exactly if an assignment of the names satisfies all clauses (DA12).

    A clause is a Merge of values that a Switch lets through where a literal holds; a formula adds up its clauses.
    """
    variables = dict(zip(names, bools(names), strict=True))
    return tg.add_n(
        [
            tg.merge([tg.switch(1.0, variables[literal.strip("~")])["~" not in literal] for literal in clause])[0]
            for clause in clauses
        ],
        name="satisfied",
    )


@pytest.mark.rule(134)
def test_a_formula_of_three_literals_a_clause_is_a_predicate():
    """So whether two operations may be compiled together is as hard as satisfiability: the analysis may not know."""
    y = satisfiable([("a", "b", "~c"), ("~a", "c", "d"), ("b", "~c", "~d")], "abcd")
    found = predicates(y)["satisfied"]
    assert found == "((*a:0 | *b:0 | ~*c:0) & (~*a:0 | *c:0 | *d:0) & (*b:0 | ~*c:0 | ~*d:0))"


@pytest.mark.rule(134)
def test_what_can_not_be_satisfied_need_not_be_known_to_be_dead():
    signs = [(a, b, c) for a in ("a", "~a") for b in ("b", "~b") for c in ("c", "~c")]
    assert predicates(satisfiable(signs, "abc"))["satisfied"] == "#false"  # pairs of clauses become one
    p, q, r = bools("pqr")
    either = [tg.merge([switched(1.0, x), tg.switch(1.0, y)[0]])[0] for x, y in ((p, q), (q, r), (r, p))]
    same = tg.add_n([*either, tg.merge([switched(1.0, p), switched(1.0, q)])[0]], name="y")
    assert predicates(same)["y"] not in ("#true", "#false")  # p, q and r are equal, and p or q holds: it is p


# ---- loops


def counting(name="loop", start=0.0):
    """Return the result of for (i = 0; i < 10; i++) by primitives, and the tensors of its body by name (DA3)."""
    first = tg.enter(tg.identity(start), frame_name=name, name=f"{name}/enter")
    i = tg.merge([first, first], name=f"{name}/merge")[0]
    one = tg.enter(1.0, frame_name=name, is_constant=True, name=f"{name}/one")
    ten = tg.enter(10.0, frame_name=name, is_constant=True)
    added = tg.add(i, one, name=f"{name}/add")
    going_on = tg.loop_cond(tg.less(added, ten, name=f"{name}/less"))
    done, again = tg.switch(added, going_on, name=f"{name}/switch")
    i.op.update_input(1, tg.next_iteration(again, name=f"{name}/next"))
    return tg.exit(done, name=f"{name}/exit")


@pytest.mark.rule(135, 136)
def test_the_counting_loop():
    found = predicates(counting())
    alive = "{#true,&,*loop/less:0}<loop>"
    assert found["loop/merge"] == found["loop/add"] == found["loop/less"] == alive
    assert found["loop/switch:1"] == found["loop/next"] == f"(*loop/less:0 & {alive})"
    assert found["loop/switch:0"] == f"(~*loop/less:0 & {alive})"
    assert found["loop/one"] == "#true"
    assert found["loop/exit"] == "#true"


@pytest.mark.rule(135, 136)
def test_a_loop_in_a_branch_is_alive_as_the_branch_is():
    (p,) = bools("p")
    found = predicates(counting(start=switched(0.0, p)))
    assert found["loop/merge"] == "{*p:0,&,*loop/less:0}<loop>"
    assert found["loop/exit"] == "*p:0"


@pytest.mark.rule(135)
def test_loops_of_other_frames_are_never_equal():
    found = predicates(counting("one") + counting("two"))
    assert found["one/merge"] != found["two/merge"]
    assert found["one/exit"] == found["two/exit"] == "#true"


@pytest.mark.rule(135, 136, 137)
def test_variables_of_a_loop_are_alive_together_and_leave_as_they_entered():
    (p,) = bools("p")
    x = tg.placeholder("float32", [], "x")

    def loop():
        return tg.while_loop(lambda y, z: y < 9.0, lambda y, z: (y + x, z * y), [x, 1.0], name="loop")

    found = predicates(tg.cond(p, lambda: loop()[1], lambda: x, name="choose"))
    assert found["loop/Merge"] == found["loop/Merge_1"] == "{*p:0,&,*Less:0}<loop>"
    assert found["loop/Switch:1"] == found["loop/NextIteration"] == found["Mul"]
    assert found["loop/Exit_1"] == found["choose/Switch:1"] == "*p:0"
    assert found["choose/Merge"] == "#true"


@pytest.mark.rule(135, 137)
def test_loops_in_loops():
    n = tg.placeholder("int32", [], "n")

    def body(i, total):
        inner = tg.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + j), [0, total], name="inner")[1]
        return i + 1, tg.cond(inner > 5, lambda: inner - 1, lambda: inner)

    found = predicates(tg.while_loop(lambda i, _: i < n, body, [0, 0], name="outer")[1])
    outside = "{#true,&,*Less:0}<outer>"
    assert found["outer/Merge"] == found["outer/Merge_1"] == outside
    inside = f"{{(*Less:0 & {outside}),&,*Less_1:0}}<inner;outer>"
    assert found["inner/Merge"] == found["inner/Merge_1"] == inside
    assert found["inner/Exit_1"] == found["cond/Merge"] == f"(*Less:0 & {outside})"
    assert found["outer/Exit_1"] == "#true"


@pytest.mark.rule(135, 137)
def test_variables_that_do_not_go_on_together_are_not_taken_to():
    """One goes on while the loop does, the other only while another predicate holds besides."""
    (p,) = bools("p")
    starts = [tg.enter(tg.constant(0.0), frame_name="loop") for _ in range(2)]
    i, j = (tg.merge([s, s], name=name)[0] for s, name in zip(starts, "ij", strict=True))
    cond = tg.loop_cond(tg.less(i, tg.enter(tg.constant(3.0), frame_name="loop", is_constant=True), name="less"))
    (false, true), (_, other) = tg.switch(i, cond), tg.switch(j, cond)
    i.op.update_input(1, tg.next_iteration(true + true))
    j.op.update_input(1, tg.next_iteration(switched(other, tg.enter(p, frame_name="loop", is_constant=True))))
    found = predicates(tg.exit(false, name="first"), tg.exit(tg.switch(j, cond)[0], name="second"))
    assert found["i"] == "{#true,&,*less:0}<loop>"
    assert found["first"] == "#true"
    assert found["j"].startswith("{#true,&,(*less:0 & ")
    assert found["second"] == "second"


@pytest.mark.rule(135)
def test_a_loop_that_goes_on_by_another_value_is_a_symbol():
    """What comes back may be alive although the variable is not: nothing is known of it."""
    (p,) = bools("p")
    starts = [tg.enter(start, frame_name="loop") for start in (tg.constant(0.0), switched(0.0, p))]
    i, j = (tg.merge([s, s], name=name)[0] for s, name in zip(starts, "ij", strict=True))
    cond = tg.loop_cond(i < tg.enter(tg.constant(3.0), frame_name="loop", is_constant=True))
    (false, true), (_, other) = tg.switch(i, cond), tg.switch(j, cond)
    i.op.update_input(1, tg.next_iteration(true + true))
    j.op.update_input(1, tg.next_iteration(tg.merge([other, true])[0]))
    found = predicates(tg.exit(false), tg.exit(tg.switch(j, cond)[0], name="second"))
    assert (found["j"], found["second"]) == ("j", "second")


@pytest.mark.rule(139)
def test_a_loop_goes_on_if_any_of_its_back_edges_does():
    """From odd numbers by one, from even ones by two."""
    start = tg.enter(tg.constant(0), frame_name="loop")
    i = tg.merge([start] * 3, name="i")[0]
    one, ten = (tg.enter(tg.constant(n), frame_name="loop", is_constant=True) for n in (1, 10))
    done, again = tg.switch(i, tg.loop_cond(tg.less(i, ten, name="less")))
    even, odd = tg.switch(again, tg.equal(tg.floormod(again, one + one), one))
    i.op.update_input(1, tg.next_iteration(odd + one))
    i.op.update_input(2, tg.next_iteration(even + one + one))
    y = tg.exit(done, name="y")
    found = predicates(y)
    assert (found["i"], found["y"]) == ("{#true,&,*less:0}<loop>", "#true")
    with tg.SyncSession(y.graph) as session:
        assert session.run(y) == 10


@pytest.mark.rule(136)
def test_what_leaves_another_loop_than_ends_is_a_symbol():
    """A value on its way out of the outer loop passes through an inner one: it is alive in the last iteration alone."""
    start = tg.enter(0, frame_name="outer")
    i = tg.merge([start, start], name="i")[0]
    one, ten = (tg.enter(n, frame_name="outer", is_constant=True) for n in (1, 10))
    done, again = tg.switch(i, tg.loop_cond(tg.less(i, ten, name="less")), name="switch")
    i.op.update_input(1, tg.next_iteration(again + one))
    through = tg.exit(tg.enter(done, frame_name="inner", is_constant=True), name="through")
    found = predicates(tg.exit(tg.identity(through), name="y"))
    assert found["switch:0"] == "(~*less:0 & {#true,&,*less:0}<outer>)"
    assert found["through"] == "through"


# ---- against steps


async def spans(built, feeds, initial):
    """Return for each lowered operation the tags under which it was alive or dead."""
    trace = tg.Trace(capacity=1 << 20)
    async with tg.Session(built.graph, settings=PLAIN) as session:
        await session.write_variables(initial)
        await session.run(built.fetches, feeds, trace=trace)
    found = {}
    for span in trace.spans:
        found.setdefault(span.operation, {})[span.path, span.iteration] = span.live
    return found


@pytest.mark.rule(132, 133, 135, 136, 137)
@batches(100)
@batch_settings(100)
@given(program=mixed_programs())
def test_operations_of_one_predicate_are_alive_and_dead_together(batch, program):
    note(show(program))
    built = build(program, 3)
    feeds = built.feeds(program.values)
    alive = asyncio.run(spans(built, feeds, initial_values(program)))
    request = make_request(built.graph, built.fetches)
    form = compile_until("lower", Program(built.graph, list(feeds), request.tensors, request.targets), Target(PLAIN))
    leaving = {op.name for op in form.graph.root.operations if op.role in LEAVES_FRAME}  # alive in one iteration
    groups = {}
    for name, text in predicates(program=form).items():
        for tag, live in alive.get(name, {}).items() if name not in leaving else ():
            groups.setdefault((text, tag), {})[name] = live
    assert groups
    for (text, tag), lives in groups.items():
        assert len(set(lives.values())) == 1, f"{text} at {tag}: {lives}"
        assert text != "#true" or all(lives.values()), f"{tag}: {lives}"
        assert text != "#false" or not any(lives.values()), f"{tag}: {lives}"
