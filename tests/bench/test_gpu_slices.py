"""Slices of what needs a GPU: the order, the time, and where the next one goes on."""

import json
from types import SimpleNamespace

import pytest

from bench import gpu
from tests.support.tiers import is_thorough

SUBJECT = {"commit": "abc", "device": "some GPU"}


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A time that only runs take, and what each takes."""
    world = SimpleNamespace(now=0.0, ran=[], takes={}, fails=set(), record=tmp_path / "results" / "gpu.json")
    monkeypatch.setattr(gpu, "time", SimpleNamespace(monotonic=lambda: world.now))

    def run(name, seconds):
        needs = world.takes.get(name, 1.0)
        world.now += min(needs, seconds)
        world.ran.append(name)
        return "timeout" if needs > seconds else "failed" if name in world.fails else "passed"

    world.slice = lambda names, seconds=10.0, subject=SUBJECT: gpu.run_slice(names, world.record, subject, seconds, run)
    world.results = lambda: json.loads(world.record.read_text())["results"]
    return world


def test_all_is_run_once_and_written(world):
    world.fails.add("b")
    assert world.slice("abc") == []
    assert world.slice("abc") == []
    assert world.ran == ["a", "b", "c"]
    assert json.loads(world.record.read_text()) == SUBJECT | {
        "results": {
            name: {"outcome": outcome, "seconds": 1.0} for name, outcome in zip("abc", ("passed", "failed", "passed"))
        }
    }


def test_a_slice_ends_when_its_time_is_over_and_the_next_goes_on(world):
    assert world.slice("abcdef", 2.0) == ["c", "d", "e", "f"]
    assert world.slice("abcdef", 2.0) == ["e", "f"]
    assert world.slice("abcdef", 2.0) == []
    assert world.ran == [*"abcdef"]


def test_what_is_cut_off_gets_a_slice_of_its_own(world):
    world.takes["b"] = 9.5
    assert world.slice("abc") == ["b", "c"]
    assert list(world.results()) == ["a"]
    assert world.slice("abc") == ["c"]
    assert world.results()["b"] == {"outcome": "passed", "seconds": 9.5}


def test_what_does_not_end_in_a_whole_slice_is_given_up(world):
    world.takes["a"] = 1000.0
    assert world.slice("ab") == ["b"]
    assert world.slice("ab") == []
    assert [result["outcome"] for result in world.results().values()] == ["timeout", "passed"]


def test_results_of_another_commit_or_device_do_not_count(world):
    world.slice("ab")
    world.slice("ab", subject=SUBJECT | {"commit": "def"})
    world.slice("a", subject=SUBJECT | {"device": "other"})
    assert world.ran == ["a", "b", "a", "b", "a"]


def test_tests_for_a_gpu_are_found():
    assert "tests/streams/test_gpu.py::test_it_keeps_the_contract" in gpu.gpu_tests(
        "tests" if is_thorough() else "tests/streams"
    )


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    from tagloom import streams

    def lack():
        raise streams.CudaUnavailable("pycuda can not be imported")

    monkeypatch.setattr(streams, "cuda_devices", lack)
    assert gpu.main([]) == 1
    assert "no GPU: pycuda can not be imported" in capsys.readouterr().err
