"""Times that are drawn by chance, and devices that take such times, or fail."""

import statistics
from random import Random

import pytest
from tagloom.base.errors import TagloomError
from tagloom.streams import Exponential, InjectedError, LatencyDevice, Lognormal, Mixture, Sum, VirtualClock

COUNT = 20_000
TIMES = [
    Exponential(2.0),
    Lognormal(3.0, 0.5),
    Sum((1.0, Exponential(0.5))),
    Mixture(1.0, Exponential(10.0), 0.2),
    Mixture(Lognormal(1.0, 0.1), Sum((Lognormal(1.0, 0.1), Exponential(3.0))), 0.1),
]


@pytest.mark.parametrize("time", TIMES, ids=repr)
def test_means(time):
    random = Random(1)
    drawn = [time.sample(random) for _ in range(COUNT)]
    assert min(drawn) > 0
    assert statistics.fmean(drawn) == pytest.approx(time.mean, rel=0.05)


def test_quantiles_of_a_lognormal_are_those_of_the_normal():
    random = Random(2)
    quantiles = statistics.quantiles([Lognormal(4.0, 0.25).sample(random) for _ in range(COUNT)], n=1000)
    assert quantiles[499] == pytest.approx(4.0, rel=0.02)
    assert quantiles[840] == pytest.approx(4.0 * 2.718281828**0.25, rel=0.02)


@pytest.mark.parametrize(
    "make", [lambda: Exponential(-1), lambda: Lognormal(1, float("nan")), lambda: Mixture(1, 2, 3)]
)
def test_what_is_out_of_range_is_refused(make):
    with pytest.raises(TagloomError, match="out of range"):
        make()


async def spans(name="D", seed=0, count=20, **options):
    async with VirtualClock() as clock, LatencyDevice(name, clock=clock, seed=seed, **options) as device:
        events = [device.compute.submit(kind="x") for _ in range(count)]
        failed = 0
        for event in events:
            try:
                await event
            except InjectedError:
                failed += 1
        return [event.ended - event.began for event in events], failed


async def test_a_device_draws_by_its_seed_and_name():
    seconds = {"x": Exponential(1.0)}
    first, _ = await spans(seconds=seconds)
    assert len(set(first)) == 20
    assert (await spans(seconds=seconds))[0] == first
    assert (await spans(seconds=seconds, seed=1))[0] != first
    assert (await spans(seconds=seconds, name="E"))[0] != first


async def test_work_fails_as_often_as_asked_and_takes_its_time():
    assert await spans(seconds={"x": 2.0}, failures={"x": 1.0}) == ([2.0] * 20, 20)
    lengths, failed = await spans(count=400, failures={"x": 0.25}, seconds={"y": 1.0})
    assert set(lengths) == {0.0}
    assert 60 < failed < 140
