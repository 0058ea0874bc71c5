"""Saving, waiting, restoring and closing, cancelled at every turn of the event loop: nothing is left, all goes on."""

import asyncio
import os
import threading

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import Checkpointer
from tagloom.training.checkpoints import directory as files

from tests.runtime.tasks import only_this_task
from tests.training.checkpoints.models import bits, variables

VALUES = {f"v{i}": np.full(1 << 19, i, np.float32) for i in range(2)}  # copied in threads
GRAPH = variables(**VALUES)
with GRAPH.as_default():
    UPDATE = tg.group(*(v.assign_add(np.float32(1) * np.ones(1 << 19, np.float32)) for v in tg.global_variables()))


async def cancelled_at(turn, work):
    """Cancel a coroutine after some turns of the loop; say whether it had not ended by then."""
    task = asyncio.ensure_future(work)
    for _ in range(turn):
        await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


def hidden(directory):
    return [name for name in os.listdir(directory) if name.startswith(".")]


def no_thread_writes():
    return not [each for each in threading.enumerate() if each.name.startswith("tagloom-checkpoint")]


async def until_no_thread_writes():
    while not no_thread_writes():
        await asyncio.sleep(1e-3)


async def assert_goes_on(session, checkpointer, step):
    """Say that nothing is held back, and that what is saved next comes back."""
    assert only_this_task()
    await session.run(UPDATE)
    values = bits(await session.read_variables())
    path = await (await checkpointer.save(session, step))
    await session.run(UPDATE)
    await checkpointer.restore(session, path)
    assert bits(await session.read_variables()) == values
    assert not hidden(checkpointer.directory)


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "training"])
async def test_saving_is_cancelled_at_every_turn(tmp_path, busy):
    async with tg.Session(GRAPH) as session:
        await session.run(GRAPH.init)
        ended = 0
        for turn in range(200):
            checkpointer = Checkpointer(tmp_path, keep=2, consistent=True)
            training = asyncio.ensure_future(session.run(UPDATE)) if busy else None
            was_cancelled = await cancelled_at(turn, checkpointer.save(session, turn))
            if training is not None:
                await training
            await checkpointer.aclose()
            assert not hidden(tmp_path)
            assert no_thread_writes()
            ended += not was_cancelled
            if ended > 2:
                break
        else:
            raise AssertionError("it never ended")
        await assert_goes_on(session, Checkpointer(tmp_path), 1000)


async def test_who_waits_for_the_writing_is_cancelled_and_it_goes_on(tmp_path, monkeypatch):
    go, write = threading.Event(), files.write_tensors
    monkeypatch.setattr(files, "write_tensors", lambda *args: (go.wait(60), write(*args))[1])
    async with tg.Session(GRAPH) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(GRAPH.init)
        saving = await checkpointer.save(session, 1)
        for turn in range(5):
            assert await cancelled_at(turn, saving.wait_until_ended())
        go.set()
        assert (await saving).name == "checkpoint-0000000001"
        await assert_goes_on(session, checkpointer, 2)


@pytest.mark.parametrize("how", ["cancel", "abandon", "cancelled"])
async def test_a_writing_that_is_given_up_leaves_nothing(tmp_path, monkeypatch, how):
    """At its first piece, at the second, and so on."""
    write = files.write_tensors
    async with tg.Session(GRAPH) as session:
        await session.run(GRAPH.init)
        await (await Checkpointer(tmp_path).save(session, 1))
        for piece in range(1, 4):  # the header, and the two arrays
            reached, go = threading.Event(), threading.Event()
            left = piece

            def paused(file, path, tensors, metadata, check, *more, reached=reached, go=go):
                def counted():
                    nonlocal left
                    left -= 1
                    if left == 0:
                        reached.set()
                        go.wait(60)
                    check()

                return write(file, path, tensors, metadata, counted, *more)

            monkeypatch.setattr(files, "write_tensors", paused)
            checkpointer = Checkpointer(tmp_path)
            saving = await checkpointer.save(session, 2)
            assert await asyncio.to_thread(reached.wait, 60)
            if how == "cancel":
                assert saving.cancel()
                go.set()
                with pytest.raises(tg.CheckpointError, match="was cancelled"):
                    await saving
            else:
                closing = asyncio.ensure_future(checkpointer.aclose(abandon=how == "abandon"))
                await asyncio.sleep(0)
                if how == "cancelled":
                    closing.cancel()
                    await asyncio.sleep(0)
                    assert not closing.done()  # it waits for the thread
                go.set()
                (error,) = await asyncio.gather(closing, return_exceptions=True)
                assert isinstance(error, asyncio.CancelledError) == (how == "cancelled")
            assert saving.done
            assert not saving.cancel()
            assert sorted(os.listdir(tmp_path)) == ["checkpoint-0000000001"]
        monkeypatch.setattr(files, "write_tensors", write)
        await assert_goes_on(session, Checkpointer(tmp_path), 3)


async def test_restoring_is_cancelled_at_every_turn(tmp_path):
    """All variables are as they were, or as they were saved."""
    async with tg.Session(GRAPH) as session, Checkpointer(tmp_path) as checkpointer:
        await session.run(GRAPH.init)
        await (await checkpointer.save(session, 1))
        saved = bits(await session.read_variables())
        await session.run(UPDATE)
        updated = bits(await session.read_variables())
        for turn in [*range(40), *(1 << n for n in range(6, 14))]:
            await cancelled_at(turn, checkpointer.restore(session))
            values = bits(await session.read_variables())
            assert values in (saved, updated)
            assert only_this_task()
            if values == saved:
                await session.run(UPDATE)
        await assert_goes_on(session, checkpointer, 2)


async def test_a_session_may_be_closed_while_a_checkpoint_is_written(tmp_path, monkeypatch):
    go, write = threading.Event(), files.write_tensors
    monkeypatch.setattr(files, "write_tensors", lambda *args: (go.wait(60), write(*args))[1])
    checkpointer = Checkpointer(tmp_path)
    async with tg.Session(GRAPH) as session:
        await session.run(GRAPH.init)
        saving = await checkpointer.save(session, 1)
    go.set()
    await saving
    async with tg.Session(GRAPH) as session:
        await checkpointer.restore(session)
        assert bits(await session.read_variables()) == bits(VALUES)


async def test_a_session_that_is_closed_gives_nothing(tmp_path):
    async with tg.Session(GRAPH) as session:
        await session.run(GRAPH.init)
    for work in (Checkpointer(tmp_path).save(session, 1),):
        with pytest.raises(tg.SessionClosed):
            await work
    assert os.listdir(tmp_path) == []
