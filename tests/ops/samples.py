"""All declared operations and their samples: how to build one, and what it should give."""

import numpy as np
import pytest
from tagloom.ir.apply import apply

from tests.ops.evaluation import declare_all

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


def flat(arguments):
    """Return the arrays of a sample's inputs, those in lists among them."""
    return [np.asarray(a) for x in arguments for a in (x if isinstance(x, list) else [x])]


def build(definition, sample, make):
    """Append the sample's operation, its inputs made by `make`; return it."""
    inputs = [[make(a) for a in x] if isinstance(x, list) else make(x) for x in sample.inputs]
    made = apply(definition.type, *inputs, **sample.attrs)
    return made.op if not isinstance(made, list) else made[0].op


def expectation(sample):
    """Return what a sample should give, as a list."""
    wanted = sample.expected(*sample.inputs) if callable(sample.expected) else sample.expected
    return list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]


def same(left, right):
    """Fail unless two arrays are alike: numbers within rounding, anything else exactly."""
    if np.asarray(left).dtype.kind in "biufc":
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-12, equal_nan=True)
    else:
        np.testing.assert_array_equal(left, right)
    assert np.shape(left) == np.shape(right)
