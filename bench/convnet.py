"""One training step of a convolutional network, and of single layers of AlexNet and GoogLeNet."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from .experiment import Case, Experiment, Step
from .tensorflow_session import graph_session

CLASSES = 10
NETWORK = {"network": "six layers", "batch": 32, "size": 32, "channels": 3}
# Window, stride, filters; "pool" halves the size; a number alone is a dense layer.
LAYERS: tuple[Any, ...] = ((3, 1, 32), (3, 1, 32), "pool", (3, 1, 64), (3, 1, 64), "pool", 256, CLASSES)
ALEXNET = {  # name: batch, size, channels, window, stride, filters, groups
    "alexnet conv1": (16, 227, 3, 11, 4, 96, 1),
    "alexnet conv2": (16, 27, 96, 5, 1, 256, 2),
    "alexnet conv3": (16, 13, 256, 3, 1, 384, 1),
    "alexnet conv4": (16, 13, 384, 3, 1, 384, 2),
    "alexnet conv5": (16, 13, 384, 3, 1, 256, 2),
}
GOOGLENET = {
    "googlenet conv1": (16, 224, 3, 7, 2, 64, 1),
    "googlenet conv2": (16, 56, 64, 3, 1, 192, 1),
    "googlenet 3a 1x1": (16, 28, 192, 1, 1, 64, 1),
    "googlenet 3a 3x3": (16, 28, 96, 3, 1, 128, 1),
    "googlenet 3a 5x5": (16, 28, 16, 5, 1, 32, 1),
    "googlenet 4a 3x3": (16, 14, 96, 3, 1, 208, 1),
    "googlenet 5a 3x3": (16, 7, 160, 3, 1, 320, 1),
}
SINGLE = {**ALEXNET, **GOOGLENET}


@dataclass(frozen=True)
class Problem:
    """The same numbers for every engine, all float32, images with channels last.

    Attributes
    ----------
    images : array of shape (batch, size, size, channels)
    labels : int32 array of shape (batch,)
    weights : list of array
        Filters of shape (window, window, channels, filters), matrices of dense layers, and a bias for each.
    """

    images: np.ndarray
    labels: np.ndarray
    weights: list[np.ndarray]


def layers(case: Case) -> tuple[Any, ...]:
    """Return what a case is made of."""
    if case["network"] not in SINGLE:
        return LAYERS
    _, _, _, window, stride, filters, _ = SINGLE[case["network"]]
    return ((window, stride, filters),)


def problem(case: Case) -> Problem:
    """Draw the numbers of a case."""
    random = np.random.default_rng(0)
    batch, size, channels = (case[key] for key in ("batch", "size", "channels"))
    groups = SINGLE[case["network"]][-1] if case["network"] in SINGLE else 1
    images = random.standard_normal((batch, size, size, channels), np.float32)
    weights = []
    for layer in layers(case):
        if layer == "pool":
            size //= 2
            continue
        window, stride, filters = layer if isinstance(layer, tuple) else (size, 1, layer)
        inner = window * window * channels // groups
        kernel = random.standard_normal((inner, filters), np.float32) / np.float32(np.sqrt(inner / 2))
        if isinstance(layer, tuple):
            kernel = kernel.reshape(window, window, channels // groups, filters)
        weights += [kernel, random.standard_normal(filters, np.float32) / np.float32(10)]
        size = -(-size // stride) if isinstance(layer, tuple) else 1
        channels = filters
    return Problem(images, random.integers(0, CLASSES, batch).astype(np.int32), weights)


def loss_of(ops: Any, nn: Any, case: Case, weights: list[Any], images: Any, labels: Any) -> Any:
    """Build the loss with the functions that TensorFlow 1 and tagloom share; of a single layer its mean square."""
    x, flat = images, False
    found = iter(weights)
    for layer in layers(case):
        if layer == "pool":
            x = nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        elif isinstance(layer, tuple):
            kernel, bias, stride = next(found), next(found), layer[1]
            x = nn.relu(nn.bias_add(nn.conv2d(x, kernel, [1, stride, stride, 1], "SAME"), bias))
        else:
            kernel, bias = next(found), next(found)
            x = ops.matmul(x if flat else ops.reshape(x, [case["batch"], -1]), kernel) + bias
            x, flat = (x if layer == CLASSES else nn.relu(x)), True
    if case["network"] in SINGLE:
        return ops.reduce_mean(ops.square(x))
    return ops.reduce_mean(nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x))


async def tagloom(case: Case, stack: AsyncExitStack) -> Step:
    """Train with tagloom."""
    import tagloom as tg

    given = problem(case)
    with tg.Graph().as_default() as graph:
        images = tg.placeholder("float32", given.images.shape)
        labels = tg.placeholder("int32", given.labels.shape)
        weights = [tg.Variable(w) for w in given.weights]
        loss = loss_of(tg, tg, case, weights, images, labels)
        fetches = [loss, *tg.gradients(loss, weights)]
        initialize = tg.global_variables_initializer()
    session = await stack.enter_async_context(tg.Session(graph))
    await session.run(initialize)
    step = session.make_step(fetches, [images, labels])
    return lambda: step(given.images, given.labels)


def tf(case: Case, stack: AsyncExitStack) -> Step:
    """Train with TensorFlow 1's graph and gradients."""
    given = problem(case)
    tf1, session = graph_session(stack)
    with session.graph.as_default():
        images = tf1.placeholder("float32", given.images.shape)
        labels = tf1.placeholder("int32", given.labels.shape)
        weights = [tf1.Variable(w) for w in given.weights]
        loss = loss_of(tf1, tf1.nn, case, weights, images, labels)
        fetches = [loss, *tf1.gradients(loss, weights)]
        session.run(tf1.global_variables_initializer())
    step = session.make_callable(fetches, feed_list=[images, labels])
    return lambda: step(given.images, given.labels)


def torch(case: Case, stack: AsyncExitStack) -> Step:
    """Train with PyTorch: eager, channels in the order in which they lie, padding as SAME has it."""
    import torch

    given, groups = problem(case), SINGLE[case["network"]][-1] if case["network"] in SINGLE else 1
    f = torch.nn.functional
    images = torch.from_numpy(given.images).permute(0, 3, 1, 2)
    labels = torch.from_numpy(given.labels).long()
    kernels = [torch.from_numpy(w) if w.ndim < 4 else torch.from_numpy(w).permute(3, 2, 0, 1) for w in given.weights]
    weights = [k.contiguous(memory_format=torch.channels_last) if k.ndim == 4 else k for k in kernels]
    for weight in weights:
        weight.requires_grad_()

    def step() -> list[np.ndarray]:
        x, found = images, iter(weights)
        for layer in layers(case):
            if layer == "pool":
                x = f.max_pool2d(x, 2)
            elif isinstance(layer, tuple):
                x = f.relu(convolve(f, x, next(found), next(found), layer[1], groups))
            else:
                x = x if x.ndim == 2 else x.permute(0, 2, 3, 1).reshape(len(x), -1)
                x = x @ next(found) + next(found)
                x = x if layer == CLASSES else f.relu(x)
        loss = x.square().mean() if case["network"] in SINGLE else f.cross_entropy(x, labels)
        found = torch.autograd.grad(loss, weights)
        back = [g.permute(2, 3, 1, 0) if g.ndim == 4 else g for g in found]
        return [v.detach().numpy() for v in (loss, *back)]

    return step


def convolve(f: Any, x: Any, kernel: Any, bias: Any, stride: int, groups: int) -> Any:
    """Convolve with TensorFlow's SAME padding, which may have one row more behind than in front."""
    totals = [
        max(0, (-(-n // stride) - 1) * stride + k - n) for n, k in zip(x.shape[2:], kernel.shape[2:], strict=True)
    ]
    if any(total % 2 for total in totals):
        (top, left), (below, right) = ([t // 2 for t in totals], [t - t // 2 for t in totals])
        return f.conv2d(f.pad(x, (left, right, top, below)), kernel, bias, stride, groups=groups)
    return f.conv2d(x, kernel, bias, stride, tuple(t // 2 for t in totals), groups=groups)


EXPERIMENT = Experiment(
    name="convnet",
    cases=(
        NETWORK,
        *({"network": name, "batch": n, "size": size, "channels": c} for name, (n, size, c, *_) in SINGLE.items()),
    ),
    quick_cases=(NETWORK,),
    engines={"tagloom": tagloom, "tf": tf, "torch": torch},
    metric="steps_per_second",
    tolerance=1e-3,
    unable=lambda case: (
        {"tf": "has no gradient of convolutions in groups on CPUs"}
        if case["network"] in SINGLE and SINGLE[case["network"]][-1] > 1
        else {}
    ),
)
