"""TensorFlow's results of calls: lists of calls on standard input, lists of arrays on standard output, pickled."""

import logging
import os
import pickle
import sys


def main():
    """Answer lists of calls until the input ends."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Of some convolutions with one window in a row and a stride of 2 there, oneDNN reads memory that nobody wrote, and
    # its kernels for quantized numbers round otherwise than is documented.
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    import tensorflow.compat.v1 as tf1

    tf1.disable_v2_behavior()
    while True:
        try:
            calls = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump([results(tf1, call) for call in calls], sys.stdout.buffer)
        sys.stdout.buffer.flush()


def results(tf1, call):
    """Return the results and gradients of one call, or the text of the error."""
    from tests.peers.calls import build

    with tf1.Graph().as_default():
        try:
            fetches, feeds = build(tf1, *call.as_theirs(), call)
            with tf1.Session() as session:
                return session.run(fetches, feeds)
        except Exception as error:  # whatever it is, the test that compares says so
            return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
