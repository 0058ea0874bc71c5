"""A soak: a pipeline, training, checkpoints and cancellations, for as long as asked; nothing may grow or be left.

    python -m tests.property.soak --minutes 30

Rounds follow one another, each a session of its own: elements are read by an input pipeline, go through two queues, and
are added up by training, while takes are cancelled and time out, checkpoints are written and given up, and now and then
all is cancelled in the middle. Each element must have come out once. Beside that numbers go through accumulators, a
barrier and staging areas whose takes are cancelled at random: none may be lost or come twice. Behind each round there
must be as many tasks, threads, open files and values as before, and at the end as much resident memory as behind the
first rounds.
"""

import argparse
import asyncio
import gc
import os
import random
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tagloom as tg
from tagloom.compat import tf1
from tagloom.kernels.scheduler.state import live_counts
from tagloom.training import Checkpointer, GradientDescentOptimizer

WIDTH = 256
PLACES = 8


@dataclass
class Counts:
    """What has happened so far."""

    rounds: int = 0
    elements: int = 0
    cancelled: int = 0
    timed_out: int = 0
    checkpoints: int = 0
    beside: int = 0  # takes from accumulators, barriers and staging areas that were not cancelled
    abandoned: int = 0  # rounds that were cancelled in the middle


def dense_sums(x, step):
    """Return what puts a number into an accumulator, what it is fed, a take, and what reads its number."""
    sums = tg.ConditionalAccumulator("int64", shape=[], reduction_type="SUM")
    return sums.apply_grad(x, 1 << 40), (x, step), sums.take_grad(1), int


def sums_of_rows(x, step):
    """The same with rows of an accumulator."""
    sums = tg.SparseConditionalAccumulator("float32", shape=[4, 1], reduction_type="SUM")
    put = sums.apply_grad(tg.reshape(step % 4, [1]), tg.reshape(tg.cast(x, "float32"), [1, 1]), local_step=1 << 40)
    return put, (x, step), list(sums.take_grad(1)), lambda found: int(found[1].sum())


def through_a_barrier(x, step):
    """The same with a barrier, whose elements get their components one after the other."""
    barrier = tf1.Barrier(["int64", "int64"], shapes=[[], []])
    key = tg.reshape(tg.as_string(step), [1])
    first = barrier.insert_many(0, key, tg.reshape(x, [1]))
    with tg.control_dependencies([first]):
        put = barrier.insert_many(1, key, tg.reshape(x, [1]))
    return put, (x, step), barrier.take_many(1)[2], lambda found: int(found[1].sum())


def staged(x, step):
    """The same with a staging area."""
    area = tf1.StagingArea("int64", shapes=[[]], capacity=PLACES)
    return area.put([x]), (x, step), area.get(), lambda found: int(found[0])


def staged_by_key(x, step):
    """The same with a map staging area."""
    area = tf1.MapStagingArea("int64", shapes=[[]], capacity=PLACES)
    return area.put(step, [x]), (x, step), area.get()[1], lambda found: int(found[0])


def staged_in_order(x, step):
    """The same with a map staging area that gives the smallest key first."""
    area = tf1.MapStagingArea("int64", shapes=[[]], capacity=PLACES, ordered=True)
    return area.put(step, [x]), (x, step), area.get()[1], lambda found: int(found[0])


OTHERS = (dense_sums, sums_of_rows, through_a_barrier, staged, staged_by_key, staged_in_order)


class Round:
    """One session: numbers from a pipeline through two queues, and who takes them."""

    def __init__(self, rng, elements, directory, counts):
        self.rng, self.elements, self.directory, self.counts = rng, elements, directory, counts
        self.stolen = []
        with tg.Graph(seed=1).as_default() as graph:
            data = tg.data.from_async(self._source, output=tg.TensorSpec([], "int64"))
            number = data.map(self._slowly, parallel=4, output=tg.TensorSpec([], "int64")).prefetch(4).next()
            self.read_queue = tg.FIFOQueue(PLACES, "int64", shapes=[[]])
            self.read = self.read_queue.enqueue(number)
            number = self.read_queue.dequeue()
            self.ready = tg.FIFOQueue(PLACES, ["int64", "float32"], shapes=[[], [WIDTH]])
            self.preprocess = self.ready.enqueue([number, tg.fill([WIDTH], tg.cast(number % 7, "float32"))])
            number, row = self.ready.dequeue()
            self.steal = self.ready.dequeue()
            weights = tg.Variable(np.zeros([WIDTH, WIDTH], np.float32), name="weights")
            self.total, self.trained = tg.Variable(np.int64(0), name="total"), tg.Variable(np.int64(0), name="trained")
            loss = tg.reduce_mean(tg.square(tg.tanh(row[None] @ weights) - 0.5))
            train = GradientDescentOptimizer(0.1).minimize(loss)
            with tg.control_dependencies([number.op]):
                self.train = tg.group(train, self.total.assign_add(number), self.trained.assign_add(1))
            self.initializer = tg.global_variables_initializer()
            self.others = [make(tg.placeholder("int64", []), tg.placeholder("int64", [])) for make in OTHERS]
        self.graph = graph

    async def _source(self):
        for number in range(self.elements):
            if number % 16 == 0:
                await asyncio.sleep(0.001)
            yield np.int64(number)

    async def _slowly(self, number):
        await asyncio.sleep(0)
        return number

    async def run(self, abandon_after):
        """Run to the end, or be cancelled after so many seconds; check what came out."""
        async with tg.Session(self.graph) as session, Checkpointer(self.directory, keep=2) as checkpointer:
            await session.run(self.initializer)
            group = asyncio.create_task(self._run_all(session, checkpointer))
            beside = [asyncio.create_task(self._beside(session, *each)) for each in self.others]
            ended, _ = await asyncio.wait([group], timeout=abandon_after)
            if not ended:
                self.counts.abandoned += 1
                for task in (group, *beside):
                    task.cancel()
                await asyncio.wait([group, *beside])
                return
            group.result()
            await asyncio.gather(*beside)
            with suppress(tg.QueueClosed):  # what went back behind the end of training
                while True:
                    self.stolen.append(int((await session.run(self.steal))[0]))
            trained, total = int(await session.run(self.trained)), int(await session.run(self.total))
        assert trained + len(self.stolen) == self.elements, (trained, len(self.stolen), self.elements)
        assert total + sum(self.stolen) == self.elements * (self.elements - 1) // 2
        self.counts.elements += self.elements

    async def _run_all(self, session, checkpointer):
        async with asyncio.TaskGroup() as beside:
            beside.create_task(self._thief(session))  # ends with the queue that it takes from
            saver = beside.create_task(self._saver(session, checkpointer))
            async with tg.runners(session) as group:
                group.add(self.read, name="reading", closes=self.read_queue)
                for i in range(2):
                    group.add(self.preprocess, name=f"preprocessing {i}", closes=self.ready)
                group.add(self.train, name="training")
            saver.cancel()

    async def _thief(self, session):
        """Take elements now and then, and mostly give the wait up: by a cancellation, or a timeout."""
        with suppress(tg.QueueClosed):
            while True:
                await asyncio.sleep(0.002 * self.rng.random())
                if self.rng.random() < 0.5:
                    await self._cancelled_take(session)
                    continue
                try:
                    number, _ = await session.run(self.steal, timeout=0.0005 * self.rng.random() + 1e-6)
                    self.stolen.append(int(number))
                except tg.StepTimeout:
                    self.counts.timed_out += 1

    async def _cancelled_take(self, session):
        taking = asyncio.create_task(session.run(self.steal))
        try:
            await asyncio.sleep(0.001 * self.rng.random())
        finally:
            taking.cancel()
            await asyncio.wait([taking])
            if taking.cancelled():
                self.counts.cancelled += 1
            elif taking.exception() is None:
                self.stolen.append(int(taking.result()[0]))
        if not taking.cancelled():
            taking.result()

    async def _beside(self, session, put, number, take, value_of):
        """Put numbers and take them, mostly giving the takes up; hold what came out against what went in."""
        count, total, out = 60, 0, 0
        wanted = count * (count + 1) // 2
        putting = asyncio.create_task(self._put_all(session, put, number, count))
        try:
            while not (putting.done() and total >= wanted):
                taking = asyncio.create_task(session.run(take))
                try:
                    for _ in range(self.rng.randrange(40)):
                        await asyncio.sleep(0)
                    if self.rng.random() < 0.2:
                        await asyncio.wait([taking], timeout=0.005)
                finally:
                    taking.cancel()
                    await asyncio.wait([taking])
                if taking.cancelled():
                    self.counts.cancelled += 1
                else:
                    total += value_of(taking.result())
                    out += 1
        finally:
            putting.cancel()
            await asyncio.wait([putting])
        assert total == wanted, (total, wanted)
        self.counts.beside += out

    async def _put_all(self, session, put, number, count):
        for n in range(1, count + 1):
            await session.run(put, {number[0]: n, number[1]: n})
            if self.rng.random() < 0.3:
                await asyncio.sleep(0.001)

    async def _saver(self, session, checkpointer):
        """Save all the time; give up waiting for some of it."""
        step = 0
        while True:
            await asyncio.sleep(0.02 * self.rng.random())
            step += 1
            saving = asyncio.create_task(checkpointer.save(session, step))
            if self.rng.random() < 0.3:
                await asyncio.sleep(0)
                saving.cancel()
            try:
                await asyncio.wait([saving])
            finally:
                saving.cancel()
            if not saving.cancelled():
                await saving.result()
                self.counts.checkpoints += 1


def figures():
    """Return what must be the same behind each round: tasks, threads, open files, values of machines."""
    gc.collect()
    counts = live_counts()
    return {
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "files": open_files(),
        **{name: counts[name] for name in ("frames", "iterations", "values")},
    }


def open_files():
    """Return how many files and sockets are open."""
    return len(os.listdir("/proc/self/fd"))


def resident_bytes():
    """Return the resident memory of the process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def soak(seconds, seed=0, say=print):
    """Run rounds for so many seconds; return what happened, and the resident bytes behind each round."""
    rng, counts, memory = random.Random(seed), Counts(), []
    end, before = time.monotonic() + seconds, None
    with tempfile.TemporaryDirectory() as directory:
        while time.monotonic() < end or counts.rounds < 3:
            abandon = rng.uniform(0.05, 1.0) if rng.random() < 0.2 and counts.rounds > 2 else None
            each = Round(rng, rng.randint(50, 2000), Path(directory), counts)
            async with asyncio.timeout(120):
                await each.run(abandon)
            del each
            counts.rounds += 1
            now = figures()
            before = now if counts.rounds == 2 else before  # what is opened once is open by then
            if counts.rounds > 2:
                assert now == before, f"round {counts.rounds} left something: {before} before, {now} behind it"
            memory.append(resident_bytes())
            if counts.rounds % 50 == 0:
                say(f"{counts}, {memory[-1] >> 20} MiB", flush=True)
    return counts, memory


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    before = open_files()
    counts, memory = asyncio.run(soak(60 * options.minutes, options.seed))
    tenth = max(1, len(memory) // 10)
    early, late = (np.median(part) / 2**20 for part in (memory[tenth : 2 * tenth], memory[-tenth:]))
    print(f"{counts}\nresident: {early:.1f} MiB in the second tenth of the rounds, {late:.1f} MiB in the last")
    print(
        f"threads: {[each.name for each in threading.enumerate()]}; open files: {before} before, {open_files()} behind"
    )


if __name__ == "__main__":
    main()
