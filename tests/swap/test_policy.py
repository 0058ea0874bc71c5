"""What a SwapPolicy takes, and what a session makes of it."""

import numpy as np
import pytest
import tagloom as tg


def test_sizes_are_read(tmp_path):
    policy = tg.SwapPolicy(minimum="4KiB", host_limit="1 GiB", disk=tmp_path, disk_limit=np.int64(500))
    assert (policy.minimum, policy.host_limit, policy.disk_limit) == (4096, 1 << 30, 500)
    assert tg.SwapPolicy().minimum == 2048


@pytest.mark.parametrize("threshold", [1e-9, 0.5, 1, 1.0, np.float32(0.25)])
def test_thresholds(threshold):
    assert tg.SwapPolicy(threshold=threshold).threshold == threshold


@pytest.mark.parametrize("threshold", [0, 0.0, -0.1, 1.01, float("nan"), float("inf"), "0.7", None, True, 1j])
def test_what_is_no_threshold(threshold):
    with pytest.raises(tg.GraphError, match="share of the memory limit") as caught:
        tg.SwapPolicy(threshold=threshold)
    assert repr(threshold) in str(caught.value)


@pytest.mark.parametrize("name", ["minimum", "host_limit", "disk_limit"])
@pytest.mark.parametrize("size", [0, -1, "much", "", True, 2.5, "-3KiB"])
def test_what_is_no_size(tmp_path, name, size):
    if (name, size) == ("minimum", 0):
        assert tg.SwapPolicy(minimum=size).minimum == 0  # all that may move does
        return
    with pytest.raises(tg.GraphError, match=f"{name} of a SwapPolicy"):
        tg.SwapPolicy(disk=tmp_path, **{name: size})


@pytest.mark.parametrize("prefetch", [0, 1, 64, "auto"])
def test_prefetch(prefetch):
    assert tg.SwapPolicy(prefetch=prefetch).prefetch == prefetch


@pytest.mark.parametrize("prefetch", [-1, 65, True, 1.0, "all", None])
def test_what_is_no_depth(prefetch):
    with pytest.raises(tg.GraphError, match="number of slots"):
        tg.SwapPolicy(prefetch=prefetch)


def test_directories(tmp_path):
    missing, file = tmp_path / "missing", tmp_path / "file"
    file.write_text("")
    for each in (missing, file):
        with pytest.raises(tg.GraphError, match="directory for swapped values is not there"):
            tg.SwapPolicy(disk=each)
    with pytest.raises(tg.GraphError, match="disk_limit without disk"):
        tg.SwapPolicy(disk_limit=100)


def test_a_policy_is_a_value():
    assert tg.SwapPolicy() == tg.SwapPolicy(minimum=2048)
    with pytest.raises(AttributeError):
        tg.SwapPolicy().threshold = 0.5


@pytest.mark.parametrize("swap", [1, "yes", 0.7, {"threshold": 0.5}])
def test_what_a_session_does_not_take(graph, swap):
    with pytest.raises(tg.GraphError, match="swap= of a session"):
        tg.Session(graph, swap=swap)


@pytest.mark.usefixtures("fast_paths")
def test_a_directory_that_can_not_be_written_to_is_found_before_any_step(graph, tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError("no")

    policy = tg.SwapPolicy(disk=tmp_path)
    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(tg.GraphError, match="no file for swapped values"):
        tg.Session(graph, memory_limit="1MiB", swap=policy)


async def test_without_a_limit_nothing_is_opened(graph, tmp_path):
    async with tg.Session(graph, swap=tg.SwapPolicy(disk=tmp_path)) as session:
        await session.run(tg.constant(1.0) + 1.0)
        assert session._steps.environment.swapping._tiers is None
