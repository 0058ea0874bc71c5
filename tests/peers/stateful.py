"""What is run many times in libraries that are built alike: an optimizer on given gradients, a metric on batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

RATE = 0.05


@dataclass(frozen=True)
class Training:
    """Steps of an optimizer with given gradients.

    Attributes
    ----------
    kind : str
        The optimizer's name in tagloom.
    options : mapping
        Beside the learning rate.
    start : array
        The variable's value before the first step.
    gradients : sequence
        For each step an array of that shape, or a pair of indices and rows.
    peer : str
        "tensorflow", "keras" or "torch".
    theirs : str, optional
        The optimizer's name there, if it is another; their_options likewise.
    """

    kind: str
    options: Mapping[str, Any]
    start: Any
    gradients: Sequence[Any]
    peer: str = "tensorflow"
    theirs: str = ""
    their_options: Mapping[str, Any] | None = None

    def as_theirs(self):
        """Return the optimizer's name and options there."""
        return self.theirs or self.kind, self.options if self.their_options is None else self.their_options


@dataclass(frozen=True)
class Metric:
    """Updates of a metric with batches, of which each is a list of arrays: the first arguments."""

    name: str
    batches: Sequence[Any]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    weights: Sequence[Any] | None = None


def train(library, make, initializer, session, training):
    """Return the variable's value after each step, in a library that has TensorFlow's functions.

    Parameters
    ----------
    library : module
    make : callable
        Returns the optimizer.
    initializer, session : callable
        Return what initializes all variables, and a session of the open graph.
    training : Training
    """
    with library.Graph().as_default():
        w = library.Variable(training.start)
        kind = training.start.dtype
        rows = library.placeholder(kind, [None, *training.start.shape[1:]])
        indices, whole = library.placeholder("int64", [None]), library.placeholder(kind, training.start.shape)
        slices = library.IndexedSlices(rows, indices, library.constant(np.array(training.start.shape)))
        optimizer = make()
        sparse, dense = (optimizer.apply_gradients([(g, w)]) for g in (slices, whole))
        initialize, values = initializer(), []
        with session() as running:
            running.run(initialize)
            for g in training.gradients:
                if isinstance(g, tuple):
                    running.run(sparse, {indices: g[0], rows: g[1]})
                else:
                    running.run(dense, {whole: g})
                values.append(running.run(w))
            return values


def measure(library, initializer, session, metric):
    """Return what each update of a metric gives, and its value at the end; arguments as of `train`."""
    with library.Graph().as_default():
        first = metric.batches[0]
        tensors = [library.placeholder(x.dtype, x.shape) for x in first]
        keywords = dict(metric.keywords)
        if metric.weights is not None:
            keywords["weights"] = library.placeholder("float32", metric.weights[0].shape)
        value, update = getattr(library.metrics, metric.name)(*tensors, **keywords)
        initialize, found = initializer(), []
        with session() as running:
            running.run(initialize)
            for k, batch in enumerate(metric.batches):
                feeds = dict(zip(tensors, batch))
                if metric.weights is not None:
                    feeds[keywords["weights"]] = metric.weights[k]
                found.append(running.run(update, feeds))
            return [*found, running.run(value)]
