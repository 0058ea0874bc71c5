"""The statistics of sessions in Prometheus' text format."""

import importlib.util
import math
import re

import numpy as np
import pytest
import tagloom as tg
from tagloom.monitoring import prometheus_text
from tagloom.runtime.observe import prometheus

SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\n"])*",?)*\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\n"])*)"')
ESCAPES = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}


def parsed(text):
    """Return what Prometheus would read: metric -> (type, help, {labels: value}); fails where it would."""
    assert text.endswith("\n")
    found, open_family = {}, None
    for line in text[:-1].split("\n"):
        if line.startswith("# "):
            _, what, name, rest = line.split(" ", 3)
            family = found.setdefault(name, {"samples": {}})
            assert what.lower() not in family, "each once"
            assert not family["samples"], "before the samples"
            family[what.lower()] = rest
            open_family = name
            continue
        name, labels, value = SAMPLE.fullmatch(line).groups()
        suffix = name.removeprefix(open_family)
        if found[open_family]["type"] == "histogram":
            assert suffix in ("_bucket", "_sum", "_count")
            name = open_family
        assert name == open_family, "the samples of a metric stand together"
        own = {
            key: re.sub(r"\\[\\n\"]", lambda each: ESCAPES[each[0]], text) for key, text in LABEL.findall(labels or "")
        }
        key = tuple(sorted(own.items())) + ((suffix,) if suffix else ())
        assert key not in found[name]["samples"], "each once"
        found[name]["samples"][key] = float(value)
    for family in found.values():
        assert family["type"] in ("counter", "gauge", "histogram")
        assert family["help"]
        assert family["samples"]
    return found


def value(found, name, **labels):
    return found[f"tagloom_{name}"]["samples"][tuple(sorted(labels.items()))]


NASTY = 'a "b"\n\\c, d="e"}'


async def text_of_everything(directory):
    with tg.Graph().as_default() as graph:
        w = tg.Variable(np.ones(10, np.float32), name="w")
        queue = tg.FIFOQueue(4, "int32", shapes=[[]], shared_name=NASTY)
        put = queue.enqueue_many([[1, 2, 3]])
        mean = tg.ConditionalAccumulator("float32", shape=[], shared_name="mean")
        apply = mean.apply_grad(1.0)
        broken = tg.check_numerics(tg.log(tg.placeholder_with_default(-1.0, [])), "log")
    async with tg.Session(graph, max_steps=2) as session, tg.training.Checkpointer(directory) as checkpointer:
        for each in (w.initializer, put, apply):
            await session.run(each)
        with pytest.raises(tg.OpError):
            await session.run(broken)
        await (await checkpointer.save(session, 12))
        return prometheus_text(session), prometheus_text({"one": session, "two": session})


async def test_all_figures_are_there(tmp_path):
    text, _ = await text_of_everything(tmp_path)
    found = parsed(text)
    assert value(found, "steps_started_total") == 4
    assert value(found, "steps_ended_total", outcome="finished") == 3
    assert value(found, "steps_ended_total", outcome="failed") == 1
    device = "/job:localhost/task:0/device:CPU:0"
    assert value(found, "memory_live_bytes", device=device) >= 40
    assert value(found, "queue_size", queue=NASTY) == 3
    assert value(found, "queue_capacity", queue=NASTY) == 4
    assert value(found, "queue_bytes", queue=NASTY) == 12
    assert value(found, "queue_closed", queue=NASTY) == 0
    assert value(found, "queue_enqueued_total", queue=NASTY) == 3
    assert value(found, "queue_waiting", queue=NASTY, side="take") == 0
    assert value(found, "accumulator_count", accumulator="mean") == 1
    checkpoints = {"directory": str(tmp_path)}
    assert value(found, "checkpoints_written_total", **checkpoints) == 1
    assert value(found, "checkpoint_last_step", **checkpoints) == 12
    assert value(found, "checkpoint_last_timestamp_seconds", **checkpoints) > 1e9
    assert value(found, "checkpoint_last_duration_seconds", **checkpoints) > 0
    assert "tagloom_queue_capacity_bytes" not in found, "there is no bound"
    assert {name for name, each in found.items() if each["type"] == "counter"} == {
        name for name in found if name.endswith("_total")
    }


async def test_pipelines_and_runners_are_there():
    with tg.Graph().as_default() as graph:
        number = tg.data.from_arrays(np.arange(5)).next(shared_name="numbers")
    failures = iter([True, False, False])

    def now_and_then(_):
        if next(failures):
            raise OSError("away")

    async with tg.Session(graph) as session:
        async with tg.runners(session) as group:
            taking = group.add(number, name="take", times=2, restarts=1, backoff=0, on_step=now_and_then)
        found = parsed(prometheus_text(session))
        figures = session.statistics().figures
    assert (
        value(found, "iterator_delivered_total", iterator="numbers") == figures["iterators"]["numbers"].delivered >= 2
    )
    assert value(found, "iterator_waiting", iterator="numbers") == 0
    assert value(found, "iterator_closed", iterator="numbers") == 0
    assert value(found, "runner_steps_total", runner="take") == taking.steps == 2
    assert value(found, "runner_restarts_total", runner="take") == 1
    assert value(found, "runner_step_seconds_total", runner="take") > 0
    assert figures["runners"]["take"].state == "ended"


async def test_several_sessions_are_told_apart(tmp_path):
    _, text = await text_of_everything(tmp_path)
    found = parsed(text)
    for name in ("one", "two"):
        assert value(found, "steps_started_total", session=name) == 4
        assert value(found, "queue_size", queue=NASTY, session=name) == 3


@pytest.mark.skipif(importlib.util.find_spec("prometheus_client") is None, reason="prometheus_client is not installed")
async def test_the_client_library_reads_it(tmp_path):
    from prometheus_client.parser import text_string_to_metric_families

    text, _ = await text_of_everything(tmp_path)
    found = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    own = {
        (
            name + "".join(each for each in labels if isinstance(each, str)),
            tuple(t for t in labels if type(t) is tuple),
        ): v
        for name, family in parsed(text).items()
        for labels, v in family["samples"].items()
    }
    assert found == own


def test_numbers_are_written_as_they_are_read():
    wanted = {True: "1", 3: "3", 0.1: "0.1", math.inf: "+Inf", -math.inf: "-Inf"}
    assert {each: prometheus._format_number(each) for each in wanted} == wanted
    assert prometheus._format_number(math.nan) == "NaN"
    assert [prometheus._format_number(each) for each in (np.int64(4), np.float64(0.1), np.bool_(True))] == [
        "4",
        "0.1",
        "1",
    ]


def test_what_is_no_session_is_refused():
    with pytest.raises(tg.GraphError, match="no statistics"):
        prometheus_text(3)


def test_nothing_is_told_of_nobody():
    assert prometheus_text({}) == ""
