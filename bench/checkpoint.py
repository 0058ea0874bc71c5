"""Checkpoints of a model of a gigabyte: how fast they are written and restored, and how long training pauses meanwhile.

The model is a mixture of experts, of which each step trains one. A file of as many bytes is written by dd and read
again in turn with ours, on the same disk: a new file each time, and the one before is removed. A pause is what a step
takes while a checkpoint is written beyond what steps take otherwise; the same steps are timed beside dd too, which
tells what the machine takes from whoever computes while its disk writes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .experiment import BenchError, Case, Experiment, Observed

UNITS = 2048  # of an expert: 16 MiB of float32
BATCH = 8
MEBIBYTE = 1 << 20
PAUSE, LONGEST, HELD, PLAIN = (
    "pause_p99_milliseconds",
    "longest_pause_milliseconds",
    "snapshot_milliseconds",
    "step_milliseconds",
)
BESIDE = "steps"
Write = Callable[[int], Awaitable[Awaitable[Any]]]  # begins to write number so-and-so; gives what waits for the end


def size_of(case: Case) -> int:
    """Return the bytes of the model."""
    return int(case["mebibytes"]) * MEBIBYTE


class Model:
    """A mixture of experts, and its checkpoints in a directory."""

    def __init__(self, case: Case, directory: Path) -> None:
        import tagloom as tg
        from tagloom.training import Checkpointer

        self.count = size_of(case) // (4 * UNITS * UNITS)
        self.directory = directory
        with tg.Graph().as_default() as self.graph:
            self.experts = [
                tg.Variable(lambda: tg.fill([UNITS, UNITS], 1e-3), name=f"expert_{i}") for i in range(self.count)
            ]
            x = tg.placeholder("float32", [BATCH, UNITS], name="x")
            self.x = x
            self.steps = []
            for expert in self.experts:
                loss = tg.reduce_mean(tg.square(x @ expert.value() - x))
                (gradient,) = tg.gradients([loss], [expert])
                self.steps.append(expert.assign_sub(0.1 * gradient).op)
            self.initializers = [expert.initializer for expert in self.experts]
        self.checkpointer = Checkpointer(directory, keep=1, consistent=True)
        self.batch = np.random.default_rng(0).standard_normal((BATCH, UNITS)).astype(np.float32)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Any]:
        """Open a session of the model, without values."""
        import tagloom as tg

        async with tg.Session(self.graph) as session:
            yield session

    def compiled(self, session: Any) -> list[Any]:
        """Return the steps, each of which trains an expert."""
        return [session.make_step(step, [self.x]) for step in self.steps]


async def timed(step: Any, batch: np.ndarray) -> float:
    """Return the milliseconds that a step takes."""
    began = time.perf_counter()
    await step(batch)
    return 1e3 * (time.perf_counter() - began)


class Trained:
    """Training that goes on while checkpoints are written, and its pauses.

    Attributes
    ----------
    usual : float
        Milliseconds that a step takes otherwise, the median.
    pauses, held : list of float
        Milliseconds: of each step beside a checkpoint, beyond the usual; until `save` returned.
    """

    def __init__(self, usual: float) -> None:
        self.usual = usual
        self.pauses: list[float] = []
        self.held: list[float] = []

    async def beside(self, write: Callable[[], Awaitable[Awaitable[Any]]], steps: list[Any], batch: np.ndarray) -> None:
        """Begin to write, and train until that is written."""
        began = time.perf_counter()
        writing = asyncio.ensure_future(await write())
        self.held.append(1e3 * (time.perf_counter() - began))
        i, snapshot = 0, self.held[-1]
        while not writing.done():
            milliseconds = await timed(steps[i % len(steps)], batch)
            self.pauses.append(snapshot + milliseconds - self.usual)
            i, snapshot = i + 1, 0.0  # the first step comes behind the snapshot, so that its pause has that too
        await writing


def forget(path: Path) -> None:
    """Let the operating system keep nothing of a file, so that it is read from the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)


def dd(*arguments: str) -> float:
    """Return the seconds that dd takes."""
    began = time.perf_counter()
    subprocess.run(["dd", "bs=1M", *arguments], check=True, capture_output=True)
    return time.perf_counter() - began


def own_directory(stack: AsyncExitStack) -> Path:
    """Return a new directory, on the disk that temporary files are on; it is removed at the end."""
    directory = Path(tempfile.mkdtemp(prefix="bench-checkpoint-"))
    stack.callback(shutil.rmtree, directory, ignore_errors=True)
    return directory


async def tagloom(case: Case, stack: AsyncExitStack) -> Observed:
    """Save, restore, or train while a checkpoint is written."""
    return await {"write": writes, "restore": restores, "train": trains}[case["mode"]](*await begun(case, stack))


async def begun(case: Case, stack: AsyncExitStack) -> tuple[Model, Any]:
    """Return the model and a session that has its values."""
    directory = own_directory(stack)
    model = Model(case, directory)
    if shutil.disk_usage(directory).free < 6 * size_of(case):
        raise BenchError(f"{directory} has no room for checkpoints of {case['mebibytes']} MiB")
    session = await stack.enter_async_context(model.session())
    for each in model.initializers:
        await session.run(each)
    return model, session


async def writes(model: Model, session: Any) -> Observed:
    """Return a step that writes a checkpoint, while nothing else is done."""
    number = 0

    async def step() -> list[Any]:
        nonlocal number
        number += 1
        await (await model.checkpointer.save(session, number))
        return [np.array(model.count)]

    for _ in range(2):  # from now on there are two checkpoints for a moment, on blocks that the disk has had before
        await step()
    return Observed(step)


async def restores(model: Model, session: Any) -> Observed:
    """Return a step that restores a checkpoint, from the disk, into a session that has no values yet."""
    path = await (await model.checkpointer.save(session, 1))

    async def step() -> list[Any]:
        for each in path.iterdir():
            forget(each)
        async with model.session() as fresh:
            await model.checkpointer.restore(fresh)
        return [np.array(model.count)]

    return Observed(step)


async def trains(model: Model, session: Any, write: Write | None = None) -> Observed:
    """Return a step that trains while a checkpoint, or what ``write(number)`` begins, is written."""
    steps = model.compiled(session)
    for each in steps:
        await each(model.batch)
    usual = [await timed(each, model.batch) for each in steps * 4]
    found, number = Trained(float(np.median(usual))), 0
    figures: dict[str, list[float]] = {PAUSE: [], LONGEST: [], HELD: [], PLAIN: []}
    begin = write or partial(model.checkpointer.save, session)

    async def step() -> list[Any]:
        nonlocal number
        number += 1
        await found.beside(partial(begin, number), steps, model.batch)
        figures[PAUSE][:] = [float(np.percentile(found.pauses, 99))]
        figures[LONGEST][:] = [max(found.pauses)]
        figures[HELD][:], figures[PLAIN][:] = found.held, usual
        return [np.array(model.count)]

    def notes() -> dict[str, str]:
        return {BESIDE: f"{len(found.pauses)} steps beside {len(found.held)} writes"}

    return Observed(step, figures, notes)


class Files:
    """Files that dd writes one after the other, each in the place of the one before.

    Parameters
    ----------
    size : int
        Of each, in bytes.
    """

    def __init__(self, directory: Path, size: int) -> None:
        self.path = directory / "file"
        self._next = directory / "next"
        self._count = size // MEBIBYTE

    def write(self, *more: str) -> None:
        """Write a file until it is on the disk, then remove the one before."""
        dd("if=/dev/zero", f"of={self._next}", f"count={self._count}", "conv=fsync", *more)
        self._next.replace(self.path)

    def read(self) -> None:
        """Read the file from the disk."""
        forget(self.path)
        dd(f"if={self.path}", "of=/dev/null")


async def disk(case: Case, stack: AsyncExitStack) -> Observed:
    """Write files by dd, read one, or train while one is written past the operating system's cache, as ours are."""
    files = Files(own_directory(stack), size_of(case))
    await asyncio.to_thread(files.write)
    if case["mode"] == "train":
        model, session = await begun(case, stack)
        return await trains(model, session, lambda number: direct(files))

    def step() -> list[Any]:
        files.write() if case["mode"] == "write" else files.read()
        return [np.array(size_of(case) // (4 * UNITS * UNITS))]

    return Observed(step)


async def direct(files: Files) -> Awaitable[None]:
    """Begin to write a file past the cache."""
    return asyncio.to_thread(files.write, "oflag=direct")


def cases(mebibytes: int) -> tuple[Case, ...]:
    """Return the cases of a model."""
    return tuple({"mode": mode, "mebibytes": mebibytes} for mode in ("write", "restore", "train"))


EXPERIMENT = Experiment(
    name="checkpoint",
    cases=cases(1024),
    engines={"tagloom": tagloom, "disk": disk},
    metric="bytes_per_second",
    amount=lambda case: float(size_of(case)),
    figures=(PAUSE, LONGEST, HELD, PLAIN),
    notes=(BESIDE,),
)
