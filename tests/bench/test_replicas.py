"""What ``bench backup_workers`` and ``bench replicas`` measure is so in virtual time, at small sizes."""

import asyncio

import numpy as np
import pytest

from bench import backup_workers, replicas
from tests.support.tiers import choose


def training(workers, backup, updates=30, step="slowest 16 % behind"):
    return {"step": step, "workers": workers, "backup": backup, "updates": updates}


def median(case):
    return 1e3 * float(np.median(backup_workers.in_virtual_time(case)))


@pytest.mark.parametrize("step", backup_workers.NULL[:2])
def test_null_steps_are_fitted_to_one_worker_and_grow_with_their_number(step):
    one, ten = (median(training(workers, 0, 3, step)) for workers in (1, 10))
    paper = backup_workers.PAPER[step]
    assert one == pytest.approx(paper[1], rel=0.05)
    slope = (paper[100] - paper[1]) / 99
    assert 0.5 * slope < (ten - one) / 9 < 1.25 * slope  # more of them hide behind each other at first


def test_backup_workers_shorten_steps_and_their_gradients_are_late():
    updates = choose(thorough=30, default=10)
    alone, (helped, statistics) = (
        backup_workers.in_virtual_time(training(20, 0, updates)),
        asyncio.run(backup_workers.virtual(training(20, 3, updates))),
    )
    assert np.median(helped) < 0.95 * np.median(alone)
    assert np.percentile(helped, 90) < 0.85 * np.percentile(alone, 90)
    assert sum(each.counted for each in statistics) == (updates + 1) * 20
    most = 3 * (updates + 1)
    assert most - 18 <= sum(each.late for each in statistics) <= most  # three of each update, but for those under way


def test_the_same_seed_gives_the_same_times():
    first, second = (backup_workers.in_virtual_time(training(4, 1, 10)) for _ in range(2))
    assert first == second


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("mode", ["asynchronous", "one backup"])
def test_replicas_learn_to_read_in_less_time(mode):
    pytest.importorskip("sklearn")
    found = asyncio.run(replicas.virtual({"mode": mode, "epochs": 3}, 0))
    assert found.wrong < 30
    assert found.losses[-1][1] < found.losses[0][1]
    assert found.seconds < 3 * 42 * 0.5  # of the second or more that one device takes for each batch
