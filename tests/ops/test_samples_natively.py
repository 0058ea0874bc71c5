"""Every sample in a loop: it gives what is expected, natively for almost all operations."""

import asyncio
from dataclasses import replace

import pytest
from tagloom.monitoring.sample_loops import ITERATIONS

from tests.ops.sample_loops import CALLED, CHOSEN, EITHER, FEWEST, NEITHER, run_all
from tests.ops.samples import expectation, same
from tests.support.settings import ON
from tests.support.tiers import choose


@pytest.fixture(scope="module")
def straight():
    """Return what loops of all chosen samples give by kernels in C."""
    return asyncio.run(run_all(CHOSEN, replace(ON, llvm=False)))


def check_values(chosen, results):
    """Fail unless loops ran as often as they should, and gave what is expected of their samples."""
    for (definition, sample), (values, loop) in zip(chosen, results, strict=True):
        assert loop.iterations == ITERATIONS + 1, definition.type  # the last one is a predicate only
        for value, wanted in zip(values, expectation(sample), strict=True):
            same(value, wanted)


def test_samples_in_loops_give_what_is_expected(straight):
    check_values(CHOSEN, straight)


def test_what_is_native(straight):
    """The lists are exact: a kernel that no program can hold any more is missed, and a new one loses its line."""
    ways = {}
    for (definition, _), (_, loop) in zip(CHOSEN, straight, strict=True):
        way = loop.not_native or "called" if loop.called or loop.limited_by != "native" else "native"
        ways.setdefault(definition.type, set()).add(way)
    native = {type for type, found in ways.items() if "native" in found}
    called = {type for type, found in ways.items() if "called" in found} - native
    assert {type: ways[type] for type in ways.keys() - native - called - NEITHER - EITHER} == {}
    assert sorted((called - EITHER) ^ (CALLED - EITHER)) == []
    assert sorted(NEITHER & (native | called)) == []
    assert len(native) >= FEWEST


def test_machine_code_gives_what_is_expected():
    pytest.importorskip("llvmlite")
    chosen = [(definition, sample) for definition, sample in CHOSEN if definition.type not in NEITHER]
    chosen = chosen[:: choose(thorough=1, default=16)]
    check_values(chosen, asyncio.run(run_all(chosen, ON)))
