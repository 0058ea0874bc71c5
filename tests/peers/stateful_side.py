"""The results of TensorFlow, Keras and PyTorch: pickled runs on standard input, pickled results on standard output."""

import functools
import logging
import os
import pickle
import sys


def main():
    """Answer one list of runs."""
    runs = pickle.load(sys.stdin.buffer)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    pickle.dump([results(run) for run in runs], sys.stdout.buffer)


def results(run):
    """Return the results of one run, or the text of the error."""
    try:
        if getattr(run, "peer", "tensorflow") == "tensorflow":
            return of_tensorflow(run)
        return of_torch(run) if run.peer == "torch" else of_keras(run)
    except Exception as error:  # whatever it is, the test that compares says so
        return f"{type(error).__name__}: {error}"


def of_tensorflow(run):
    """Run an optimizer or a metric of TensorFlow 1."""
    import tensorflow.compat.v1 as tf1

    from tests.peers.stateful import RATE, Metric, measure, train

    if isinstance(run, Metric):
        return measure(tf1, tf1.local_variables_initializer, tf1.Session, run)
    kind, options = run.as_theirs()
    make = functools.partial(getattr(tf1.train, kind), RATE, **options)
    return train(tf1, make, tf1.global_variables_initializer, tf1.Session, run)


def of_torch(run):
    """Run an optimizer of PyTorch."""
    import torch

    from tests.peers.stateful import RATE

    kind, options = run.as_theirs()
    w = torch.nn.Parameter(torch.tensor(run.start))
    optimizer, values = getattr(torch.optim, kind)([w], RATE, **options), []
    for g in run.gradients:
        w.grad = torch.tensor(g)
        optimizer.step()
        values.append(w.detach().numpy().copy())
    return values


def of_keras(run):
    """Run an optimizer of Keras."""
    import keras

    from tests.peers.stateful import RATE

    keras.backend.set_floatx("float64")
    kind, options = run.as_theirs()
    w, values = keras.Variable(run.start, dtype="float64"), []
    optimizer = getattr(keras.optimizers, kind)(RATE, **options)
    optimizer.build([w])
    for g in run.gradients:
        optimizer.apply([keras.ops.convert_to_tensor(g)], [w])
        values.append(keras.ops.convert_to_numpy(w))
    return values


if __name__ == "__main__":
    main()
