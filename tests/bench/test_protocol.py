"""The bench protocol, driven with an engine small enough to live in this file."""

import json
import math
import os
import re
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from bench import __main__ as command_line
from bench import memory, process, protocol, report
from bench.experiment import BenchError, Experiment, Observed

FAST = protocol.Effort(seconds=600.0, most_rounds=3, timing=0.001, idle=0.0)  # rounds decide, on a busy machine too


def ours(case, stack):
    return lambda: [np.arange(case["length"])]


async def asynchronous(case, stack):
    async def step():
        return [np.arange(case["length"])]

    return step


def noting(case, stack):
    return Observed(ours(case, stack), {"waste": [float(case["length"]), 7.0]})


def wrong(case, stack):
    return lambda: [np.arange(case["length"]) + 1]


def nearly(case, stack):
    return lambda: [np.arange(case["length"]) + 1e-6]


def failing(case, stack):
    raise ValueError("no such case")


def dying(case, stack):
    return lambda: os._exit(3)


def hungry(case, stack):
    return lambda: [np.ones(case["length"]).nbytes]


def experiment(**changes):
    fields = {
        "name": "tiny",
        "cases": ({"length": 3}, {"length": 5}),
        "engines": {"tagloom": ours, "unrolled": asynchronous},
        "metric": "elements_per_second",
        "amount": lambda case: case["length"],
    }
    return Experiment(**{**fields, **changes})


def test_records_follow_the_protocol():
    tiny = experiment()
    found = list(protocol.run(tiny, tiny.chosen([]), FAST))
    assert [r.get("engine") or r["ratio_to"] for r in found] == ["tagloom", "unrolled", "unrolled"] * 2
    assert set(found[0]) == {"bench", "case", "engine", "metric", "median", "p5", "p95", "runs"}
    assert set(found[2]) == {"bench", "case", "ratio_to", "metric", "value"}
    assert found[3]["case"] == {"length": 5}
    assert found[0]["metric"] == "elements_per_second"
    assert found[0]["runs"] == FAST.most_rounds
    assert 0 < found[0]["p5"] <= found[0]["median"] <= found[0]["p95"]
    assert found[2]["value"] == pytest.approx(found[0]["median"] / found[1]["median"])
    json.dumps(found)


def test_peak_memory_is_measured_in_fresh_processes():
    tiny = experiment(
        engines={"tagloom": hungry, "unlimited": hungry}, cases=({"length": 4 << 20}, {"length": 10}), peak="peak_bytes"
    )
    found = [r for r in protocol.run(tiny, ["tagloom", "unlimited"], FAST) if r["metric"] == "peak_bytes"]
    large, small = found[0]["median"], found[3]["median"]
    assert 32e6 <= large <= 48e6
    assert small < 8e6
    assert found[0]["runs"] == 1


def test_figures_that_a_step_notes_are_records_too():
    tiny = experiment(engines={"tagloom": noting, "unrolled": noting}, figures=("waste",), cases=({"length": 5},))
    found = [r for r in protocol.run(tiny, ["tagloom", "unrolled"], FAST) if r["metric"] == "waste"]
    assert [(r["median"], r["runs"]) for r in found[:2]] == [(6.0, 2)] * 2
    assert found[2]["value"] == 1.0


def test_an_engine_that_can_not_do_a_case_says_so():
    told = experiment(unable=lambda case: {"unrolled": "too short"} if case["length"] == 3 else {})
    records = list(protocol.run(told, ["tagloom", "unrolled"], FAST))
    ran = [(r["case"]["length"], r["engine"]) for r in records if "engine" in r]
    assert ran == [(3, "tagloom"), (5, "tagloom"), (5, "unrolled")]
    (note,) = [r for r in records if "note" in r]
    assert (note["by"], note["text"], note["case"]) == ("unrolled", "too short", {"length": 3})


def test_some_engines_must_agree_to_the_bit():
    near = experiment(engines={"tagloom": ours, "unrolled": nearly}, tolerance=0.1)
    assert list(protocol.run(near, ["tagloom", "unrolled"], FAST))
    with pytest.raises(BenchError, match="disagree"):
        list(protocol.run(replace(near, exact=("unrolled",)), ["tagloom", "unrolled"], FAST))


def test_a_metric_may_be_the_time_of_a_unit():
    rate, time = experiment(), experiment(metric="milliseconds", time_unit=1e3)
    assert rate.sample({"length": 4}, steps=5, seconds=2.0) == 10.0
    assert time.sample({"length": 4}, steps=5, seconds=2.0) == 100.0
    samples = {"milliseconds": {"tagloom": [1.0], "unrolled": [3.0]}}
    assert [r["value"] for r in protocol.records(time, {}, samples) if "ratio_to" in r] == [3.0]


def test_a_quick_run_may_have_cases_of_its_own():
    assert experiment().quick().cases == experiment().cases
    assert experiment(quick_cases=({"length": 1},)).quick().cases == ({"length": 1},)


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (wrong, "'unrolled' and 'tagloom' disagree: value 0 differs by 1"),
        (failing, "no such case"),
        (dying, "'unrolled' ended with code 3"),
    ],
)
def test_a_bad_engine_ends_the_run(factory, message):
    with pytest.raises(BenchError, match=message):
        list(protocol.run(experiment(engines={"tagloom": ours, "unrolled": factory}), ["tagloom", "unrolled"], FAST))


def test_engines_take_turns_and_the_others_rest_before_each_timing(monkeypatch):
    log = []
    monkeypatch.setattr(protocol.time, "sleep", log.append)

    class Recorder:
        def __init__(self, engine):
            self.engine = engine

        def call(self, command, steps):
            log.append(self.engine)
            return 1.0

    effort = protocol.Effort(most_rounds=2, timing=0.5, idle=0.3)
    engines = [Recorder("a"), Recorder("b")]
    rates = protocol.measure(experiment(), {"length": 4}, engines, effort, math.inf, lambda text: None)
    assert log == [0.3, "a", 0.3, "b"] * 3
    assert rates == {"elements_per_second": {"a": [4.0] * 3, "b": [4.0] * 3}}


def test_a_case_out_of_time_keeps_its_single_timings():
    class Slow:
        engine = "a"

        def call(self, command, steps):
            return 2.0

    effort = protocol.Effort(idle=0.0)
    rates = protocol.measure(experiment(), {"length": 4}, [Slow()], effort, -math.inf, lambda text: None)
    assert rates == {"elements_per_second": {"a": [2.0]}}


def test_earlier_cases_leave_time_for_later_ones():
    effort = protocol.Effort(most_rounds=5, timing=0.1, idle=0.3, building=3.0)
    assert effort.share(42.0, later_cases=2, engines=4) == pytest.approx(42 - 2 * (3 + 5 * 4 * 0.4))
    assert effort.share(10.0, later_cases=0, engines=4) == 10.0


@pytest.mark.parametrize(
    ("got", "tolerance", "message"),
    [
        ([[1.0, 100.0]], 0.0, None),
        ([[1.009, 100.0]], 1e-4, None),
        ([[1.02, 100.0]], 1e-4, "value 0 differs by 0.02"),
        ([[1.0, np.nan]], 1e-4, "value 0 differs by nan"),
        ([[1.0]], 0.0, r"value 0 has shape \(2,\) against \(1,\)"),
        ([], 0.0, "1 values against 0"),
    ],
)
def test_values_are_compared(got, tolerance, message):
    found = protocol.compare([np.array([1.0, 100.0])], [np.array(v) for v in got], tolerance)
    assert found is None if message is None else re.match(message, found)


def test_ratios_above_one_mean_tagloom_is_better():
    assert protocol.ratio([20.0, 10.0, 30.0], [10.0]) == 2.0
    assert protocol.ratio([10.0], [20.0], smaller_is_better=True) == 2.0
    assert protocol.ratio([0.1], [0.2], smaller_is_better=True) == 2.0
    assert np.isfinite(protocol.ratio([0.0], [0.2], smaller_is_better=True))


def test_a_missing_peer_is_an_error(monkeypatch):
    tiny = experiment(engines={"tagloom": ours, "tf": ours})
    with pytest.raises(BenchError, match="no peer 'torch'; it has: tf"):
        tiny.chosen(["torch"])
    monkeypatch.setitem(command_line.PEER_MODULES, "tf", "no_such_module")
    with pytest.raises(BenchError, match=r"not installed; try: pip install -r bench/requirements-peers.txt"):
        tiny.chosen(["tf"])


def test_peers_run_only_when_asked_for(monkeypatch):
    monkeypatch.setitem(command_line.PEER_MODULES, "tf", "json")
    tiny = experiment(engines={"tagloom": ours, "unrolled": ours, "tf": ours, "jax": ours})
    assert tiny.chosen([]) == ["tagloom", "unrolled"]
    assert tiny.chosen(["tf"]) == ["tagloom", "unrolled", "tf"]


def test_command_line_prints_one_object_a_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(command_line, "experiments", lambda: {"tiny": experiment()})
    monkeypatch.setattr(command_line, "QUICK", FAST)
    assert command_line.main(["tiny", "--quick", "--json"]) == 0
    assert [json.loads(line)["bench"] for line in capsys.readouterr().out.splitlines()] == ["tiny"] * 6
    assert command_line.main(["tiny", "--quick", "--json", "--peer", "tf"]) == 1
    assert "tiny has no peer 'tf'" in capsys.readouterr().err


def test_table_shows_every_engine(capsys):
    tiny = experiment(cases=({"length": 3},))
    report.print_table(list(protocol.records(tiny, {"length": 3}, {"rate": {"tagloom": [2.0], "unrolled": [1.0]}})))
    shown = capsys.readouterr().out
    assert "unrolled" in shown
    assert "2.00x" in shown


def test_plot_is_written(tmp_path):
    tiny = experiment()
    records = list(protocol.records(tiny, {"length": 3}, {"rate": {"tagloom": [2.0, 3.0], "unrolled": [1.0]}}))
    report.plot(records, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_experiments_are_found():
    found = command_line.experiments()
    assert {"counter_loop", "lstm_train"} <= set(found)
    assert all(next(iter(e.engines)) == "tagloom" for e in found.values())


def test_peak_memory_counts_what_was_touched():
    peak = memory.PeakMemory()
    np.ones(4 << 20)
    assert 32e6 <= peak.bytes() <= 40e6


def test_closing_a_process_twice_is_harmless():
    engine = process.EngineProcess(experiment(), "tagloom")
    engine.close()
    engine.close()


def timed(case, stack):
    """Take as many hundredths of a second as the case says."""
    noted = lambda: {"limited by": f"its length, {case['length']}"}  # noqa: E731
    return Observed(lambda: time.sleep(case["length"] / 100) or [np.zeros(1)], {}, noted)


@pytest.mark.parametrize(("best_only", "lengths"), [(False, [1, 2]), (True, [1])])
def test_cases_are_compared_with_the_first(best_only, lengths):
    cases = ({"length": 4}, {"length": 1}, {"length": 2})
    setup = {"engines": {"tagloom": timed}, "metric": "milliseconds", "time_unit": 1e3, "amount": lambda case: 1.0}
    tried = experiment(cases=cases, baseline="longest", best_only=best_only, notes=("limited by",), **setup)
    found = list(protocol.run(tried, ["tagloom"], FAST))
    ratios = [(r["case"]["length"], r["value"]) for r in found if r.get("ratio_to") == "longest"]
    assert [length for length, _ in ratios] == lengths
    assert all(value > 1.2 for _, value in ratios)
    assert [r["text"] for r in found if "note" in r] == [f"its length, {n}" for n in (4, 1, 2)]


@pytest.mark.parametrize(
    ("cases", "key"),
    [
        ([{"devices": n, "barrier": b} for b in (False, True) for n in (1, 2, 4)], "devices"),
        ([{"devices": n} for n in (1, 2)], None),
        ([{"work": w, "width": 3} for w in ("add", "copy", "send")], None),
        ([{"window": n} for n in (1, 2, 4, "auto")], None),
    ],
)
def test_a_number_that_is_varied_goes_from_left_to_right(cases, key, tmp_path):
    tiny = experiment()
    samples = {"rate": {"tagloom": [2.0, 3.0], "unrolled": [1.0]}}
    records = [record for case in cases for record in protocol.records(tiny, case, samples)]
    assert report._abscissa([r for r in records if "engine" in r]) == key
    report.plot(records, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 5000


def test_steps_fill_a_timing_and_who_gets_faster_does_more(monkeypatch):
    asked = []

    def alone(process, steps, effort):
        asked.append(steps)
        return [0.05, 0.12, 0.24, 0.06, 0.2][len(asked) - 1]

    monkeypatch.setattr(protocol, "alone", alone)
    process = SimpleNamespace(engine="tagloom")
    protocol.measure(experiment(), {"length": 3}, [process], replace(FAST, timing=0.2, most_rounds=3), math.inf, str)
    assert asked == [1, 4, 7, 7, 24]
