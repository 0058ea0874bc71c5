"""Random programs that read and assign variables mean what plain Python does with them, in the order of building."""

import asyncio
import random
from dataclasses import replace

import pytest
import tagloom as tg
from hypothesis import given, note
from hypothesis import strategies as st

from tests.property.build_order import unordered, without_unneeded
from tests.property.executors import compare, run_everywhere, run_session
from tests.property.interpret import evaluate, initial_values
from tests.property.program_kinds import MIXED
from tests.property.programs import Op, show
from tests.property.runs import batch_settings, batches
from tests.property.scattering import scatter
from tests.property.strategies import mixed_programs
from tests.property.translate import build
from tests.support.clusters import of_any_size
from tests.support.settings import ON

STATEFUL = replace(MIXED, stateful=100)
WINDOWS = st.sampled_from([1, 2, 3, 7, 32])


@pytest.mark.rule(140, 141, 142, 143)
@batches(200)
@batch_settings(200)
@given(
    program=mixed_programs(kind=STATEFUL),
    seed=st.integers(0, 1 << 30),
    kept=st.sampled_from([0, 0, 0, 30]),
    read=st.sampled_from(["value", "read_value"]),
    window=WINDOWS,
    devices=st.integers(1, 3),
)
def test_random_effects(batch, program, seed, kept, read, window, devices):
    rng = random.Random(seed)
    of_ops = rng.choice([0, 50, 80, 100])  # which wait for touches so that these are needed
    program = unordered(program, lambda each: rng.randrange(100) >= (of_ops if isinstance(each, Op) else kept))
    note(f"{show(program)}\n{program!r}")
    asyncio.run(check(program, read, window, devices, seed))


async def check(program, read, window, devices, seed):
    expected = evaluate(without_unneeded(program))
    built = build(program, window, read=read)
    feeds = built.feeds(program.values)
    async for where, results, variables in run_everywhere(built, feeds, initial_values(program), seed % 1000):
        compare(results, variables, expected, where)
    if devices > 1:
        scatter(built.graph, devices, seed)
    for shuffle_seed in (None, 1):
        settings = replace(ON, shuffle_seed=shuffle_seed)
        async with tg.Session(built.graph, devices=devices, soft_placement=True, settings=settings) as session:
            compare(*await run_session(session, built, feeds), expected, f"{devices} devices")
        with of_any_size():
            on_steps = settings.without("straight")
            async with tg.Session(built.graph, soft_placement=True, settings=on_steps) as session:
                compare(*await run_session(session, built, feeds), expected, "clusters")
