"""TensorFlow as a peer: graph mode, version 1 control flow, a Session."""

from __future__ import annotations

import logging
import os
from contextlib import AsyncExitStack
from typing import Any


def graph_session(
    stack: AsyncExitStack, *, inter_op_threads: int = 0, rewriting: bool = True, devices: int = 1
) -> tuple[Any, Any]:
    """Return ``tensorflow.compat.v1`` and a Session on a new graph.

    Parameters
    ----------
    stack : AsyncExitStack
        Closes the session.
    inter_op_threads : int
        0 for TensorFlow's own choice.
    rewriting : bool
        False to run the graph as it was built: without Grappler, folding and merging.
    devices : int
        How many CPU devices the process has; the first session of a process decides.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    import tensorflow.compat.v1 as tf1

    tf1.disable_v2_behavior()
    tf1.disable_control_flow_v2()
    config = tf1.ConfigProto(inter_op_parallelism_threads=inter_op_threads, device_count={"CPU": devices})
    if not rewriting:
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = tf1.OptimizerOptions.L0
    session = tf1.Session(graph=tf1.Graph(), config=config)
    stack.callback(session.close)
    return tf1, session
