"""Loops as native programs: what they look like, and what keeps a loop from being one."""

from dataclasses import replace

import numpy as np
import pytest
import tagloom as tg
from tagloom.compile import Target, compile_until
from tagloom.compile.native.rules import ON_CPU
from tagloom.compile.native.translate import NotNative, translate
from tagloom.ir.program import Program
from tagloom.kernels.native.compiled import CompiledProgram
from tagloom.kernels.native.program import NativeProgram

from tests.support.settings import ON

pytestmark = pytest.mark.usefixtures("graph")

MACHINE = replace(ON, straight=False)


def below(n):
    return lambda i, *_: i < n


def loops(fetches, feeds=(), settings=MACHINE):
    """Return the loops of a compiled graph that are as they were before native programs."""
    graph = fetches[0].graph
    program = compile_until("mark_swappable", Program(graph, list(feeds), list(fetches)), Target(settings))
    return [op for op in program.graph.root.walk() if op.is_while]


def nested():
    n = tg.placeholder("int32", [], "n")

    def body(i, x):
        inner = tg.while_loop(below(i), lambda j, y: (j + 1, y * 0.5), [0, x], name="inner")[1]
        return i + 1, tg.cond(inner > 1.0, lambda: inner - 1.0, lambda: inner)

    return tg.while_loop(lambda i, x: i < n, body, [0, 8.0], name="outer")[1], n


def differentiated():
    x, w = tg.placeholder("float32", [2, 2], "x"), tg.placeholder("float32", [2, 2], "w")
    y = tg.while_loop(below(3), lambda i, x: (i + 1, tg.tanh(x @ w)), [0, x], name="loop")[1]
    return tg.gradients(tg.reduce_sum(y), [w]), [x, w]


def test_golden_nested_loop(golden):
    y, n = nested()
    (outer, _) = loops([y], [n])
    golden("native_nested", translate(outer, ON)[0].to_text() + "\n")


def test_golden_loop_and_its_gradient(golden):
    fetches, feeds = differentiated()
    texts = [translate(loop, ON)[0].to_text() for loop in loops(fetches, feeds)]
    golden("native_gradient", "\n\n".join(texts) + "\n")


def test_an_attribute_stands_for_a_program():
    fetches, feeds = differentiated()
    for loop in loops(fetches, feeds):
        program = translate(loop, ON)[0]
        assert NativeProgram.from_attribute(program.to_attribute()).to_attribute() == program.to_attribute()
        assert str(NativeProgram.from_attribute(program.to_attribute())) == program.to_text()
        assert repr(program).startswith("<NativeProgram ")


def refused(*fetches, feeds=(), rules=ON_CPU):
    """Return why the first of the loops is not native."""
    with pytest.raises(NotNative) as caught:
        translate(loops(fetches, feeds)[0], ON, rules)
    return str(caught.value)


def test_why_a_loop_is_not_native():
    zero = tg.constant(0.0)
    assert "does more than compute" in refused(
        tg.while_loop(below(3), lambda i, x: (i + 1, x + tg.random_uniform([])), [0, zero])[1]
    )
    assert "does more than compute" in refused(
        tg.while_loop(
            below(3), lambda i, x: (i + 1, tg.py_function(lambda x: x, [x], "float32", output_shapes=[])), [0, zero]
        )[1]
    )
    assert "has no kernel in C" in refused(
        tg.while_loop(below(3), lambda i, x: (i + 1, tg.stack([x[0], x[1]])), [0, tg.zeros([2])])[1],
        rules=replace(ON_CPU, calls=False),
    )


def test_what_a_branch_may_not_have_given_is_no_input():
    x = tg.placeholder("float64", [], "x")

    def body(i, y):
        return i + 1, tg.sin(y) * x

    y = tg.cond(x > 0.0, lambda: tg.while_loop(below(3), body, [0, x])[1], lambda: x)
    found = loops(tg.gradients(y, [x]), [x])
    assert len(found) == 2
    for loop in found:
        translate(loop, ON)  # both are in the branch that saves what they use


def test_the_loop_stays_beside_its_program():
    y, n = nested()
    form = compile_until("straight", Program(y.graph, [n], [y]), Target(ON))
    (native,) = [op for op in form.graph.root.operations if op.definition.type == "Native"]
    (either,) = [op for op in form.graph.root.operations if op.is_cond]
    assert either.inputs == [native.outputs[0]]
    machine, program = either.regions
    assert [op.name for op in machine.operations] == ["outer"]
    assert program.results == native.outputs[1:]
    assert not [op.name for op in form.graph.root.walk() if "not_native" in op.attrs]


def test_the_inner_loop_of_one_that_does_more():
    def body(i, x):
        x = tg.while_loop(below(4), lambda j, y: (j + 1, y * 0.5), [0, x], name="inner")[1]
        return i + 1, tg.py_function(lambda x: x, [x], "float32", output_shapes=[])

    y = tg.while_loop(below(3), body, [0, 8.0], name="outer")[1]
    form = compile_until("straight", Program(y.graph, [], [y]), Target(ON))
    natives = [op.name for op in form.graph.root.walk() if op.definition.type == "Native"]
    assert len(natives) == 1
    assert "inner" in natives[0]
    (outer,) = [op for op in form.graph.root.walk() if op.name == "outer"]
    assert outer.notes.not_native == "PyFunction (PyFunction) does more than compute"


@pytest.mark.parametrize("off", ["native", "loops", "straight"])
def test_without_kernels_in_c_there_are_no_programs(off):
    y, n = nested()
    form = compile_until("straight", Program(y.graph, [n], [y]), Target(ON.without(off)))
    assert not [op for op in form.graph.root.walk() if op.definition.type == "Native"]


def test_where_a_result_may_lie_in_an_input():
    x = tg.placeholder("float64", [2], "x")
    y, z = tg.while_loop(below(3), lambda i, a, b: (i + 1, tg.sin(tg.exp(a)), b), [0, x, x])[1:]
    (loop,) = loops([y, z], [x], MACHINE.without("fuse"))
    last = {i.computation.type: i.last for i in translate(loop, ON)[0].instructions if i.computation}
    assert last["Sin"] == (True,)
    assert last["Exp"] == (True,)
    assert last["Add"] == (True, False)  # the constant is the same for all


def test_what_a_predicate_computes_with_is_there_behind_the_loop():
    x = tg.placeholder("float64", [2], "x")

    def predicate(i, a):
        return tg.logical_and(i < 3, tg.reduce_mean(-a) < 0.0)

    (y,) = tg.while_loop(predicate, lambda i, a: (i + 1, tg.sin(x)), [0, x])[1:]
    (loop,) = loops([y], [x], MACHINE.without("fuse"))
    last = [(i.computation.type, i.last) for i in translate(loop, ON)[0].instructions if i.computation]
    assert ("Neg", (False,)) in last  # its input is what the loop gives if it ends here
    for values in ([1.0, 2.0], [-1.0, -2.0]):
        found = []
        for settings in (ON, ON.without("llvm"), ON.without("straight")):
            with tg.SyncSession(y.graph, settings=settings) as session:
                found.append(session.run(y, {x: np.array(values)}))
        np.testing.assert_array_equal(found[0], found[2])
        np.testing.assert_array_equal(found[1], found[2])


def test_a_program_is_compiled_for_its_dtypes():
    y, n = nested()
    outer, _ = loops([y], [n])
    program = translate(outer, ON, replace(ON_CPU, calls=False))[0]
    assert CompiledProgram(program).program is program
    assert CompiledProgram(program).counts == {}
    words = [(name, np.dtype("S1") if dtype == np.float32 else dtype) for name, dtype in program.registers]
    broken = NativeProgram(
        program.name, tuple(words), *program.to_attribute()[2:4], program.constants, program.instructions
    )
    with pytest.raises(ValueError, match="has no kernel"):
        CompiledProgram(broken)


async def test_what_waits_for_a_loop_waits_for_either(graph):
    y = tg.while_loop(below(3), lambda i: i + 1, [0], name="first")
    with tg.control_dependencies([y.op]):
        z = tg.while_loop(below(4), lambda i: i + 1, [0], name="second")
        w = tg.identity(tg.placeholder("float32", [], "x"))
    form = compile_until("straight", Program(graph, [w.op.inputs[0]], [z, w], [y.op]), Target(ON))
    names = {op.name: [control.name for control in op.control_inputs] for op in form.graph.root.walk()}
    assert names[w.op.name] == names["second/native"] == ["first/either"]
    assert [op.name for op in form.targets] == ["first/either"]
    async with tg.Session(graph, settings=ON) as session:
        assert await session.run([z, w, y.op], {w.op.inputs[0]: 2.0}) == [4, 2.0, None]
