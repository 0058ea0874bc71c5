"""Read, preprocess, train, evaluate and save as steps of one graph beside each other, and be killed at any moment.

    python examples/pipeline.py
    python examples/pipeline.py --kills 50

The graph is figure 1 of Abadi et al. (2016): readers put batches of records into a queue, preprocessing makes pictures
of them for a second queue, training takes these, and checkpoints are written meanwhile. With `--kills` the program is
run again and again in a process of its own, and killed (SIGKILL) at random moments while it writes checkpoints. Each
run goes on from the last whole checkpoint, and the weights at the end are those of an undisturbed run, bit for bit.

The digits that it learns are drawn by the program itself, into TFRecord files.
"""

import argparse
import asyncio
import hashlib
import itertools
import math
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tagloom as tg
from tagloom import nn
from tagloom.training import AdamOptimizer, Checkpointer

PIXELS = 64
CLASSES = 10


@dataclass(frozen=True)
class Size:
    """Of the network and its training."""

    hidden: int = 256
    batch: int = 32
    steps: int = 2000
    records: int = 2000


def draw_digits(count, seed):
    """Return noisy pictures of ten patterns, and which: [count, PIXELS] and [count] bytes."""
    rng = np.random.default_rng(seed)
    patterns = np.random.default_rng(7).integers(0, 256, [CLASSES, PIXELS])
    labels = rng.integers(CLASSES, size=count).astype(np.uint8)
    pictures = np.clip(patterns[labels] + rng.normal(0, 200, [count, PIXELS]), 0, 255)
    return pictures.astype(np.uint8), labels


def write_records(directory, count):
    """Write two TFRecord files; a record has a byte for each pixel, then one for the class."""
    pictures, labels = draw_digits(count, seed=0)
    for shard in range(2):
        with tg.data.TFRecordWriter(directory / f"digits-{shard}.tfrecord") as writer:
            for picture, label in zip(pictures[shard::2], labels[shard::2], strict=True):
                writer.write(bytes(picture) + bytes([label]))


class Reader:
    """Reads batches of records in a shuffled order, without end, and knows how to go on behind each of them.

    Reading is ahead of training by what is in the queues. So a checkpoint has two bookmarks: states of the pipeline
    behind some batch, of which one is not ahead. Who restores it reads on from there, past what was trained on.
    """

    APART = 32  # batches from one bookmark to the next, more than are on their way

    def __init__(self, directory, batch):
        self.dataset = (
            tg.data.from_tfrecord(str(directory / "*.tfrecord"))
            .map(lambda record: np.frombuffer(record, np.uint8), output=tg.TensorSpec([PIXELS + 1], "uint8"))
            .shuffle(256, seed=1)
            .batch(batch, drop_remainder=True)
            .repeat()
        )
        self.bookmarks = {}

    async def batches(self, done):
        """Yield batches and their numbers, from the one behind `done` on."""
        async with self.dataset.iterator() as iterator:
            number = max((each for each in self.bookmarks if each <= done), default=0)
            if number:
                iterator.restore(self.bookmarks[number])
            async for records in iterator:
                number += 1
                if number % self.APART == 0:
                    self.bookmarks = {**dict(list(self.bookmarks.items())[-1:]), number: iterator.state()}
                if number > done:
                    yield number, records

    def state_dict(self):
        return {str(number): state for number, state in self.bookmarks.items()}

    def load_state_dict(self, state):
        self.bookmarks = {int(number): each for number, each in state.items()}


class Pipeline:
    """The graph: two queues, and the steps between them."""

    def __init__(self, size):
        with tg.Graph(seed=3).as_default() as graph:
            # Reading.
            self.number, self.records = tg.placeholder("int64", []), tg.placeholder("uint8", [size.batch, PIXELS + 1])
            self.raw = tg.FIFOQueue(8, ["int64", "uint8"], shapes=[[], [size.batch, PIXELS + 1]])
            self.read = self.raw.enqueue([self.number, self.records])
            # Preprocessing.
            number, records = self.raw.dequeue()
            images, labels = tg.cast(records[:, :PIXELS], "float32") / 255 - 0.5, tg.cast(records[:, PIXELS], "int32")
            self.ready = tg.FIFOQueue(8, ["int64", "float32", "int32"], shapes=[[], [size.batch, PIXELS], [size.batch]])
            self.preprocess = self.ready.enqueue([number, images, labels])
            # Training.
            network = nn.Sequential(nn.Dense(size.hidden, activation=tg.relu), nn.Dense(size.hidden), nn.Dense(CLASSES))
            number, images, labels = self.ready.dequeue()
            loss = tg.reduce_mean(tg.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=network(images)))
            self.trained = tg.Variable(np.int64(0), name="trained")
            with tg.control_dependencies([AdamOptimizer(1e-3).minimize(loss)]):
                self.train = self.trained.assign(number)
            # Evaluation, on pictures that are fed.
            self.images, self.labels = tg.placeholder("float32", [None, PIXELS]), tg.placeholder("int32", [None])
            found = tg.argmax(network(self.images), 1, output_type="int32")
            self.accuracy = tg.reduce_mean(tg.cast(tg.equal(found, self.labels), "float32"))
            self.initializer = tg.global_variables_initializer()
            self.variables = tg.global_variables()
        self.graph = graph

    def held_out(self, count=500):
        """Return feeds of pictures that are in no file."""
        pictures, labels = draw_digits(count, seed=1)
        return {self.images: pictures.astype(np.float32) / 255 - 0.5, self.labels: labels.astype(np.int32)}


async def run(directory, size, say=print):
    """Train from the last checkpoint of a directory on, to the end; return the weights' digest and the accuracy."""
    if not list(directory.glob("*.tfrecord")):
        write_records(directory, size.records)
    pipeline, reader = Pipeline(size), Reader(directory, size.batch)
    async with tg.Session(pipeline.graph) as session:
        await session.run(pipeline.initializer)
        async with Checkpointer(
            directory / "checkpoints", keep=2, consistent=True, variables=pipeline.variables
        ) as checkpointer:
            checkpointer.add("reader", reader)
            restored = await checkpointer.restore(session)
            say(f"from step {restored.step if restored else 0}", flush=True)
            await train(session, pipeline, reader, checkpointer, size.steps, say)
        accuracy = await session.run(pipeline.accuracy, pipeline.held_out())
        return digest(await session.read_variables()), float(accuracy)


async def train(session, pipeline, reader, checkpointer, steps, say):
    """Run all steps beside each other until training has done so many of them."""
    done = int(await session.run(pipeline.trained))

    async def feeds():
        async for number, records in reader.batches(done):
            yield {pipeline.number: number, pipeline.records: records}

    async def save():
        trained = int(await session.run(pipeline.trained))
        await (await checkpointer.save(session, trained))

    async with tg.runners(session) as group:
        group.add(pipeline.read, name="reading", feeds=feeds(), closes=pipeline.raw)
        group.add(pipeline.preprocess, name="preprocessing", closes=pipeline.ready)
        group.add(pipeline.train, name="training", times=steps - done, on_end=lambda _: group.stop())
        group.add(
            pipeline.accuracy,
            name="evaluation",
            feeds=itertools.repeat(pipeline.held_out()),
            every=0.2,
            on_step=lambda accuracy: say(f"accuracy {accuracy:.3f}", flush=True),
        )
        # Where training waits for data longer than a checkpoint waits for training, it is tried again.
        group.add(save, name="checkpoints", every=0.01, restarts=math.inf)
    await (await checkpointer.save(session, steps))


def digest(variables):
    """Return a digest of the bits of variables."""
    found = hashlib.sha256()
    for name in sorted(variables):
        found.update(name.encode() + np.ascontiguousarray(variables[name]).tobytes())
    return found.hexdigest()


def run_in_process(directory, size, kill_after=None):
    """Run the program in a process of its own, and kill it so many seconds after it has begun to train.

    Returns
    -------
    list of str
        What it printed.
    """
    command = [sys.executable, __file__, "--directory", str(directory), "--steps", str(size.steps)]
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            lines.append(line.rstrip())
            if kill_after is not None and line.startswith("from step"):
                time.sleep(kill_after)
                process.send_signal(signal.SIGKILL)
    if kill_after is None and process.returncode:
        raise SystemExit(f"the program ended with {process.returncode}")
    return lines


def run_and_kill(size, kills, seed=0, say=print):
    """Kill the program so many times, then let it end; return its digest, and that of an undisturbed run."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as parts:
        undisturbed = run_in_process(Path(whole), size)[-1]
        unfinished = 0
        for kill in range(kills):
            begun = run_in_process(Path(parts), size, rng.uniform(0, 1))[0]
            unfinished += any(path.name.startswith(".") for path in Path(parts, "checkpoints").glob("*"))
            say(f"killed {kill + 1} of {kills}, {begun}; in the middle of writing: {unfinished}", flush=True)
        lines = run_in_process(Path(parts), size)
    say(f"{lines[0]} to the end", flush=True)
    return lines[-1], undisturbed


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", type=Path, help="where files and checkpoints are; a temporary one by default")
    parser.add_argument("--steps", type=int, default=Size.steps)
    parser.add_argument("--kills", type=int, default=0, help="how often the program is killed and run again")
    options = parser.parse_args(arguments)
    size = Size(steps=options.steps)
    if options.kills:
        disturbed, undisturbed = run_and_kill(size, options.kills)
        print(f"killed:      {disturbed}\nundisturbed: {undisturbed}\nequal: {disturbed == undisturbed}")
        return
    with tempfile.TemporaryDirectory() as temporary:
        found, accuracy = asyncio.run(run(options.directory or Path(temporary), size))
    print(f"accuracy {accuracy:.3f}\nweights {found}")


if __name__ == "__main__":
    main()
