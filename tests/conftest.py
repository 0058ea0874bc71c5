"""Markers, the table of rules, goldens, and fast paths switched off."""

import gc
import os
from pathlib import Path

import pytest

from tests.support.fast_path_switches import all_on, switch_off
from tests.support.hangs import end_limit, limit_time, limit_time_again
from tests.support.probes import has_gpu
from tests.support.rules import FIRST, LAST, coverage, report
from tests.support.tiers import (
    checked_passes,
    choose_tier,
    deselect_all_but_one_in,
    deselect_repetitions,
    order_long_ones_first,
)

os.environ["TAGLOOM_CACHE"] = ""  # nothing compiled outlives a test

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser):
    parser.addoption("--rules", action="store_true", help=f"print which tests cover rules {FIRST}-{LAST}; run none")
    parser.addoption("--thorough", action="store_true", help="run all cases of all families, and all random programs")
    parser.addoption("--one-in", type=int, default=1, help="run every n-th of the tests that are left")
    parser.addoption(
        "--sampled", action="store_true", help="sample families of the default tier though -k chooses tests"
    )
    parser.addoption("--update-golden", action="store_true", help="write the golden texts anew")


def pytest_configure(config):
    choose_tier(config)
    if getattr(config.option, "dist", "no") == "load":
        config.option.dist = "worksteal"  # of pytest-xdist: who has nothing left takes from the others
    switch_off(os.environ.get("TAGLOOM_OFF", ""))
    config.addinivalue_line("markers", "rule(n, ...): the test checks these numbered rules of the semantics")
    config.addinivalue_line("markers", "sampled(every=n): the default tier runs every n-th case of the function")
    config.addinivalue_line("markers", "gpu: needs a CUDA device; skipped where has_gpu() finds none")


@pytest.hookimpl(trylast=True)  # after -k
def pytest_collection_modifyitems(config, items):
    deselect_repetitions(config, items)
    deselect_all_but_one_in(config.option.one_in, config, items)
    order_long_ones_first(items)
    if any(item.get_closest_marker("gpu") for item in items) and not has_gpu():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="has_gpu() found no CUDA device"))


def leave_out_of_collections():
    """Let later collections of garbage, of which some tests begin two, pass over all that there is now."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Collect tests without collecting garbage, which took a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish(session):
    import tagloom.public  # noqa: F401  so that no test differs by what others have loaded: see test_import.py

    leave_out_of_collections()  # the modules, and thousands of collected tests


def pytest_runtestloop(session):
    return True if session.config.option.rules else None


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session, exitstatus):
    config = session.config
    if config.option.rules and exitstatus == 0:
        lines, holes = report(coverage(session.items))
        writer = config.get_terminal_writer()
        writer.line()
        writer.write(
            "\n".join([*lines, f"{len(holes)} rules uncovered: {holes}" if holes else "every rule accounted for"])
        )
        writer.line()
        if holes:
            session.exitstatus = 1
    return (yield)


@pytest.fixture(autouse=True, scope="module")
def what_tests_leave_is_not_looked_at_again():
    """The reports of thousands of tests, and what Hypothesis notes of them."""
    yield
    leave_out_of_collections()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    limit_time()
    try:
        with checked_passes(item.nodeid):
            return (yield)
    finally:
        limit_time()  # for the time until the next test


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node):
    limit_time_again(node.config)


def pytest_enter_pdb():
    end_limit()


def pytest_unconfigure():
    end_limit()


@pytest.fixture(autouse=True)
def all_that_was_allocated_is_freed():
    """After each test the step machines hold nothing; the counters exist in a debug build only."""
    yield
    from tagloom.kernels.scheduler.state import live_counts
    from tagloom.runtime.session.sync import wait_for_abandoned_sessions

    if "allocated" in live_counts():
        if live_counts()["allocated"] != live_counts()["freed"]:
            gc.collect()
            wait_for_abandoned_sessions()
        counts = live_counts()
        assert counts["allocated"] == counts["freed"], counts


@pytest.fixture(autouse=True, scope="session")
def the_engine_compares_no_tensors():
    """All tests show it: see `tests/support/identity.py`."""
    from tests.support.identity import no_comparisons

    with no_comparisons():
        yield


@pytest.fixture
def golden(request):
    """Compare a text with ``tests/golden/NAME.txt``: ``golden(name, text)``."""

    def check(name, text):
        path = GOLDEN / f"{name}.txt"
        if request.config.option.update_golden:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert text == path.read_text()

    return check


@pytest.fixture
def graph():
    """A graph to build in."""
    import tagloom as tg

    with tg.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def vectors():
    """Change the size of the vectors of products; put it back at the end."""
    from tagloom.kernels.cpu import linear

    yield linear.limit_vectors
    linear.limit_vectors(1 << 16)


@pytest.fixture
def fast_paths():
    """All fast paths are on, whatever ``TAGLOOM_OFF`` says."""
    with all_on():
        yield
