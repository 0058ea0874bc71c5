"""Eight layers on eight devices learn what they learn on one."""

import numpy as np

from examples.model_parallel_lstm import Size, describe, train

SMALL = Size(units=8, batch=4, length=6)


async def test_it_learns_on_eight_devices_what_it_learns_on_one():
    losses, report = await train(SMALL, 16, devices=8, say=str)
    alone, report_alone = await train(SMALL, 16, devices=1, say=str)
    np.testing.assert_allclose(losses, alone, rtol=1e-4)
    assert np.mean(losses[-4:]) < np.mean(losses[:4]) - 0.1
    assert {loop.device[-5:] for loop in report.loops} == {f"CPU:{k}" for k in range(8)}
    assert report_alone.traffic == ()


async def test_layers_work_on_several_characters_at_once_and_send_no_weights():
    lines = []
    losses, report = await train(SMALL, 2, devices=8, say=lines.append, every=1)
    assert len(lines) == len(losses) == 2
    pairs = {(t.source[-1], t.destination[-1]): t for t in report.traffic}
    for k in range(7):
        assert pairs[str(k), str(k + 1)].messages >= SMALL.length
    states = SMALL.length * SMALL.batch * SMALL.units * np.dtype(np.float32).itemsize
    assert max(t.bytes for t in report.traffic) < 2 * states
    assert max(loop.max_in_flight for loop in report.loops) > 1
    assert "messages" in list(describe(report))[-1]
