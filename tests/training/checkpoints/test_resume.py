"""A run that is resumed is the one that was interrupted, bit for bit: wherever it was, and however it ended."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tagloom as tg
from tagloom.training import Checkpointer

from tests.support.tiers import choose
from tests.training.checkpoints.models import Model, bits

LAST = 12
KILLS = int(os.environ.get("TAGLOOM_KILLS") or choose(thorough=10, default=2))
ROOT = Path(__file__).parents[3]


async def undisturbed(executor="machine"):
    model = Model()
    async with tg.Session(model.graph, executor=executor) as session:
        await session.run(model.init)
        await model.run(session, 0, LAST)
        return bits(await session.read_variables())


@pytest.mark.parametrize("executor", ["machine", "reference"])
@pytest.mark.parametrize("at", [0, 5])
async def test_dropout_and_adam_go_on_where_they_were(tmp_path, executor, at):
    model, again = Model(), Model()
    async with tg.Session(model.graph, executor=executor) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(model.init)
        await model.run(session, 0, at)
        await (await checkpointer.save(session, at))
        await model.run(session, at, LAST)
        whole = bits(await session.read_variables())
    assert whole == await undisturbed(executor)
    async with tg.Session(again.graph, executor=executor) as session, Checkpointer(tmp_path) as checkpointer:
        restored = await checkpointer.restore(session)
        assert (restored.step, restored.missing, restored.unused) == (at, (), ())
        await again.run(session, at, LAST)
        assert bits(await session.read_variables()) == whole


async def test_masks_are_those_of_the_session_that_was_saved(tmp_path):
    """Whatever the seed of the graph it is restored into, and the steps that were run there before."""
    model, other = Model(seed=3), Model(seed=4)
    async with tg.Session(model.graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(model.init)
        await checkpointer.save(session, 0)
        await model.run(session, 0, LAST)
        whole = bits(await session.read_variables())
    async with tg.Session(other.graph) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(other.init)
        await other.run(session, 0, 3)
        unlike = bits(await session.read_variables())
        await checkpointer.restore(session)
        await other.run(session, 0, LAST)
        assert bits(await session.read_variables()) == whole != unlike


async def test_training_that_goes_on_does_not_change_what_is_saved(tmp_path):
    model = Model()
    async with tg.Session(model.graph) as session, Checkpointer(tmp_path, keep=None) as checkpointer:
        await session.run(model.init)
        wanted = []

        async def save(step):
            wanted.append((step, bits(await session.read_variables())))
            await checkpointer.save(session, step)

        await model.run(session, 0, LAST, save)
        await checkpointer.aclose()
        for step, values in wanted:
            async with tg.Session(model.graph) as another:
                restored = await checkpointer.restore(another, checkpointer.checkpoints()[step - 1])
                assert restored.step == step
                assert bits(await another.read_variables()) == values


PROGRAM = """
import asyncio, sys
import tagloom as tg
from tagloom.training import Checkpointer
from tests.training.checkpoints.models import Model

async def main(directory, last):
    model = Model()
    async with tg.Session(model.graph) as session, Checkpointer(directory, keep=2, every_steps=1) as checkpointer:
        await session.run(model.init)
        restored = await checkpointer.restore(session)
        first = restored.step if restored else 0
        print("resumed", first, len(restored.skipped) if restored else 0, flush=True)
        async def save(step):
            await checkpointer.save_if_due(session, step)
            print("trained", step, flush=True)
        await model.run(session, first, last, save)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def resumed_until(directory, moment):
    """Run the program; kill it when a file operation of the given number begins. Return what it has printed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    program = KILLED.format(moment=moment) + PROGRAM
    done = subprocess.run(
        [sys.executable, "-c", program, str(directory), str(LAST)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, done.stdout.split("\n")


# The process ends as soon as a file is opened, written, synced, renamed or removed for the n-th time in a checkpoint.
KILLED = """
import os, signal, shutil
from tagloom.training.checkpoints import directory as _files
from tagloom.base.safetensors import streams as _streams, writing as _writing
_left = {moment}
def _counted(function):
    def call(*args, **kwargs):
        global _left
        _left -= 1
        if _left == 0:
            if function is os.write:  # in the middle of it
                function(args[0], args[1][: len(args[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return call
class _Os:
    def __getattr__(self, name):
        found = getattr(os, name)
        return _counted(found) if name in ("open", "write", "fsync", "close", "rename", "replace", "listdir") else found
_files.os = _writing.os = _streams.os = _Os()
"""


def test_a_killed_run_resumes_from_a_whole_checkpoint(tmp_path):
    """Killed in the middle of writing at seeded moments: each restart finds one, and the end is the undisturbed one."""
    chosen = random.Random(7)
    kills, steps, killed = 0, [0], tmp_path / "killed"
    while True:
        moment = chosen.randrange(5, 60) if kills < KILLS else 1 << 40
        code, lines = resumed_until(killed, moment)
        first = next(line for line in lines if line.startswith("resumed"))
        _, step, skipped = first.split()
        assert int(skipped) == 0, "a damaged checkpoint had its final name"
        assert int(step) >= steps[-1], "a checkpoint that was whole is gone"
        steps.append(int(step))
        if code == 0:
            break
        kills += 1
    assert len(set(steps)) > choose(thorough=2, default=1)  # it did go on in between
    assert not [name for name in os.listdir(killed) if name.startswith(".")]
    assert resumed_until(tmp_path / "whole", 1 << 40)[0] == 0
    assert final_values(killed) == final_values(tmp_path / "whole")


def final_values(directory):
    async def read():
        model = Model()
        async with tg.Session(model.graph) as session:
            restored = await Checkpointer(directory).restore(session)
            assert restored.step == LAST
            return bits(await session.read_variables())

    return asyncio.run(read())
