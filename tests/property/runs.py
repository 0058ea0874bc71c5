"""How many programs a test draws: the same few each time, or others, as many as ``TAGLOOM_PROGRAMS`` says.

The default tier draws the first twenty-fourth of the programs of ``pytest --thorough``.
"""

import math
import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support.tiers import FRACTION, is_thorough

BATCH = 300  # Hypothesis remembers all it drew until a test ends


def total(normal):
    """Return the number of programs: `normal` in the thorough tier."""
    return int(os.environ.get("TAGLOOM_PROGRAMS") or (normal if is_thorough() else math.ceil(normal / FRACTION)))


def batches(normal):
    """Decorate a test to run once for each ``batch`` of programs."""
    return pytest.mark.parametrize("batch", range(math.ceil(total(normal) / BATCH)))


def batch_settings(normal):
    """Decorate a property to draw one batch."""
    return settings(
        max_examples=min(total(normal), BATCH),
        derandomize="TAGLOOM_PROGRAMS" not in os.environ,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
