"""Train a convolutional network on scikit-learn's handwritten digits: 98 of 100 that it has not seen are read right.

    python examples/digits_convnet.py
    python examples/digits_convnet.py --epochs 5

The images are 8 x 8. Two layers of convolutions, pooling and two dense layers; a step takes a batch, dropout and the
Adam update included. The digits come with scikit-learn (pip install scikit-learn).
"""

import argparse
import asyncio
from dataclasses import dataclass

import numpy as np
import tagloom as tg
from tagloom import nn
from tagloom.training import AdamOptimizer


@dataclass(frozen=True)
class Size:
    """Of the network and its training."""

    filters: int = 32
    hidden: int = 128
    batch: int = 32
    epochs: int = 20
    rate: float = 1e-3


@dataclass(frozen=True)
class Digits:
    """Images in [0, 1] of shape [count, 8, 8, 1], and what they show; the last quarter is held out."""

    images: np.ndarray
    labels: np.ndarray
    held_out_images: np.ndarray
    held_out_labels: np.ndarray


def load_digits(seed=0):
    """Return scikit-learn's digits in an order that the seed gives."""
    from sklearn import datasets

    found = datasets.load_digits()
    order = np.random.default_rng(seed).permutation(len(found.target))
    images = (found.images[order, :, :, None] / 16).astype(np.float32)
    labels = found.target[order].astype(np.int32)
    cut = len(labels) * 3 // 4
    return Digits(images[:cut], labels[:cut], images[cut:], labels[cut:])


class Network(nn.Module):
    """Reads digits: logits of the ten classes for each image."""

    def __init__(self, size):
        super().__init__()
        self.first = nn.Conv2D(size.filters, 3, padding="SAME", activation=tg.relu, input_size=1)
        self.second = nn.Conv2D(2 * size.filters, 3, padding="SAME", activation=tg.relu, input_size=size.filters)
        self.flatten = nn.Flatten()
        self.hidden = nn.Dense(size.hidden, activation=tg.relu)
        self.dropout = nn.Dropout(0.4)
        self.logits = nn.Dense(10)

    def forward(self, images, training=False):
        x = tg.max_pool(self.second(self.first(images)), 2, 2, "VALID")
        x = self.hidden(
            tg.reshape(
                x, [-1, int(np.prod(x.shape.as_tuple()[1:] if x.shape.is_fully_known else x.shape[1:].as_tuple()))]
            )
        )
        return self.logits(self.dropout(x, training=training))


async def train(digits, size, say=print):
    """Train and return the share of the digits held out that are read right."""
    with tg.Graph().as_default() as graph:
        images, labels = tg.placeholder("float32", [None, 8, 8, 1]), tg.placeholder("int32", [None])
        network = Network(size)
        logits = network(images, training=True)
        loss = tg.reduce_mean(tg.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        update = AdamOptimizer(size.rate).minimize(loss)
        right = tg.equal(tg.argmax(network(images), 1, output_type="int32"), labels)
        accuracy = tg.reduce_mean(tg.cast(right, "float32"))
        initialize = tg.global_variables_initializer()
    random = np.random.default_rng(1)
    async with tg.Session(graph) as session:
        await session.run(initialize)
        step, measure = (
            session.make_step([loss, update], [images, labels]),
            session.make_step(accuracy, [images, labels]),
        )
        for epoch in range(size.epochs):
            order = random.permutation(len(digits.labels))
            losses = []
            for start in range(0, len(order) - size.batch + 1, size.batch):
                chosen = order[start : start + size.batch]
                losses.append((await step(digits.images[chosen], digits.labels[chosen]))[0])
            found = float(await measure(digits.held_out_images, digits.held_out_labels))
            say(f"epoch {epoch + 1}: loss {np.mean(losses):.3f}, {found:.1%} of the digits held out are right")
        return found


def main():
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=Size.epochs)
    options = parser.parse_args()
    asyncio.run(train(load_digits(), Size(epochs=options.epochs)))


if __name__ == "__main__":
    main()
