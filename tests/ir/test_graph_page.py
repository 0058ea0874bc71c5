"""The page of a graph: all operations and edges, whatever their names, and equal pages for equal graphs."""

import html
import re
import shutil
import subprocess

import numpy as np
import pytest
import tagloom as tg
from tagloom.ir.graph_page import to_html, to_page

from tests.support.pages import Elements, data_of


def build():
    x = tg.placeholder("float32", [None], name="x")
    w = tg.Variable([1.0], name="w")
    y = tg.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tg.cond(i > 1, lambda: a, lambda: a * w)), [0, x])[1]
    with tg.control_dependencies([x]), tg.device("/cpu:0"):
        z = tg.identity(y, name="z")
    return tg.py_function(lambda v: v, [z], "float32", name="call")


def test_every_operation_and_edge_is_in_the_page(graph):
    build()
    data = data_of(to_page(graph))
    operations = graph.get_operations()
    names = [op["name"] for op in data["operations"]]
    assert names == [op.name for op in operations]
    for op, found in zip(operations, data["operations"], strict=True):
        assert [(names[k], n) for k, n in found["inputs"]] == [(t.op.name, t.index) for t in op.inputs]
        assert [names[k] for k in found["controls"]] == [each.name for each in op.control_inputs]
        assert found["outputs"] == [f"{t.dtype}{t.shape}" for t in op.outputs]
        assert (found["type"], found["device"]) == (op.type, op.device)
        assert (op.source is None) == (found["source"] == "")
    for owner, k in ((each, k) for each in data["operations"] for k in each["regions"]):
        assert names[data["regions"][k]["owner"]] == owner["name"]
    assert sorted(k for region in data["regions"] for k in region["operations"]) == list(range(len(names)))


def test_what_a_reader_looks_for_is_there(graph):
    build()
    found = {op["name"]: op for op in data_of(to_page(graph))["operations"]}
    kinds = {name: found[name]["kind"] for name in ("x", "w", "while", "cond", "call", "z")}
    assert kinds == {"x": "input", "w": "state", "while": "flow", "cond": "flow", "call": "effect", "z": "compute"}
    assert found["z"]["device"]
    assert "tg.identity(y" in found["z"]["source"]
    assert ["dtype", "float32"] in found["x"]["attributes"]
    assert {op["label"] for op in found.values() if op["type"] == "Param"} == {"i", "a"}
    assert {op["brief"] for op in found.values() if op["kind"] == "constant"} >= {"0", "3", "1"}
    (page,) = re.findall('<span class="summary">(.*?)</span>', to_page(graph))
    assert page == f"{graph.num_operations} operations, 1 loop, 1 condition"


def test_equal_graphs_have_equal_pages():
    pages = []
    for _ in range(2):
        with tg.Graph().as_default() as graph:
            build()
        pages.append(to_page(graph))
    assert pages[0] == pages[1]
    assert not re.search(r" at 0x[0-9a-f]+", pages[0])


@pytest.mark.parametrize(
    "name", ["</script><script>alert(1)</script>", "<b>&amp;", '"quoted"', "a\nb", "\u2028", "name" * 500]
)
def test_names_are_shown_not_read(graph, name):
    tg.placeholder("float32", [], name=name)
    page = to_page(graph, name)
    assert data_of(page)["operations"][0]["name"] == name
    assert len([tag for tag, _ in Elements(page).tags if tag == "script"]) == 2


def test_large_constants_are_named_not_written_out(graph):
    tg.constant(np.zeros((500, 500)), name="large")
    (op,) = data_of(to_page(graph))["operations"]
    assert ["value", "float64[500,500]"] in op["attributes"]


def test_primitives_with_a_cycle_have_a_page(graph):
    merged, _ = tg.merge([tg.enter(0, "loop"), tg.enter(0, "loop")])
    merged.op.update_input(1, tg.next_iteration(merged + 1))
    assert len(data_of(to_page(graph))["operations"]) == graph.num_operations


@pytest.mark.parametrize(("suffix", "form"), [("html", to_page), ("dot", tg.Graph.to_dot), ("txt", tg.Graph.to_text)])
def test_save_writes_what_the_name_says(graph, tmp_path, suffix, form):
    build()
    graph.save(tmp_path / f"g.{suffix}")
    assert (tmp_path / f"g.{suffix}").read_text() == form(graph)


def test_save_refuses_other_names(graph, tmp_path):
    with pytest.raises(tg.GraphError, match=r"\.html, \.dot or \.txt"):
        graph.save(tmp_path / "g.svg")
    assert list(tmp_path.iterdir()) == []


def test_notebooks_show_the_page_of_small_graphs_and_a_table_of_large_ones(graph):
    y = tg.placeholder("float32", [], name="<x>")
    ((tag, attributes),) = Elements(graph._repr_html_()).tags
    assert (tag, attributes["srcdoc"]) == ("iframe", to_page(graph))
    for _ in range(2000):
        y = tg.exp(y)
    shown = to_html(graph)
    assert len(shown) < 5000
    assert "2,000" in shown
    assert "graph.save(" in html.unescape(shown)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="there is no browser")
def test_a_browser_draws_each_operation(graph, tmp_path):
    tg.gradients(build(), [graph.get_tensor_by_name("x:0")])
    graph.save(tmp_path / "g.html")
    options = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
    folder = [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000", "--dump-dom"]
    command = [CHROMIUM, *options.split(), *folder, (tmp_path / "g.html").as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    drawn = {int(k) for k in re.findall(r'data-op="(\d+)"', dom)}
    assert drawn == set(range(graph.num_operations))
    edges = sum(len(op.inputs) + len(op.control_inputs) for op in graph.get_operations())
    results = sum(len(region.results) for op in graph.get_operations() for region in op.regions)
    assert len(re.findall(r'class="edge ', dom)) == edges + results
