"""TensorFlow as a peer: graph mode, version 1 control flow, a Session."""

from __future__ import annotations

import logging
import os
from contextlib import AsyncExitStack
from typing import Any


def graph_session(stack: AsyncExitStack, *, inter_op_threads: int = 0) -> tuple[Any, Any]:
    """Return ``tensorflow.compat.v1`` and a Session on a new graph, closed with `stack`; 0 threads: its own choice."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    import tensorflow.compat.v1 as tf1

    tf1.disable_v2_behavior()
    tf1.disable_control_flow_v2()
    config = tf1.ConfigProto(inter_op_parallelism_threads=inter_op_threads)
    session = tf1.Session(graph=tf1.Graph(), config=config)
    stack.callback(session.close)
    return tf1, session
