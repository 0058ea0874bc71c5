"""The page of a trace: its spans, iterations, counters, messages and copies; from a running step or a saved file."""

import gzip
import json
import re

import pytest
import tagloom as tg
from tagloom.cli import main
from tagloom.runtime.observe.trace_page import to_html, to_page

from tests.support.pages import Elements, data_of


@pytest.fixture(scope="module")
def trace():
    """A trace of two devices, loops in loops and two steps."""
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [2], name="x")

        def body(i, a):
            with tg.device("/cpu:1"):
                b = tg.tanh(a, name="elsewhere")
            with tg.device("/cpu:0"):
                inner = tg.while_loop(lambda j, c: j < 2, lambda j, c: (j + 1, c * 2.0), [0, b], name="inner")[1]
            return i + 1, inner

        y = tg.while_loop(lambda i, a: i < 3, body, [0, x], name="scope/outer")[1]
    trace = tg.Trace()
    with tg.SyncSession(graph, devices=2) as session:
        for _ in range(2):
            session.run(y, {x: [1.0, 2.0]}, trace=trace)
    return trace


def columns(data):
    """Return the spans of a page as (operation, type, path, loop, iteration, step, device, stream, ...)."""
    spans, begin, rows = data["spans"], 0, []
    for k in range(len(spans["begin"])):
        begin += spans["begin"][k]
        name, path, lane = spans["name"][k], spans["path"][k], spans["lane"][k]
        device, stream = divmod(lane, len(data["streams"]))
        row = (data["names"][name], data["types"][name], data["paths"][path], data["loops"][path])
        place = (data["devices"][device], data["streams"][stream], bool(spans["live"][k]))
        rows.append((*row, spans["iteration"][k], spans["step"][k], *place, begin, begin + spans["duration"][k]))
    return rows


def test_every_span_is_in_the_page(trace):
    data = data_of(to_page(trace))
    zero = min(span.begin for span in trace.spans)
    found = [row[:3] + row[4:6] + row[7:] for row in columns(data)]
    assert found == [
        (s.operation, s.type, s.path, s.iteration, s.step, s.stream, s.live, s.begin - zero, s.end - zero)
        for s in trace.spans
    ]
    assert data["devices"] == ["cpu:0", "cpu:1"] or data["devices"] == ["cpu:1", "cpu:0"]
    assert data["length"] == max(s.end for s in trace.spans) - zero
    assert data["dropped"] == 0


def test_loops_are_named_with_those_around_them(trace):
    loops = {row[2]: row[3] for row in columns(data_of(to_page(trace)))}
    assert loops["root"] == ""
    assert {loop for path, loop in loops.items() if path.endswith("/inner")} == {"scope/outer > inner"}
    assert "scope/outer" in loops.values()


def test_messages_go_from_a_send_to_its_recv(trace):
    data = data_of(to_page(trace))
    rows = columns(data)
    assert data["messages"]
    for sent, received in data["messages"]:
        assert (rows[sent][1], rows[received][1]) == ("Send", "Recv")
        assert rows[sent][2:6] == rows[received][2:6]
        assert rows[sent][6] != rows[received][6]


def test_counters_are_in_the_page(trace):
    names = {counter["name"] for counter in data_of(to_page(trace))["counters"]}
    assert names == {"live bytes", "iterations in flight"}
    for counter in data_of(to_page(trace))["counters"]:
        assert len(counter["times"]) == len(counter["values"]) > 0


def test_the_same_trace_has_the_same_page(trace):
    assert to_page(trace) == to_page(trace)


def test_a_trace_of_nothing_has_a_page():
    data = data_of(to_page(tg.Trace()))
    assert (data["length"], data["spans"]["begin"], data["devices"]) == (0, [], [])


def test_old_spans_that_made_room_are_counted():
    trace = tg.Trace(capacity=5)
    with tg.Graph().as_default() as graph, tg.SyncSession(graph) as session:
        session.run(tg.while_loop(lambda i: i < 9, lambda i: i + 1, [0]), trace=trace)
    page = to_page(trace)
    assert data_of(page)["dropped"] == trace.dropped > 0
    assert f"{trace.dropped} older ones made room" in page


def test_names_are_shown_not_read():
    name = "</script><img src=x>"
    trace = tg.Trace()
    with tg.Graph().as_default() as graph, tg.SyncSession(graph) as session:
        session.run(tg.exp(tg.placeholder_with_default(1.0, []), name=name), trace=trace)
    assert name in data_of(to_page(trace))["names"]


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_saved_trace_gives_the_same_page(trace, tmp_path, capsys, name):
    trace.save(tmp_path / name)
    trace.save(tmp_path / "direct.html")
    assert main(["trace", str(tmp_path / name)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "t.html")
    found, wanted = (data_of((tmp_path / each).read_text()) for each in ("t.html", "direct.html"))
    assert {row[:3] + row[4:9] for row in columns(found)} == {row[:3] + row[4:9] for row in columns(wanted)}
    assert found["messages"] == wanted["messages"]
    assert [c["values"] for c in found["counters"]] == [c["values"] for c in wanted["counters"]]


def test_copies_are_read_from_a_file(tmp_path):
    swapped = {
        "ph": "X",
        "name": "swap, host",
        "cat": "swap",
        "pid": 1,
        "tid": 4,
        "ts": 2.0,
        "dur": 3.0,
        "args": {"bytes": 8},
    }
    named = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/job:localhost/task:0/device:GPU:0"}}
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": [named, swapped]}))
    assert main(["trace", str(tmp_path / "t.json"), "-o", str(tmp_path / "o.html")]) == 0
    (copy,) = data_of((tmp_path / "o.html").read_text())["copies"]
    assert copy == {"device": 0, "stream": "device_to_host", "tier": "host", "bytes": 8, "begin": 0, "duration": 3000}


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[1]", b'{"traceEvents": [{"ph": "X", "ts": 1}]}', b'{"traceEvents": 3}', b"\xff\xfe"]
)
@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_other_files_are_refused(tmp_path, capsys, content, name):
    (tmp_path / name).write_bytes(gzip.compress(content) if name == "t.json.gz" and content else content)
    assert main(["trace", str(tmp_path / name)]) == 1
    assert "not a trace of tagloom" in capsys.readouterr().err
    assert not (tmp_path / "t.html").exists()


def test_a_graph_is_drawn_from_its_text(tmp_path, capsys):
    with tg.Graph().as_default() as graph:
        tg.exp(tg.placeholder("float32", [None], name="x"), name="y")
    graph.save(tmp_path / "g.txt")
    assert main(["graph", str(tmp_path / "g.txt")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "g.html")
    assert [op["name"] for op in data_of((tmp_path / "g.html").read_text())["operations"]] == ["x", "y"]
    assert main(["graph", str(tmp_path / "g.txt"), "-o", str(tmp_path / "g.dot")]) == 0
    assert (tmp_path / "g.dot").read_text() == graph.to_dot()
    (tmp_path / "g.txt").write_text("no graph")
    assert main(["graph", str(tmp_path / "g.txt")]) == 1


def test_notebooks_show_the_page_of_short_traces_and_a_table_of_long_ones(trace, monkeypatch):
    ((tag, attributes),) = Elements(trace._repr_html_()).tags
    assert (tag, attributes["srcdoc"]) == ("iframe", to_page(trace))
    monkeypatch.setattr("tagloom.runtime.observe.trace_page._IN_NOTEBOOKS", 10)
    shown = to_html(trace)
    assert "elsewhere" in shown
    assert "trace.save" in shown
    assert "<iframe" not in shown


def test_notebooks_show_reports_statistics_and_steps_as_tables():
    with tg.Graph().as_default() as graph:
        x = tg.placeholder("float32", [], name="<x>")
        y = tg.while_loop(lambda a: a < 100.0, lambda a: a * 2.0, [x], name="<double>")
        queue = tg.FIFOQueue(4, "float32", shapes=[[]], shared_name="<queue>")
        put = queue.enqueue([x])
    with tg.SyncSession(graph) as session:
        session.run([y, put], {x: 1.0})
        report, statistics, step = session.report(), session.statistics(), session.make_step(y, feeds=[x])
        shown = [report._repr_html_(), statistics._repr_html_(), step._repr_html_()]
    assert repr(step) == "<SyncStep of <double>:0; feeds: <x>:0>"
    for text in shown:
        assert not re.search("<(x|double|queue)>", text)
    assert "&lt;double&gt;" in shown[0]
    assert "steps_started" in shown[1]
    assert "&lt;queue&gt;" in shown[1]
    assert "&lt;x&gt;" in shown[2]
    assert "no loop ran" in tg.Report()._repr_html_()
