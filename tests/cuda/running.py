"""Runs programs with loops on devices, and compares what they give."""

import numpy as np
import pytest
import tagloom as tg

from tests.support.settings import ON


async def ran(program, devices, settings=ON, runs=2):
    """Return what a program gives when it runs for the last time, and the session's report."""
    with tg.Graph().as_default() as graph:
        fetches, feeds = program()
    async with tg.Session(graph, devices=devices, settings=settings) as session:
        found = [await session.run(list(fetches), feeds) for _ in range(runs)]
        return found[-1], session.report()


def compare(found, wanted, exactly=True):
    """Fail unless arrays are the same, those that float within rounding if not `exactly`."""
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        if exactly or one.dtype.kind != "f":
            np.testing.assert_array_equal(one, other)
        else:
            eps = 1e-5 if one.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(one, other, rtol=eps, atol=eps)


async def fails(program, devices, settings=ON):
    """Return the message of the error that a program ends with."""
    with tg.Graph().as_default() as graph:
        fetches, feeds = program()
    async with tg.Session(graph, devices=devices, settings=settings) as session:
        with pytest.raises(tg.TagloomError) as caught:
            await session.run(fetches, feeds)
    return str(caught.value)
