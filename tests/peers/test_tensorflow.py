"""Results and gradients of random calls of each family of operations are TensorFlow's, where that is installed."""

import importlib
import os
import pkgutil

import numpy as np
import pytest
import tagloom as tg

import tests.peers.families
from tests.peers.calls import FAMILIES, build
from tests.peers.other_side import Peer, needs

COUNT = int(os.environ.get("TAGLOOM_CALLS", "400"))

for module in pkgutil.iter_modules(tests.peers.families.__path__, "tests.peers.families."):
    importlib.import_module(module.name)


def test_families_make_calls_of_functions_that_are_public():
    assert FAMILIES
    for name, make in FAMILIES.items():
        for call in calls_of(name, make, 20):
            assert call.ours.split(".")[0] in dir(tg), call.ours


@pytest.fixture(scope="module")
def tensorflow():
    """A process that has TensorFlow."""
    peer = Peer("tensorflow_side")
    yield peer
    peer.close()


@needs("tensorflow")
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_results_and_gradients_are_tensorflows(tensorflow, name):
    calls = calls_of(name, FAMILIES[name], COUNT)
    for call, theirs in zip(calls, tensorflow.ask(calls), strict=True):
        assert not isinstance(theirs, str), f"{call}: {theirs}"
        compare(call, ours(call), theirs)


def calls_of(name, make, count):
    """Return so many calls of a family, the same each time."""
    random = np.random.default_rng(sum(map(ord, name)))
    return [make(random) for _ in range(count)]


def ours(call):
    """Return tagloom's results and gradients."""
    with tg.Graph().as_default() as graph:
        fetches, feeds = build(tg, *call.as_ours(), call)
    with tg.SyncSession(graph) as session:
        return session.run(fetches, feeds)


def plain(value):
    """Return a result of TensorFlow as an array, quantized numbers as the integers that they are."""
    array = np.asarray(value, object if isinstance(value, bytes) else None)
    return array.view(array.dtype[0]) if array.dtype.names else array


def compare(call, found, wanted):
    """Fail unless the results are alike: numbers within the call's tolerance, all else exactly."""
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, map(plain, wanted), strict=True):
        assert np.shape(ours) == theirs.shape, call
        if theirs.dtype.kind in "fc":
            assert ours.dtype == theirs.dtype, call
            finite = np.abs(theirs[np.isfinite(theirs)]).max(initial=0)
            bound = call.tolerance
            np.testing.assert_allclose(ours, theirs, rtol=bound, atol=bound * float(finite), err_msg=str(call))
        elif theirs.dtype.kind == "O":
            assert [str(s) for s in np.ravel(ours)] == [s.decode() for s in theirs.ravel()], call
        else:
            np.testing.assert_array_equal(ours, theirs, err_msg=str(call))
