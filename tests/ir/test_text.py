"""Graphs as text: what is printed is read back alike, runs alike, and says what is wrong with it."""

import re

import ml_dtypes
import numpy as np
import pytest
import tagloom as tg
from tagloom.base import dtypes
from tagloom.base.errors import GraphError
from tagloom.base.shapes import Shape
from tagloom.frontend.control.conditional import cond, switch_case
from tagloom.frontend.control.loops import while_loop
from tagloom.frontend.control.scopes import control_dependencies, device
from tagloom.frontend.functions.py_function import py_function
from tagloom.gradients.api import gradients
from tagloom.ir.apply import apply, constant
from tagloom.ir.graph import Graph
from tagloom.ir.indexing import DYNAMIC
from tagloom.ir.program import Program
from tagloom.ir.structured import save_maybe, save_series, trip_count
from tagloom.ir.text import parse, to_text
from tagloom.ir.text_values import Reader, format_value
from tagloom.ops.control.placeholders import identity, no_op, placeholder
from tagloom.ops.control.primitives import enter, exit, loop_cond, merge, next_iteration, switch

from tests.ops.evaluation import declare_all
from tests.support.cases import each
from tests.support.compiling import lowered
from tests.support.execute import execute

DEFINITIONS = declare_all()


def round_trip(graph):
    text = to_text(graph)
    again = parse(text)
    assert to_text(again) == text
    return again


# ---- programs


def conditional():
    x, p = placeholder("float32", [None], name="x"), placeholder("bool", [], name="p")
    y = cond(p, lambda: x[1:, None] + 1.0, lambda: -x[:-1, None], name="y")
    return [y], {x: [1.0, 2.0], p: True}


def many_branches():
    i = placeholder("int32", [], name="i")
    return [switch_case(i, [lambda: constant(10), lambda: i * 2, lambda: constant(-1)])], {i: 1}


def nested_loops():
    n, p = placeholder("int32", [], name="n"), placeholder("bool", [], name="p")

    def body(i, t):
        inner = while_loop(lambda j, u: j < i, lambda j, u: (j + 1, u + n), [0, t], maximum_iterations=3)
        return i + 1, cond(p, lambda: inner[1], lambda: t - i)

    return list(while_loop(lambda i, t: i < n, body, [0, 0], parallel_iterations=2)), {n: 5, p: True}


def saved_values():
    n, squares, slots, maybes = placeholder("int32", [], name="n"), [], [], []

    def body(i, t):
        squares.append(i * i)
        slots.append(apply("Cast", squares[0], dtype=dtypes.int64))
        step = cond(i < 2, lambda: maybes.append(i * 3) or maybes[0] + 1, lambda: t)
        maybes.append(save_maybe(step.op, 1, maybes[0]))
        return i + 1, step

    i, t = while_loop(lambda i, t: i < n, body, [0, 0])
    series = save_series(i.op, squares[0]), save_series(i.op, maybes[1], slots[0])
    trips = trip_count(i.op)
    read = apply("SeriesRead", series[0], trips - np.int64(1), dtype=dtypes.int32, shape=Shape(()))
    second = apply("SeriesRead", series[1], np.int64(1), dtype=dtypes.int32, shape=Shape(()))
    return [t, read, second, trips], {n: 4}


def gradients_of_gradients():
    x = placeholder("float32", [], name="x")

    def body(i, a):
        return i + 1, cond(a > 2.0, lambda: a * a * x, lambda: a + x)

    _, y = while_loop(lambda i, a: i < 3, body, [0, x])
    (first,) = gradients(y, [x])
    (second,) = gradients(first, [x])
    return [y, first, second], {x: 1.5}


def hand_made_loop():
    start = enter(constant(0), "frame")
    variable, _ = merge([start, start])
    limit, step = (enter(constant(v), "frame", is_constant=True) for v in (7, 2))
    done, more = switch(variable, loop_cond(variable < limit))
    variable.op.update_input(1, next_iteration(more + step))
    return [exit(done)], {}


def scopes():
    first = no_op(name="wait here: first")
    with control_dependencies([first]), device("/cpu:0"):
        return [identity(constant([1.5, 2.5]), name='a "quoted" name')], {}


PROGRAMS = [
    conditional,
    many_branches,
    nested_loops,
    saved_values,
    gradients_of_gradients,
    hand_made_loop,
    scopes,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
async def test_a_parsed_graph_has_the_same_text_and_results(program):
    with Graph(seed=5).as_default() as graph:
        fetches, feeds = program()
    again = round_trip(graph)
    assert again.seed == 5
    wanted = await execute(fetches, feeds)
    found = await execute(
        [again.get_tensor_by_name(t.name) for t in fetches],
        {again.get_tensor_by_name(t.name): value for t, value in feeds.items()},
    )
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_a_lowered_graph_with_its_cycles_prints_and_parses(program):
    with Graph().as_default() as graph:
        fetches, feeds = program()
    program = lowered(Program(graph, list(feeds), fetches))
    again = round_trip(program.graph)
    for op in again.get_operations():
        assert all(op in tensor.consumers() for tensor in op.inputs)


@each("definition", DEFINITIONS)
def test_samples_of_every_operation_print_and_parse(definition):
    for sample in definition.samples:
        with Graph().as_default() as graph:
            apply(definition.type, *sample.inputs, **sample.attrs)
        if "<callable " in to_text(graph):
            assert any(map(callable, sample.attrs.values()))
            continue
        again = round_trip(graph)
        for op, copy in zip(graph.get_operations(), again.get_operations(), strict=True):
            assert [(t.dtype, t.shape) for t in op.outputs] == [(t.dtype, t.shape) for t in copy.outputs]
            assert {k: format_value(v) for k, v in op.attrs.items()} == {
                k: format_value(v) for k, v in copy.attrs.items()
            }


def test_what_the_text_looks_like():
    with Graph().as_default() as graph:
        x, p = placeholder("float32", [None], name="x"), placeholder("bool", [], name="p")
        cond(p, lambda: x + 1.0, lambda: x, name="choose")
    assert graph.to_text() == (
        "graph seed=0\n"
        "  x = Placeholder() dtype=float32 shape=shape[?] : float32[?]\n"
        "  p = Placeholder() dtype=bool shape=shape[] : bool[]\n"
        "  choose = Cond(p) : float32[?]\n"
        '    region "false branch" ()\n'
        "      return x\n"
        '    region "true branch" ()\n'
        "      Const = Const() value=float32[]{1.0} : float32[]\n"
        "      Add = Add(x, Const) : float32[?]\n"
        "      return Add\n"
    )


def test_the_text_does_not_depend_on_where_and_when_a_graph_is_built():
    def build():
        with Graph().as_default() as graph:
            nested_loops()
        return graph

    texts = [to_text(graph) for graph in (build(), build())]
    assert texts[0] == texts[1]
    assert __file__ not in texts[0]


def test_a_parsed_graph_can_be_built_on():
    with Graph().as_default() as graph:
        constant(1, name="c")
    with parse(to_text(graph)).as_default() as again:
        assert constant(2, name="c").op.name == "c_1"
        assert again.get_tensor_by_name("c:0").shape == []


# ---- attributes

VALUES = [
    None,
    True,
    False,
    0,
    -3,
    2**70,
    0.1,
    1.0,
    -1e-30,
    float("inf"),
    2 + 3j,
    "",
    'a "b" \\ \n é',
    (),
    (1,),
    (1, (2.0, "x")),
    [1, None],
    {"k": (1, 2), 3: []},
    ...,
    DYNAMIC,
    slice(None),
    slice(1, DYNAMIC, -2),
    (slice(0, 3, None), ..., None, 4),
    Shape(None),
    Shape(()),
    Shape([None, 3]),
    dtypes.float32,
    (dtypes.bool_, dtypes.string),
]


@pytest.mark.parametrize("value", VALUES, ids=format_value)
def test_a_value_is_read_back_as_it_was(value):
    again = Reader(format_value(value)).value()
    assert again == value
    assert type(again) is type(value)


ARRAYS = [
    np.array(True),
    np.array([[True], [False]]),
    np.zeros((0, 2), np.int8),
    np.array([2**63], np.uint64),
    np.float32([0.1, np.inf, -0.0]),
    np.float16([0.1]),
    np.float64([1 / 3, 1e300]),
    np.complex64([1 + 2j, -3j]),
    np.complex128(complex(-0.0, 1 / 3)),
    np.array([0.1, 300], ml_dtypes.bfloat16),
    np.array("é", np.dtypes.StringDType()),
    np.array(["a", "", 'quote " , }'] * 30, np.dtypes.StringDType()),
    np.arange(100, dtype=np.float32).reshape(4, 25).T,
    np.arange(65).astype(ml_dtypes.bfloat16),
    np.arange(70) % 2 == 0,
    np.arange(80) * (1 - 2j),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_an_array_is_read_back_bit_by_bit(array):
    again = Reader(format_value(array)).value()
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    assert not again.flags.writeable
    if array.dtype.kind == "T":
        assert again.tolist() == array.tolist()
    else:
        assert again.tobytes() == array.tobytes()


def test_nan_is_read_back():
    assert np.isnan(Reader(format_value(np.float32([np.nan]))).value()).all()
    assert np.isnan(Reader(format_value(float("nan"))).value())


def test_what_only_exists_in_python_prints_but_does_not_parse():
    with Graph().as_default() as graph:
        py_function(lambda: 1.0, [], "float32", name="call")
    text = to_text(graph)
    assert "function=<callable lambda>" in text
    with pytest.raises(GraphError, match=r"line 2 .* only exists in Python") as caught:
        parse(text)
    assert caught.value.got == "<callable lambda>"
    assert format_value(object()) == "<object object>"


# ---- errors

WRONG = [
    ("", 1, "'graph'"),
    ("graph seed=x", 1, "a value"),
    ('graph seed="x"', 1, "an integer seed"),
    ("graph seed=0 more", 1, "the end of the line"),
    ("graph seed=0\n\n# a comment\n  a Const()", 4, "'='"),
    ("graph seed=0\n  a = Nothing()", 2, "a declared operation type"),
    ("graph seed=0\n  a = Identity(b) : int32[]", 2, "the name of an operation of this text"),
    ("graph seed=0\n  a = NoOp(^b)", 2, "the name of an operation of this text"),
    ("graph seed=0\n  a = NoOp()\n  a = NoOp()", 3, "a name that no other operation has"),
    ("graph seed=0\n  a = NoOp(\n  b = NoOp()", 2, "a name"),
    (
        "graph seed=0\n  a = Const() value=int32[]{1} : int32[]\n  b = Identity(a:1) : int32[]",
        3,
        "one of the 1 outputs of a",
    ),
    ("graph seed=0\n  a = Const() value=int32[2]{1} : int32[2]", 2, r"elements for int32\[2\]"),
    ("graph seed=0\n  a = Const() value=int8[]{300} : int8[]", 2, "an element of int8"),
    ("graph seed=0\n  a = Const() value=} : int32[]", 2, "a value"),
    ("graph seed=0\n  a = Const() value=(1 2) : int32[]", 2, r"'\)'"),
    ("graph seed=0\n  a = Const() value=1 : whole[]", 2, "a dtype and a shape"),
    ("graph seed=0\n  a = Const() value=1 : int32[x]", 2, "a number"),
    ('graph seed=0\n  a = Const() value="open : int32[]', 2, "a name, a value or punctuation"),
    ("graph seed=0\n  a = NoOp() @cpu", 2, "a quoted string"),
    (
        "graph seed=0\n  p = Placeholder() dtype=bool : bool[]\n  a = Cond(p) : int32[]",
        3,
        "the regions of this operation",
    ),
    ('graph seed=0\n  a = Cond(a) : bool[]\n    region "x" ()\n', 3, "the return of this region"),
    (
        'graph seed=0\n  a = Cond(a) : bool[]\n    region "x" ()\n      return a\n    save all',
        5,
        "maybe, series or trip",
    ),
]


@pytest.mark.parametrize(("text", "line", "wanted"), WRONG)
def test_a_wrong_text_is_refused_with_its_line_and_what_was_wanted(text, line, wanted):
    with pytest.raises(GraphError, match=rf"^line {line} of a graph's text is wrong\n  wanted: .*{wanted}"):
        parse(text)


# ---- texts are input like any other

UNREDUCE = """graph seed=0
  c = Placeholder() dtype=float64 shape=shape[] : float64[]
  s = Placeholder() dtype=int32 shape=shape[1] : int32[1]
  u = Unreduce(c, s) axis=None keepdims=False : float32[?]
"""


@pytest.mark.parametrize("axis", ["1", "0.5", "bool", '"loop body"', "(0.5,)", "(1,)", "(0, 0)"])
@pytest.mark.parametrize("type", ["Unreduce", "Sum"])
def test_axes_are_those_there_are(axis, type):
    text = UNREDUCE.replace("axis=None", f"axis={axis}")
    if type == "Sum":
        text = text.replace("Unreduce(c, s)", "Sum(s)")
    with pytest.raises(GraphError, match="line 4 of a graph's text"):
        parse(text)


@pytest.mark.parametrize("axis", ["1", "0.5", "bool", "(0.5,)"])
def test_axes_are_integers_also_where_the_rank_is_not_known(axis):
    text = UNREDUCE.replace("int32 shape=shape[1]", "int32 shape=shape[...]").replace("axis=None", f"axis={axis}")
    with pytest.raises(GraphError, match="line 4 of a graph's text"):
        parse(text.replace("Unreduce(c, s)", "Sum(s)"))


def test_what_a_text_says_of_results_is_not_believed():
    graph = parse(UNREDUCE)
    assert graph.get_tensor_by_name("u:0").dtype is tg.float64
    with tg.SyncSession(graph) as session:
        result = session.run("u:0", {"c:0": 1.0, "s:0": [5]})
    np.testing.assert_array_equal(result, np.ones(5), strict=True)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ('  c = Const() value=float32[3]{base64 "AAAA"} : float32[3]', "elements for float32"),
        ('  c = Const() value=float32[3]{base64 "A!"} : float32[3]', "elements for float32"),
        ("  c = Const() value=slice() : float32[3]", "a slice of three"),
        ("  c = Const() value=slice(1, 2, 3, 4) : float32[3]", "a slice of three"),
        ("  c = Const() value={[1]: 2} : float32[3]", "keys that are no lists"),
        (f"  c = Const() value={'(' * 5000} : float32[3]", "nested less than"),
        (f"  c = Const() value=1 : float32[{'9' * 5000}]", "at most 18 digits"),
        (f"  c = Const() value={'9' * 5000} : float32[]", "a shorter number"),
        ("  c = Const() value=1 : float32[3]", "what fits Const"),
        ("  c = Add(p) : float32[]", "wrong number of inputs"),
        ("  c = Add(p, b) : float32[]", "mixed dtypes"),
        ("  c = Neg(p) : float32[], float32[]", "what fits Neg"),
        ("  c = Sum(p) axis=(9,) keepdims=False : float32[]", "what fits Sum"),
        ('  c = Sum(p) axis=None keepdims="yes" : float32[]', "attribute keepdims"),
        ("  c = Cast(p) : float32[]", "attribute dtype"),
        ("  c = Neg(d) : float32[]\n  d = Neg(c) : float32[]", "the only cycles allowed"),
        ('  c = Cond(p) : float32[]\n    region "a" ()\n      return p', "Cond"),
    ],
)
def test_a_wrong_text_is_refused_with_its_line(line, wanted):
    text = "graph seed=0\n  p = Placeholder() dtype=float32 shape=shape[] : float32[]\n"
    text += f"  b = Placeholder() dtype=bool shape=shape[] : bool[]\n{line}\n"
    with pytest.raises(tg.GraphError) as caught:
        parse(text)
    assert re.search(wanted, str(caught.value)), str(caught.value)
    assert "line 4 of" in str(caught.value) or "cycle" in str(caught.value)
