"""TensorFlow's names in programs of variable scopes: programs on standard input, lists on standard output, pickled."""

import logging
import os
import pickle
import sys


def main():
    """Answer one list of programs."""
    programs = pickle.load(sys.stdin.buffer)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    import tensorflow.compat.v1 as tf1

    from tests.peers.scopes import run

    tf1.disable_v2_behavior()
    found = []
    for statements in programs:
        with tf1.Graph().as_default():
            found.append(run(tf1, tf1, statements))
    pickle.dump(found, sys.stdout.buffer)


if __name__ == "__main__":
    main()
