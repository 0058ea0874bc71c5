"""Pipelines give what they mean in plain Python, in chunks of any size, and go on from any state."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from tagloom.data.stages import elements

from tests.data.running import plain, rest_of, run, through_a_file
from tests.property.pipelines import pipelines


@settings(max_examples=150, deadline=None)
@given(program=pipelines())
def test_a_pipeline_gives_what_it_means(program):
    assert run(program.dataset) == program.model(()), program.text


@settings(max_examples=60, deadline=None)
@given(program=pipelines(), most=st.sampled_from([1, 2, 5]))
def test_results_do_not_depend_on_chunks(program, most):
    usual = elements._LARGEST_CHUNK
    elements._LARGEST_CHUNK = most
    try:
        assert run(program.dataset) == program.model(()), program.text
    finally:
        elements._LARGEST_CHUNK = usual


async def go_on(program, place, turns):
    """Return what comes behind a state that is taken while the element at a place is waited for."""
    async with program.dataset.iterator() as iterator:
        begin = [plain(await anext(iterator)) for _ in range(place)]
        waiting = asyncio.create_task(iterator.next())
        for _ in range(turns):
            await asyncio.sleep(0)
        given = waiting.done()
        state = through_a_file(iterator.state())
        waiting.cancel()
        (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
        if given and not isinstance(outcome, Exception):
            begin.append(plain(outcome))
        left = await rest_of(iterator)
    async with program.dataset.iterator() as iterator:
        iterator.restore(state)
        return begin, left, await rest_of(iterator)


@settings(max_examples=150, deadline=None)
@given(program=pipelines(), place=st.integers(0, 20), turns=st.integers(0, 12))
def test_a_state_at_any_time_and_a_cancelled_wait_lose_nothing(program, place, turns):
    wanted = program.model(())
    begin, left, rest = asyncio.run(go_on(program, min(place, len(wanted)), turns))
    assert begin + rest == wanted, program.text
    assert begin + left == wanted, program.text
