"""Learn what expressions come to, by a network over their syntax trees (Socher et al., 2011), in one while_loop.

    python examples/tree_sums.py

The data are expressions in the sources of Python's standard library, as Python's own parser reads them. Their numbers,
names and calls become digits, and their operations sums, differences and products, to be taken modulo `modulus`. A tree
is a row of nodes, each behind those that it is made of: an iteration writes the vector of a node to a TensorArray, and
reads those of its operands from there. All trees of a batch are one forest, which goes through one loop.
"""

import argparse
import ast
import asyncio
import sysconfig
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import tagloom as tg
from tagloom.training import AdamOptimizer

ADD, SUBTRACT, MULTIPLY = range(3)
OPERATIONS = {ast.Add: ADD, ast.Sub: SUBTRACT, ast.Mult: MULTIPLY}
MEANINGS = [np.add, np.subtract, np.multiply]
SOURCES = ("fractions", "colorsys", "calendar", "statistics", "random", "datetime", "_pydecimal", "heapq", "textwrap")


@dataclass(frozen=True)
class Size:
    """Of the model, and of the trees: of at most `nodes` nodes, over digits below `modulus`."""

    modulus: int = 3
    units: int = 48
    batch: int = 32
    nodes: int = 15


@dataclass(frozen=True)
class Tree:
    """The nodes of an expression, each behind its operands: of an operation their numbers, of a leaf -1.

    Attributes
    ----------
    kinds : tuple of int
        Of the operations; -1 for leaves.
    left, right : tuple of int
        Numbers of the operands.
    """

    kinds: tuple
    left: tuple
    right: tuple


def tree_of(node):
    """Return the tree of an expression; None where it is not made of two operands."""
    kinds, left, right = [], [], []

    def add(node):
        operands = (-1, -1)
        kind = OPERATIONS.get(type(getattr(node, "op", None)), -1) if isinstance(node, ast.BinOp) else -1
        if kind >= 0:
            operands = add(node.left), add(node.right)
        for row, value in zip((kinds, left, right), (kind, *operands), strict=True):
            row.append(value)
        return len(kinds) - 1

    add(node)
    return Tree(tuple(kinds), tuple(left), tuple(right)) if len(kinds) > 1 else None


def read_trees(most, names=SOURCES):
    """Return the different trees of expressions in modules of the standard library."""
    folder, found = Path(sysconfig.get_paths()["stdlib"]), {}
    for name in names:
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text())):
            tree = tree_of(node) if isinstance(node, ast.BinOp) else None
            if tree is not None and len(tree.kinds) <= most:
                found[tree] = None
    return list(found)


def values(tree, leaves, modulus):
    """Return what each node comes to, if the leaves are these digits."""
    found = list(leaves)
    for k, kind in enumerate(tree.kinds):
        if kind >= 0:
            found[k] = int(MEANINGS[kind](found[tree.left[k]], found[tree.right[k]])) % modulus
    return found


def draw(random, trees, size):
    """Draw a forest: kinds, digits, operands and values of the nodes of some trees, one tree behind the other."""
    found = [[] for _ in range(5)]
    for tree in (trees[k] for k in random.integers(len(trees), size=size.batch)):
        first, digits = len(found[0]), random.integers(size.modulus, size=len(tree.kinds))
        operands = [[first + k if k >= 0 else 0 for k in side] for side in (tree.left, tree.right)]
        for row, more in zip(found, (tree.kinds, digits, *operands, values(tree, digits, size.modulus)), strict=True):
            row.extend(more)
    return [np.int32(row) for row in found]


class Model:
    """The graph: what reads trees, and what makes it better."""

    def __init__(self, size, rate=3e-3, seed=0):
        self.size = size
        with tg.Graph().as_default() as self.graph:
            tg.set_random_seed(seed)
            self.feeds = kinds, digits, left, right, wanted = [tg.placeholder("int32", [None]) for _ in range(5)]
            self.embedding = self.weights(size.modulus, size.units)
            self.layers = [self.weights(2 * size.units, size.units) for _ in range(2 * len(MEANINGS))]
            self.out = self.weights(size.units, size.modulus)
            logits = self.read(kinds, digits, left, right) @ self.out
            losses = tg.sparse_softmax_cross_entropy_with_logits(labels=wanted, logits=logits)
            self.loss = tg.reduce_mean(losses)
            made = tg.cast(kinds >= 0, "float32")
            right_ones = tg.cast(tg.equal(tg.cast(tg.argmax(logits, 1), "int32"), wanted), "float32")
            self.right = tg.reduce_sum(right_ones * made) / tg.reduce_sum(made)
            self.train = AdamOptimizer(rate).minimize(self.loss)
            self.initialize = tg.global_variables_initializer()

    def weights(self, rows, columns):
        """Return random weights whose products keep the size of what they multiply."""
        return tg.Variable(tg.random_normal([rows, columns], stddev=rows**-0.5))

    def joined(self, kind, left, right):
        """Return the vector of an operation on two operands, all of shape [1, units]."""
        both = tg.concat([left, right], 1)

        def applied(k):
            return tg.sigmoid(both @ self.layers[2 * k]) * tg.tanh(both @ self.layers[2 * k + 1])

        return tg.switch_case(kind, {k: partial(applied, k) for k in range(len(MEANINGS))})

    def read(self, kinds, digits, left, right):
        """Return a vector for each node, [nodes, units]; an operation reads what its operands have written."""
        count = tg.size(kinds)
        shape = [1, self.size.units]
        rows = [tg.TensorArray("int32", count).unstack(x) for x in (kinds, digits, left, right)]

        def node(t, made):
            kind, digit, a, b = (row.read(t) for row in rows)
            vector = tg.cond(
                kind < 0,
                lambda: tg.gather(self.embedding, tg.expand_dims(digit, 0)),
                lambda: self.joined(kind, made.read(a), made.read(b)),
            )
            return t + 1, made.write(t, vector)

        made = tg.TensorArray("float32", count, clear_after_read=False, element_shape=shape)
        made = tg.while_loop(lambda t, _: t < count, node, (0, made), name="nodes")[1]
        return tg.reshape(made.stack(), [-1, self.size.units])


async def train(size, steps, say=print, every=200, seed=0):
    """Train on drawn forests.

    Returns
    -------
    losses : list of float
    right : float
        Share of the operations in trees that were never seen whose value is right.
    report : tagloom.Report
        Of the last step of training.
    """
    model, random, losses = Model(size, seed=seed), np.random.default_rng(seed), []
    trees = read_trees(size.nodes)
    unseen, seen = trees[::5], [tree for k, tree in enumerate(trees) if k % 5]
    async with tg.Session(model.graph) as session:
        await session.run(model.initialize)
        step = session.make_step([model.loss, model.right, model.train], model.feeds)
        for _ in range(steps):
            loss, right, _ = await step(*draw(random, seen, size))
            losses.append(float(loss))
            if len(losses) % every == 0:
                say(f"step {len(losses)}/{steps}: {np.mean(losses[-every:]):.3f} nats a node, {right:.0%} right")
        report, test = session.report(), session.make_step([model.right], model.feeds)
        shares = [(await test(*draw(random, unseen, size)))[0] for _ in range(8)]
    return losses, float(np.mean(shares)), report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("modulus", "units", "batch", "nodes"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Size, name))
    parser.add_argument("--steps", type=int, default=800)
    options = vars(parser.parse_args())
    steps = options.pop("steps")
    _, right, report = asyncio.run(train(Size(**options), steps))
    print(f"right of operations in trees never seen: {right:.1%}")
    print(*report.loops, sep="\n")


if __name__ == "__main__":
    main()
