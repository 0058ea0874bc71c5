"""Random programs mean the same in plain Python, on the reference executor and on the step machine.

``TAGLOOM_PROGRAMS=20000 pytest tests/property`` is the long run: other programs each time.
"""

import asyncio

import pytest
from hypothesis import given, note

from tests.property.executors import check_executors
from tests.property.programs import show
from tests.property.runs import batch_settings, batches
from tests.property.strategies import mixed_programs


@pytest.mark.rule(1, 2, 4, 6, 7, 8, 11, 12, 13, 15, 16, 28, 29, 30, 31, 32, 33, 64, 65, 105)
@batches(300)
@batch_settings(300)
@given(program=mixed_programs())
def test_random_programs(batch, program):
    note(f"{show(program)}\n{program!r}")
    asyncio.run(check_executors(program))
