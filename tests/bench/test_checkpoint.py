"""The bench of checkpoints, with a model of two experts."""

import inspect
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest

from bench import checkpoint

MODEL = 32  # mebibytes


@pytest.mark.parametrize("mode", ["write", "restore", "train"])
@pytest.mark.parametrize("engine", ["tagloom", "disk"])
async def test_each_case_does_what_it_says(tmp_path, monkeypatch, engine, mode):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    case = {"mode": mode, "mebibytes": MODEL}
    async with AsyncExitStack() as stack:
        step = checkpoint.EXPERIMENT.engines[engine](case, stack)
        step = await step if inspect.isawaitable(step) else step
        values = step()
        assert [np.asarray(each) for each in (await values if inspect.isawaitable(values) else values)] == [2]
        assert checkpoint.EXPERIMENT.amount(case) == MODEL << 20
        files = [path for path in Path(tmp_path).rglob("*") if path.is_file()]
        assert MODEL << 20 <= sum(path.stat().st_size for path in files) < (MODEL + 1) << 20
        if mode == "train":
            assert len(step.figures[checkpoint.HELD]) == 1
            assert len(step.figures[checkpoint.PLAIN]) == 8
            assert "1 writes" in step.notes()[checkpoint.BESIDE]
    assert list(tmp_path.iterdir()) == []


def test_only_what_was_noted_is_shown():
    """Cases that have no figures of their own give none."""
    from bench.protocol import figures

    class Process:
        def __init__(self, engine, found):
            self.engine, self.found = engine, found

        def call(self, command):
            return self.found

    noted = figures(checkpoint.EXPERIMENT, [Process("tagloom", {checkpoint.PAUSE: [1.0]}), Process("disk", {})])
    assert noted[checkpoint.PAUSE] == {"tagloom": [1.0]}
    assert noted[checkpoint.HELD] == {}
