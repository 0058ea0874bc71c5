"""Graphs as drawings."""

import re

import tagloom as tg


def program():
    x = tg.placeholder("float32", [None], name="x")
    y = tg.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tg.cond(i > 1, lambda: a, lambda: a * 2.0)), [0, x])[1]
    with tg.control_dependencies([x]):
        return tg.identity(y, name="z")


def test_every_operation_is_drawn_once_and_every_edge_leads_somewhere(graph):
    program()
    text = graph.to_dot()
    drawn = re.findall(r'^ *"([^"]+)" \[', text, re.MULTILINE)
    assert sorted(drawn) == sorted(op.name for op in graph.get_operations())
    edges = re.findall(r'^ *"([^"]+)" -> "([^"]+)" \[(.*)\];$', text, re.MULTILINE)
    assert {name for edge in edges for name in edge[:2]} <= set(drawn)
    inputs = [(t.op.name, op.name) for op in graph.get_operations() for t in op.inputs]
    assert sorted(edge[:2] for edge in edges if edge[2].startswith("label")) == sorted(inputs)
    assert ("x", "z", "style=dashed") in edges
    assert text.count("{") == text.count("}")


def test_branches_and_bodies_are_frames_in_frames(graph):
    program()
    depth, found = 0, []
    for line in graph.to_dot().splitlines():
        depth -= line.strip() == "}"
        if (label := re.fullmatch(r' *label="(.*)";', line)) is not None:
            found.append((depth, label[1]))
        depth += line.endswith("{")
    assert found == [
        (2, "while: loop predicate"),
        (2, "while: loop body"),
        (3, "cond: false branch"),
        (3, "cond: true branch"),
    ]
