"""Programs that are more than a call do what they do in TensorFlow, where that is installed."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
import tagloom as tg

from tests.peers.other_side import Peer, needs
from tests.peers.programs import PROGRAMS, Library, answer

COUNT = int(os.environ.get("TAGLOOM_CALLS", "400")) // 4


def layers():
    def pool(kind, rank, window, stride, padding):
        return getattr(tg.nn, f"{kind}Pooling{rank}D")(window, stride, padding.upper())

    def transposed(rank, filters, window, stride, padding):
        return getattr(tg.nn, f"Conv{rank}DTranspose")(filters, window, stride, padding.upper())

    def separable(rank, filters, window, stride, multiplier, padding):
        make = getattr(tg.nn, f"SeparableConv{rank}D")
        return make(filters, window, stride, padding.upper(), depth_multiplier=multiplier)

    return SimpleNamespace(pool=pool, transposed=transposed, separable=separable)


def tables():
    return SimpleNamespace(
        constant=lambda keys, values, default: tg.HashTable(keys, values, default),
        mutable=lambda key, value, default: tg.MutableHashTable(key, value, default),
        index_of=tg.index_table_from_tensor,
        words_of=tg.index_to_string_table_from_tensor,
    )


def data():
    def elements(tensor, *first):
        found = []
        with tg.SyncSession(tg.get_default_graph()) as session:
            for operation in first:
                session.run(operation)
            while True:
                try:
                    found.append(session.run(tensor))
                except tg.QueueClosed:
                    return found

    def shard(count, parts, index):
        numbers = tg.data.from_arrays(np.arange(count))
        return np.array(elements(numbers.shard(parts, index).next()), np.int64)

    def records(paths, size, header, footer):
        record = tg.data.from_fixed_length_records(paths, size, header, footer).next()
        return [found.tobytes() for found in elements(record)]

    def read(paths, size, header, footer):
        files = tg.FIFOQueue(9, "string", shapes=[[]])
        put, end = files.enqueue_many([paths]), files.close()
        _, record = tg.compat.tf1.FixedLengthRecordReader(size, header, footer).read(files)
        return [found.tobytes() for found in elements(record, put, end)]

    return SimpleNamespace(shard=shard, records=records, read=read)


NAMES = ("broadcast_weights", "assert_broadcastable", "remove_squeezable_dimensions")
OURS = Library(tg, layers(), tables(), data(), {name: getattr(tg, name) for name in NAMES})


@pytest.fixture(scope="module")
def tensorflow():
    """A process that has TensorFlow."""
    peer = Peer("programs_side")
    yield peer
    peer.close()


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_programs_run(name):
    for seed in range(3):
        assert answer(OURS, name, seed) is not None


@needs("tensorflow")
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_programs_do_what_they_do_in_tensorflow(tensorflow, name):
    questions = [(name, seed) for seed in range(COUNT)]
    differences = []
    for (_, seed), theirs in zip(questions, tensorflow.ask(questions), strict=True):
        ours = answer(OURS, name, seed)
        if isinstance(theirs, str) or not alike(ours, theirs):
            differences.append(f"{name} {seed}: {ours} and not {theirs}")
    assert not differences, "\n".join(differences[:5])


def alike(ours, theirs):
    """Return whether two results are alike: numbers nearly, texts and refusals exactly."""
    if isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(theirs, (str, bytes)) or isinstance(ours, (str, bytes)):
        return ours == theirs
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    return ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=1e-4, atol=1e-4)
