"""A partitioned program as text and as a drawing."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.compile.partition import to_dot, to_text
from tagloom.ir.text import parse
from tagloom.ir.text import to_text as graph_text

from tests.compile.partition.building import counted, cut, on, run, source, two_devices

pytestmark = pytest.mark.usefixtures("graph")


def test_each_part_prints_and_parses(golden):
    n = source(0, "n", "int32")
    found = cut([two_devices(n)], [n])
    text = to_text(found)
    golden("partitioned_while", text)
    for part, (device, program) in zip(text.split("# /")[1:], found.programs.items(), strict=False):
        assert part.startswith(str(device)[1:])
        assert graph_text(parse(part.split("\n", 1)[1].split("# channel")[0])) == graph_text(program.graph)


@pytest.mark.rule(118, 119)
def test_golden_nested_loop(golden):
    n = source(0, "n", "int32")

    def body(i, x):
        inner = tg.while_loop(lambda j, y: j < i, lambda j, y: (j + 1, on(1, tg.multiply, y, 2.0)), [0, x], name="in")
        return i + 1, inner[1]

    golden("partitioned_nested", to_text(cut([tg.while_loop(lambda i, x: i < n, body, [0, 1.0], name="out")[1]], [n])))


@pytest.mark.rule(115, 116)
def test_golden_cond(golden):
    x, p = source(0), source(0, "p", "bool")
    y = tg.cond(p, lambda: on(1, tg.add, on(1, tg.exp, x), on(0, tg.tanh, x)), lambda: x, name="choose")
    golden("partitioned_cond", to_text(cut([y], [x, p])))


def test_golden_gradient_of_a_loop(golden):
    n, x = source(0, "n", "int32"), source(1)
    y = counted(n, lambda x: on(1, tg.multiply, x, x), x)
    (gradient,) = tg.gradients(y, [x])
    golden("partitioned_gradient", to_text(cut([gradient], [n, x])))
    assert run([gradient], {n: 3, x: 1.5})[0] == [8 * np.float32(1.5) ** 7]


def test_drawing():
    x = source(0)
    text = to_dot(cut([on(1, tg.exp, x, name="y")], [x]))
    assert text.splitlines()[0] == "digraph partitioned {"
    assert '  "0/x/Send" -> "1/x/Recv" [style=bold, label="0"];' in text.splitlines()
    assert text.count("subgraph") == 2
    assert '    "1/x/Recv" -> "1/y" [label="float32[]"];' in text.splitlines()
