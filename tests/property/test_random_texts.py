"""Texts of graphs with mistakes: parsing them and running what they stand for ends in errors of tagloom, if in any.

``TAGLOOM_TEXTS=100000 pytest tests/property/test_random_texts.py`` is the long run.
"""

import asyncio
import os
import re
from random import Random

import numpy as np
import pytest
import tagloom as tg

from tests.support.settings import ON

TEXTS = int(os.environ.get("TAGLOOM_TEXTS", "150"))
BATCH = 50
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s()\[\]{},:=@^?"]+|[()\[\]{},:=@^?]|\s+')
NUMBERS = ["0", "1", "2", "3", "5", "-1", "7", "1.5"]
SIZES = [(), (1,), (2,), (3,), (2, 3), (3, 2), (0,), (2, 2, 3)]


def originals():
    """Yield texts of small graphs of all kinds."""
    with tg.Graph().as_default() as graph:
        x, w = tg.placeholder("float32", [2, 3], name="x"), tg.Variable(np.ones((3, 2), np.float32), name="w")
        y = tg.tanh(tg.matmul(x, w)) + tg.reduce_sum(x, keepdims=True)
        tg.gradients(y, [w])
        w.assign_sub(tg.ones([3, 2]))
    yield graph.to_text()
    with tg.Graph().as_default() as graph:
        x, n = tg.placeholder("float32", [2, 3], name="x"), tg.placeholder("int32", [], name="n")

        def body(i, a, array):
            a = tg.cond(i % 2 > 0, lambda: a * x, lambda: tg.softmax(a) - x[:, :1])
            return i + 1, a, array.write(i, a)

        array = tg.TensorArray("float32", 3, element_shape=[2, 3], clear_after_read=False)
        _, a, array = tg.while_loop(lambda i, *_: (i < n) & (i < 3), body, [0, x, array])
        tg.gradients(tg.reduce_sum(a) + tg.reduce_mean(array.stack()), [x])
    yield graph.to_text()
    with tg.Graph().as_default() as graph:
        x, i = tg.placeholder("float64", [None, 4], name="x"), tg.placeholder("int32", [2], name="i")
        parts = tg.split(tg.concat([x, x * 2.0], 0), 2, 1)
        tg.gather(tg.transpose(parts[0]), i, name="rows")
        tg.where(x > 0.5, x, tg.zeros_like(x))
        tg.reshape(tg.pad(x, [[1, 0], [0, 1]]), [-1])
        tg.cumsum(tg.cast(tg.argmax(x, 1), "float32"))
        tg.gradients(tg.reduce_max(tg.tile(x, [2, 1])), [x])
    yield graph.to_text()


ORIGINALS = list(originals())
WORDS = sorted({token for text in ORIGINALS for token in TOKEN.findall(text) if token.strip()})


def mutated(text, random):
    """Return a text with a few mistakes."""
    tokens = TOKEN.findall(text)
    for _ in range(random.choice([1, 1, 1, 2, 4])):
        k = random.randrange(8, len(tokens))
        kind = random.randrange(5)
        if kind == 0:
            del tokens[k]
        elif kind == 1:
            tokens[k:k] = [tokens[k]]
        elif re.fullmatch(r"-?\d+(\.\d+)?", tokens[k]):
            tokens[k] = random.choice(NUMBERS)
        elif tokens[k].strip():
            tokens[k] = random.choice(WORDS)
    return "".join(tokens)


async def run(graph, random):
    """Run all that can be fetched, each by itself, with feeds of any shapes."""
    async with tg.Session(graph, memory_limit="16MB", timeout=0.5, settings=ON) as session:
        feeds = {}
        for op in graph.root.operations:
            if op.type == "Placeholder" and op.outputs[0].dtype.numpy is not None:
                shape = op.outputs[0].shape
                size = shape.as_tuple() if shape.is_fully_known and random.random() < 0.7 else random.choice(SIZES)
                feeds[op.outputs[0]] = np.ones(size, op.outputs[0].dtype.numpy)
        for op in graph.root.operations[-12:]:
            for fetch in op.outputs or [op]:
                try:
                    await session.run(fetch, feeds)
                except tg.TagloomError:
                    pass


@pytest.mark.parametrize("batch", range(-(-TEXTS // BATCH)))
def test_random_texts(batch):
    random = Random(batch if "TAGLOOM_TEXTS" not in os.environ else None)
    parsed = 0
    for _ in range(min(BATCH, TEXTS)):
        text = mutated(random.choice(ORIGINALS), random)
        try:
            graph = tg.Graph.from_text(text)
        except tg.GraphError:
            continue
        parsed += 1
        try:
            asyncio.run(run(graph, random))
        except Exception as error:
            error.add_note(text)
            raise
    assert parsed
