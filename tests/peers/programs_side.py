"""TensorFlow's results of programs: names with seeds on standard input, results on standard output, pickled."""

import logging
import os
import pickle
import sys
from types import SimpleNamespace


def main():
    """Answer lists of names and seeds until the input ends."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    os.environ["TF_USE_LEGACY_KERAS"] = "1"  # whose layers take graphs
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    from tests.peers.programs import answer

    library = tensorflow()
    while True:
        try:
            questions = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump([told(answer, library, *question) for question in questions], sys.stdout.buffer)
        sys.stdout.buffer.flush()


def told(answer, library, name, seed):
    """Return the answer, or the text of an error of the program itself."""
    try:
        return answer(library, name, seed)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def tensorflow():
    """Return TensorFlow as programs see it."""
    import tensorflow.compat.v1 as tf1
    from tensorflow.python.ops import confusion_matrix, weights_broadcast_ops

    from tests.peers.programs import Library

    tf1.disable_v2_behavior()
    functions = {
        "broadcast_weights": weights_broadcast_ops.broadcast_weights,
        "assert_broadcastable": weights_broadcast_ops.assert_broadcastable,
        "remove_squeezable_dimensions": confusion_matrix.remove_squeezable_dimensions,
    }
    return Library(tf1, layers(tf1), tables(tf1), data(tf1), functions)


def layers(tf1):
    """Return makers of layers."""
    keras = tf1.keras.layers

    def pool(kind, rank, window, stride, padding):
        return getattr(keras, f"{kind}Pooling{rank}D")(window, stride, padding)

    def transposed(rank, filters, window, stride, padding):
        return getattr(keras, f"Conv{rank}DTranspose")(filters, window, stride, padding)

    def separable(rank, filters, window, stride, multiplier, padding):
        return getattr(keras, f"SeparableConv{rank}D")(filters, window, stride, padding, depth_multiplier=multiplier)

    return SimpleNamespace(pool=pool, transposed=transposed, separable=separable)


def tables(tf1):
    """Return makers of tables."""
    from tensorflow.python.ops import lookup_ops

    def constant(keys, values, default):
        kinds = ["string" if each.dtype == object else each.dtype for each in (keys, values)]
        content = tf1.lookup.KeyValueTensorInitializer(keys.tolist(), values.tolist(), *kinds)
        return tf1.lookup.StaticHashTable(content, default)

    def mutable(key, value, default):
        return lookup_ops.MutableHashTable(tf1.as_dtype(key), tf1.as_dtype(value), default)

    return SimpleNamespace(
        constant=constant,
        mutable=mutable,
        index_of=lookup_ops.index_table_from_tensor,
        words_of=lookup_ops.index_to_string_table_from_tensor,
    )


def data(tf1):
    """Return readers of pipelines and of files."""
    import numpy as np

    def elements(dataset):
        element = tf1.data.make_one_shot_iterator(dataset).get_next()
        found = []
        with tf1.Session() as session:
            while True:
                try:
                    found.append(session.run(element))
                except tf1.errors.OutOfRangeError:
                    return found

    def shard(count, parts, index):
        return np.array(elements(tf1.data.Dataset.range(count).shard(parts, index)), np.int64)

    def records(paths, size, header, footer):
        return elements(tf1.data.FixedLengthRecordDataset(paths, size, header, footer))

    def read(paths, size, header, footer):
        files = tf1.FIFOQueue(9, "string", shapes=[[]])
        put, end = files.enqueue_many([paths]), files.close()
        _, record = tf1.FixedLengthRecordReader(size, header, footer).read(files)
        found = []
        with tf1.Session() as session:
            session.run(put)
            session.run(end)
            while True:
                try:
                    found.append(session.run(record))
                except tf1.errors.OutOfRangeError:
                    return found

    return SimpleNamespace(shard=shard, records=records, read=read)


if __name__ == "__main__":
    main()
