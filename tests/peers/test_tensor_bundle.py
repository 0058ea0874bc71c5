"""Checkpoints that TensorFlow 1 has written are restored, those of variables in shards too."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tagloom as tg
from tagloom.training import Checkpointer

from tests.training.checkpoints.models import variables

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None,
    reason="TensorFlow is not installed; it is one of bench/requirements-peers.txt",
)
ROOT = Path(__file__).parents[2]
VALUES = {
    "scope/w": np.arange(12, dtype=np.float32).reshape(4, 3),
    "half": np.array([1.5, -2.0], np.float32),
    "count": np.int64(7),
    "text": np.array(["a", "ä"], np.dtypes.StringDType()),
    "table": np.arange(22, dtype=np.float64).reshape(11, 2),
}
WRITE = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
tf.Variable(np.arange(12, dtype=np.float32).reshape(4, 3), name="scope/w")
tf.Variable(tf.constant([1.5, -2.0], tf.bfloat16), name="half")
tf.Variable(np.int64(7), name="count")
tf.Variable(tf.constant(["a", "\\u00e4"]), name="text")
tf.get_variable("table", initializer=tf.constant(np.arange(22, dtype=np.float64).reshape(11, 2)),
                partitioner=tf.fixed_size_partitioner(3))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    print(tf.train.Saver().save(session, sys.argv[1], global_step=100, write_meta_graph=False))
"""
# TensorFlow is imported by processes of its own: it changes much of the one that it is in.
READ = """
import asyncio, sys
import numpy as np
import tagloom as tg
from tagloom.training import Checkpointer
from tests.peers.test_tensor_bundle import VALUES
from tests.training.checkpoints.models import variables

async def main(prefix):
    graph = variables(**{name: np.zeros_like(value) for name, value in VALUES.items()})
    async with tg.Session(graph) as session:
        try:
            await Checkpointer("unused").restore(session, prefix)
        except tg.CheckpointError as error:
            print(error.variable, error.wanted, error.got)
        found = await Checkpointer("unused").restore(session, prefix, cast=True)
        values = await session.read_variables()
        print(sorted(found.variables), found.cast, found.missing, found.unused)
    for name, value in VALUES.items():
        assert values[name].tolist() == value.tolist(), name
        assert values[name].dtype == value.dtype
    open(prefix + ".data-00000-of-00001", "wb").write(b"short")
    async with tg.Session(graph) as session:
        try:
            await Checkpointer("unused").restore(session, prefix, cast=True)
        except tg.CheckpointError as error:
            print("damaged:", error.file == prefix)

asyncio.run(main(sys.argv[1]))
"""


def run(program, *arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    options = {"env": environment, "capture_output": True, "text": True, "timeout": 600}
    done = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_checkpoint_of_tensorflow_is_restored(tmp_path):
    (prefix,) = run(WRITE, tmp_path / "model")
    refused, found, damaged = run(READ, prefix)
    assert refused == "half float32[2] bfloat16[2]"
    assert found == f"{sorted(VALUES)} ('half',) () ()"
    assert damaged == "damaged: True"


async def test_without_tensorflow_it_says_so(tmp_path, monkeypatch):
    (tmp_path / "model.index").write_bytes(b"")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    async with tg.Session(variables(w=1.0)) as session:
        with pytest.raises(tg.CheckpointError, match="read by TensorFlow") as caught:
            await Checkpointer(tmp_path).restore(session, tmp_path / "model")
    assert "npz" in caught.value.hint
