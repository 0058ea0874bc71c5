"""Steps and checkpoints as spans of OpenTelemetry: of a small stand-in, and of the SDK where that is installed."""

import asyncio
import importlib.util
import logging
import subprocess
import sys

import numpy as np
import pytest
import tagloom as tg
from tagloom.monitoring import Spans
from tagloom.training import Checkpointer

from tests.monitoring import fake_opentelemetry
from tests.support.waiting import turns


@pytest.fixture
def tracer(monkeypatch):
    modules, tracer = fake_opentelemetry.modules()
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return tracer


class Model:
    def __init__(self, call=lambda x: x):
        with tg.Graph().as_default() as self.graph:
            self.x = tg.placeholder("float32", [], name="x")
            self.y = tg.py_function(call, [self.x], "float32", name="y", output_shapes=[])
            self.w = tg.Variable(np.ones(4, np.float32), name="w")


def names(span):
    return (span.name, None if span.parent is None else span.parent.name)


async def test_a_step_is_a_span(tracer, executor):
    model = Model()
    async with tg.Session(model.graph, executor=executor, on_step=Spans()) as session:
        await session.run(model.w.initializer)
        for _ in range(2):
            await session.run(model.y, {model.x: 1.0})
        peak = session.statistics().peak_bytes
    assert tracer.spans[0].attributes["tagloom.step.fetches"] == (model.w.initializer.name,)
    assert [names(span) for span in tracer.spans] == [("tagloom.step", None)] * 3
    assert 16 <= tracer.spans[-1].attributes["tagloom.step.peak_bytes"] <= peak
    for number, span in list(enumerate(tracer.spans))[1:]:
        found = span.attributes
        assert found["tagloom.step.fetches"] == ("y:0",)
        assert (found["tagloom.step.number"], found["tagloom.step.outcome"]) == (number, "finished")
        assert 0 < found["tagloom.step.seconds"] < 60
        assert span.start_time < span.end_time
        assert found["tagloom.step.waited_seconds"] >= 0
        assert span.status.status_code.name == "UNSET"


@pytest.fixture(params=["machine", "reference"])
def executor(request):
    return request.param


async def test_parents_are_the_callers_and_children_the_functions(tracer, executor):
    """In several tasks at once, each with a span of its own."""

    async def call(x):
        with tracer.start_as_current_span(f"function {x:g}"):
            await turns(3)
        return x

    model = Model(call)
    async with tg.Session(model.graph, executor=executor, on_step=Spans(tracer)) as session:

        async def request(x):
            with tracer.start_as_current_span(f"request {x:g}") as span:
                await session.run(model.y, {model.x: x})
                assert fake_opentelemetry._current.get() is span, "as it was before"

        await asyncio.gather(*(request(float(x)) for x in range(4)))
    by_name = {span.name: span for span in tracer.spans}
    for x in range(4):
        step = by_name[f"function {x}"].parent
        assert names(step) == ("tagloom.step", f"request {x}")
    assert all(span.end_time is not None for span in tracer.spans)
    assert fake_opentelemetry._current.get() is None


async def test_what_fails_is_an_error(tracer):
    def fail(x):
        raise ValueError("no\nsecond line")

    model = Model(fail)
    async with tg.Session(model.graph, on_step=Spans()) as session:
        with pytest.raises(tg.OpError):
            await session.run(model.y, {model.x: 1.0})
    (span,) = tracer.spans
    assert span.attributes["tagloom.step.outcome"] == "failed"
    assert span.status.status_code.name == "ERROR"
    assert "\n" not in span.status.description
    assert [type(event) for event in span.events] == [tg.OpError]


@pytest.mark.parametrize(("how", "status"), [("cancelled", "UNSET"), ("timed out", "ERROR")])
async def test_what_ends_early_is_told(tracer, how, status):
    begun = asyncio.Event()

    async def hang(x):
        begun.set()
        await asyncio.Event().wait()

    model = Model(hang)
    async with tg.Session(model.graph, on_step=Spans()) as session:
        timeout = 0.01 if how == "timed out" else None
        task = asyncio.ensure_future(session.run(model.y, {model.x: 1.0}, timeout=timeout))
        await begun.wait()
        if how == "cancelled":
            task.cancel()
        await asyncio.wait([task])
    (span,) = tracer.spans
    assert span.end_time is not None
    assert (span.attributes["tagloom.step.outcome"], span.status.status_code.name) == (how, status)


async def test_a_partial_run_is_a_span_that_is_current_for_nobody(tracer):
    model = Model()
    async with tg.Session(model.graph, on_step=Spans()) as session:
        with tracer.start_as_current_span("request"):
            async with await session.partial_run_setup(model.y, [model.x]) as handle:
                assert fake_opentelemetry._current.get().name == "request"
                await session.partial_run(handle, model.y, {model.x: 1.0})
            await turns()
    (span,) = [each for each in tracer.spans if each.name == "tagloom.step"]
    assert names(span) == ("tagloom.step", "request")
    assert span.start_time < span.end_time
    assert span.attributes["tagloom.step.outcome"] == "finished"


async def test_a_checkpoint_is_a_span_of_who_saves(tracer, tmp_path):
    model, spans = Model(), Spans()
    async with tg.Session(model.graph) as session, Checkpointer(tmp_path, on_save=spans.checkpoint) as checkpointer:
        await session.run(model.w.initializer)
        with tracer.start_as_current_span("training"):
            saving = await checkpointer.save(session, 5)
        path = await saving
    (span,) = [each for each in tracer.spans if each.name == "tagloom.checkpoint"]
    assert names(span) == ("tagloom.checkpoint", "training")
    assert span.attributes == {
        "tagloom.checkpoint.step": 5,
        "tagloom.checkpoint.bytes": 16,
        "tagloom.checkpoint.seconds": saving.seconds,
        "tagloom.checkpoint.path": str(path),
    }
    assert span.end_time is not None


async def test_a_checkpoint_that_fails_is_an_error(tracer, tmp_path):
    model, spans = Model(), Spans()
    (tmp_path / "file").write_text("")
    checkpointer = Checkpointer(tmp_path / "file", on_save=spans.checkpoint)
    async with tg.Session(model.graph) as session:
        await session.run(model.w.initializer)
        with pytest.raises(tg.CheckpointError):
            await (await checkpointer.save(session, 5))
    (span,) = tracer.spans
    assert span.status.status_code.name == "ERROR"
    assert [type(event) for event in span.events] == [tg.CheckpointError]
    assert "tagloom.checkpoint.path" not in span.attributes


async def test_a_tracer_that_raises_harms_no_step(tracer, caplog, tmp_path):
    class Broken:
        def start_as_current_span(self, name, **options):
            raise OSError("no collector")

        start_span = start_as_current_span

    model, spans = Model(), Spans(Broken())
    async with tg.Session(model.graph, on_step=spans) as session:
        with caplog.at_level(logging.ERROR, "tagloom"):
            assert await session.run(model.y, {model.x: 1.0}) == 1.0
            await session.run(model.w.initializer)
            async with Checkpointer(tmp_path, on_save=spans.checkpoint) as checkpointer:
                assert (await (await checkpointer.save(session, 1))).exists()
    assert "no collector" in caplog.text


def test_nothing_is_imported_unless_asked():
    code = "import sys, tagloom; print([m for m in sys.modules if m.startswith(('opentelemetry', 'rich'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_without_the_api_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(tg.TagloomError, match=r"tagloom\[opentelemetry\]"):
        Spans()


def has_sdk():
    return importlib.util.find_spec("opentelemetry") and importlib.util.find_spec("opentelemetry.sdk")


@pytest.mark.skipif(not has_sdk(), reason="opentelemetry-sdk is not installed")
async def test_the_sdk_takes_the_spans(tmp_path):
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")

    def fail(x):
        with tracer.start_as_current_span("function"):
            raise ValueError("no")

    model, spans = Model(fail), Spans(tracer)
    async with tg.Session(model.graph, on_step=spans) as session:
        with tracer.start_as_current_span("request"):
            with pytest.raises(tg.OpError):
                await session.run(model.y, {model.x: 1.0})
            async with await session.partial_run_setup(model.w.initializer) as handle:
                await session.partial_run(handle, model.w.initializer)
            async with Checkpointer(tmp_path, on_save=spans.checkpoint) as checkpointer:
                await (await checkpointer.save(session, 3))
    found = {span.name: span for span in exporter.get_finished_spans()}
    steps = [span for span in exporter.get_finished_spans() if span.name == "tagloom.step"]
    request = found["request"].context.span_id
    assert [span.parent.span_id for span in steps] == [request, request]
    assert found["function"].parent.span_id == steps[0].context.span_id
    assert [span.status.status_code.name for span in steps] == ["ERROR", "UNSET"]
    assert [event.name for event in steps[0].events] == ["exception"]
    assert found["tagloom.checkpoint"].parent.span_id == request
    assert found["tagloom.checkpoint"].attributes["tagloom.checkpoint.step"] == 3
