"""All declared operations and their samples: how to build one, and what it should give."""

import numpy as np
import pytest
from tagloom.monitoring.sample_loops import build_operation as build
from tagloom.monitoring.sample_loops import expected_results as expectation
from tagloom.monitoring.sample_loops import flatten_inputs as flat

from tests.ops.evaluation import declare_all

__all__ = ["DEFINITIONS", "SAMPLES", "WITHOUT_KERNEL", "build", "expectation", "flat", "same"]

DEFINITIONS = {d.type: d for d in declare_all()}

# The executors do these themselves: there is no function of arrays to call. Tested with control flow and sessions.
WITHOUT_KERNEL = {
    "Feed",
    "ToHost",
    "ToDevice",
    "IntoDevice",
    "Const",
    "Param",
    "Placeholder",
    "Switch",
    "SwitchN",
    "Merge",
    "Enter",
    "Exit",
    "NextIteration",
    "LoopCond",
    "ControlTrigger",
    "Cond",
    "While",
    "TripCount",
    "SeriesPush",
    "SeriesRead",
    "SeriesExit",
    "Send",
    "Recv",
}

SAMPLES = [pytest.param(d, s, id=f"{d.type}-{i}") for d in DEFINITIONS.values() for i, s in enumerate(d.samples)]


def same(left, right):
    """Fail unless two arrays are alike: numbers within rounding, anything else exactly."""
    if np.asarray(left).dtype.kind in "biufc":
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-12, equal_nan=True)
    else:
        np.testing.assert_array_equal(left, right)
    assert np.shape(left) == np.shape(right)
