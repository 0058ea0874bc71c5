"""Cases that are compared with each other, measured with engines small enough to live in this file."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from bench import __main__ as command_line
from bench import report, side_by_side
from bench.experiment import Bar, BenchError, Experiment, Observed
from bench.protocol import Effort

FAST = Effort(seconds=600.0, most_rounds=2, timing=0.001, idle=0.0)  # rounds decide, on a busy machine too


def ours(case, stack):
    """Give the values of a case in an order of its own."""
    values = np.arange(case["length"]) + (1 if case["way"] == "other" else 0)
    return Observed(lambda: [values[::-1]], compared=lambda found: [found[0][::-1]])


def peer(case, stack):
    return lambda: [np.arange(case["length"]) + (1 if case["way"] == "other" else 0)]


def sides(medians):
    (one, _), *others = medians
    return [(case, "first", 2.0) for case, _ in others if case != one]


def experiment(**changes):
    fields = {
        "name": "tiny",
        "cases": tuple(
            {"way": w, "batch_kind": k, "length": n} for w in ("one", "other") for k in ("a", "b") for n in (3, 5)
        ),
        "engines": {"tagloom": ours, "torch": peer},
        "metric": "steps_per_second",
        "together": ("way", "batch_kind"),
        "same_values": ("batch_kind",),
        "peer_case": lambda case: {**case, "batch_kind": "a"},
        "sides": sides,
    }
    return Experiment(**{**fields, **changes})


def test_records_follow_the_protocol_group_by_group():
    found = list(side_by_side.run(experiment(), ["tagloom", "torch"], FAST))
    json.dumps(found)
    assert [r["case"]["length"] for r in found] == [3] * 13 + [5] * 13
    group = found[:13]
    assert [r.get("engine") or r["ratio_to"] for r in group] == ["tagloom"] * 4 + ["torch"] * 6 + ["first"] * 3
    assert ["engine" in r for r in group] == [True] * 6 + [False] * 7
    assert set(group[0]) == {"bench", "case", "engine", "metric", "median", "p5", "p95", "runs"}
    assert set(group[6]) == set(group[-1]) == {"bench", "case", "ratio_to", "metric", "value"}
    assert group[0]["runs"] == FAST.most_rounds


def test_cases_that_a_peer_can_not_tell_apart_are_compared_with_the_same_lane():
    group = list(side_by_side.run(experiment(), ["tagloom", "torch"], FAST))[:13]
    medians = {(r["engine"], *r["case"].values()): r["median"] for r in group if "engine" in r}
    ratios = [r for r in group if r.get("ratio_to") == "torch"]
    assert [r["case"]["batch_kind"] for r in ratios] == ["a", "b", "a", "b"]
    for r in ratios:
        theirs = medians["torch", r["case"]["way"], "a", 3]
        assert r["value"] == pytest.approx(medians["tagloom", *r["case"].values()] / theirs)


def test_cases_with_the_same_values_must_have_them():
    with pytest.raises(BenchError, match=r"'tagloom' at way=other .* and 'tagloom' at way=one .* disagree: value 0"):
        list(side_by_side.run(experiment(same_values=("way", "batch_kind")), ["tagloom"], FAST))
    wrong = experiment(engines={"tagloom": ours, "torch": ours}, peer_case=lambda case: {**case, "way": "one"})
    assert list(side_by_side.run(wrong, ["tagloom", "torch"], FAST))
    with pytest.raises(BenchError, match="'torch' at"):
        list(side_by_side.run(replace(wrong, engines={"tagloom": ours, "torch": off}), ["tagloom", "torch"], FAST))


def off(case, stack):
    return lambda: [np.arange(case["length"]) + 7]


class Recorder:
    """Stands for a process: notes what is timed, and takes two seconds for it."""

    def __init__(self, engine, log):
        self.engine, self.log = engine, log

    def call(self, command, steps, number):
        self.log.append((self.engine, number, steps))
        return 2.0 * steps


def lanes(log):
    a, b = Recorder("a", log), Recorder("b", log)
    return [side_by_side.Lane({"way": n}, process, n) for process in (a, b) for n in range(2)]


def test_lanes_take_turns_to_and_fro_and_rest_between_engines_only(monkeypatch):
    log = []
    monkeypatch.setattr(side_by_side.time, "sleep", log.append)
    effort = Effort(most_rounds=2, timing=3.0, idle=0.3)
    samples = side_by_side.measure(experiment(), lanes(log), effort, math.inf)
    a, b = [("a", 0, 1), ("a", 1, 1)], [("b", 0, 1), ("b", 1, 1)]
    once, twice = ([0.3, *a * n, 0.3, *b * n] for n in (1, 2))
    back = [0.3, *b[::-1] * 2, 0.3, *a[::-1] * 2]
    assert log == once + back + twice
    assert samples == [[0.5, 0.5]] * 4


@pytest.mark.parametrize("count", [1, 7, 10, 23])
def test_all_steps_of_a_lane_are_done_in_its_turns(count):
    log = []
    assert side_by_side.timed(lanes(log), [count, 1, count, 1], FAST) == [2.0 * count, 2.0, 2.0 * count, 2.0]
    assert sum(steps for engine, number, steps in log if (engine, number) == ("a", 0)) == count
    assert len(log) == 2 * (min(count, 10) + 1)


def test_lanes_are_compared_within_rounds():
    """What slows a machine down for a round is no difference between lanes; a first sample of some is no round."""
    speed = [1.0, 0.2, 3.0, 1.0, 0.5]
    samples = [[100.0] + speed, [0.9 * each for each in speed], [1.1 * each for each in speed]]
    assert side_by_side.medians(samples) == pytest.approx([1.0, 0.9, 1.1])
    samples[1][2] = 0.1  # something disturbed one lane once
    assert side_by_side.medians(samples) == pytest.approx([1.0, 0.9, 1.1])


@pytest.mark.parametrize(("timing", "steps"), [(0.5, 1), (3.0, 1 + 2)])
def test_out_of_time_every_lane_has_a_sample(timing, steps):
    log = []
    samples = side_by_side.measure(experiment(), lanes(log), Effort(timing=timing, idle=0.0), -math.inf)
    assert samples == [[0.5]] * 4
    assert sum(count for *_, count in log) == 4 * steps


def test_command_line_measures_them_side_by_side(monkeypatch, capsys):
    alone = experiment(engines={"tagloom": ours}, cases=experiment().cases[:4])
    monkeypatch.setattr(command_line, "experiments", lambda: {"tiny": alone})
    monkeypatch.setattr(command_line, "QUICK", FAST)
    assert command_line.main(["tiny", "--quick", "--json"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [r.get("ratio_to", "") for r in shown] == ["", "", "first"] * 2
    assert command_line.main(["tiny", "--quick"]) == 0
    assert "2.00x first" in capsys.readouterr().out


def test_a_ratio_without_a_row_of_its_peer_is_shown(capsys):
    group = list(side_by_side.run(experiment(), ["tagloom", "torch"], FAST))[:13]
    report.print_table(group)
    shown = capsys.readouterr().out
    assert "way=one batch_kind=b length=3: " in shown
    assert "x torch" in shown


def test_later_groups_get_more_time():
    assert side_by_side.share(42.0, 2) == pytest.approx(14.0)
    assert side_by_side.share(28.0, 1) == pytest.approx(28.0)
    assert side_by_side.share(6.0, 3) == pytest.approx(1.0)


def test_rows_have_what_their_steps_note():
    process = SimpleNamespace(engine="tagloom", call=lambda command, number: {"called": f"{command} {number}"})
    lane = side_by_side.Lane({"way": "one"}, process, 3)
    (row,) = side_by_side.records(experiment(notes=("called",), sides=lambda medians: ()), [lane], [[2.0]])
    assert row["called"] == "notes 3"
    assert list(row["case"].values()) == ["one"]
    (row,) = side_by_side.records(experiment(sides=lambda medians: ()), [lane], [[2.0]])
    assert "called" not in row


def test_bars_compare_the_least_and_the_median_of_all_ratios(monkeypatch, capsys):
    bars = (Bar("first", "least", 2.5), Bar("first", "median", 1.5), Bar("nobody", "least", 1.0))
    barred = experiment(engines={"tagloom": ours}, bars=bars)
    monkeypatch.setattr(command_line, "experiments", lambda: {"tiny": barred})
    monkeypatch.setattr(command_line, "QUICK", FAST)
    assert command_line.main(["tiny", "--quick", "--json", "--only", "way=one", "--only", "length=3"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(r["case"]["way"], r["case"]["length"]) for r in shown if "case" in r} == {("one", 3)}
    assert [(r["statistic"], r["value"], r["met"]) for r in shown if "bar" in r] == [
        ("least", 2.0, False),
        ("median", 2.0, True),
    ]
    report.print_table(shown)
    assert "least ratio to first: 2.00, wanted 2.50: NOT met" in capsys.readouterr().out


def test_no_case_with_such_a_value_is_an_error(monkeypatch, capsys):
    monkeypatch.setattr(command_line, "experiments", lambda: {"tiny": experiment()})
    assert command_line.main(["tiny", "--only", "way=third"]) == 1
    assert "tiny has no case with way=third" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command_line.main(["tiny", "--only", "way"])
    assert "wanted KEY=VALUE, got 'way'" in capsys.readouterr().err
