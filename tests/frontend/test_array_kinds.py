"""TensorArrays of unusual dtypes and sizes."""

import pytest
import tagflow as tg


@pytest.mark.parametrize("executor", ["machine", "reference"])
def test_arrays_of_strings(executor):
    with tg.Graph().as_default() as graph:
        words = tg.constant(["a", "b", "c"])
        array = tg.TensorArray("string", 3).unstack(words)
        joined = tg.scan(lambda a, word: a + word, words)
        doubled = tg.map_fn(lambda word: word + word, tg.constant([["a"], ["b"]]))
    with tg.SyncSession(graph, executor=executor) as session:
        found = session.run([array.read(1), joined, doubled])
    assert [value.tolist() for value in found] == ["b", ["a", "ab", "abc"], [["aa"], ["bb"]]]


def test_a_negative_size_is_refused():
    with tg.Graph().as_default() as graph:
        size = tg.TensorArray("float32", tg.placeholder_with_default(-1, [])).size()
    with tg.SyncSession(graph) as session, pytest.raises(tg.TensorArrayError, match="is negative"):
        session.run(size)
