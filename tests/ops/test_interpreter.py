"""Work that keeps the interpreter lock, in blocks: what comes out does not depend on them."""

import numpy as np
import pytest
import tagloom as tg
from tagloom.ops.array.distinct import distinct_rows
from tagloom.ops.support.interpreter import BLOCK, iterate_elements, repeated_numbers, running_count

TEXTS = [f"{i % 7}-{i}" for i in range(2 * BLOCK + 3)]


def test_elements_are_those_of_the_array():
    x = np.arange(6 * BLOCK).reshape(3, -1).T
    assert list(iterate_elements(x)) == x.ravel().tolist()
    assert list(iterate_elements(x[:0])) == []
    assert list(iterate_elements(np.array(7))) == [7]


@pytest.mark.parametrize("counts", [[], [0, 0], [3], [0, 2, 0, 0, 1, 4, 0], [5, 0, 1]])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_repeated_numbers(counts, dtype):
    counts = np.array(counts, dtype)
    np.testing.assert_array_equal(repeated_numbers(counts), np.repeat(np.arange(counts.size), counts))


def test_running_count():
    flags = np.random.default_rng(1).random(1000) < 0.3
    np.testing.assert_array_equal(running_count(np, flags), np.cumsum(flags))


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda x: tg.string_length(x), [len(t) for t in TEXTS]),
        (lambda x: tg.string_upper(x), TEXTS),
        (lambda x: tg.substr(x, 0, 1), [t[0] for t in TEXTS]),
        (lambda x: tg.reduce_join(x, separator=","), ",".join(TEXTS)),
        (lambda x: tg.reduce_join(tg.stack([x, x], 1), 1), [t + t for t in TEXTS]),
        (lambda x: tg.regex_replace(x, "-.*", ""), [t[0] for t in TEXTS]),
        (lambda x: tg.regex_full_match(x, "3-.*"), [t[0] == "3" for t in TEXTS]),
        (
            lambda x: tg.string_to_number(tg.regex_replace(x, "-", "."), "float64"),
            [float(t.replace("-", ".")) for t in TEXTS],
        ),
        (lambda x: tg.string_split(x, "-").values, [part for t in TEXTS for part in t.split("-")]),
        (lambda x: tg.string_split(x, "-").indices, [[i, j] for i in range(len(TEXTS)) for j in range(2)]),
        (lambda x: tg.string_split(x, "-").dense_shape, [len(TEXTS), 2]),
    ],
)
def test_more_strings_than_a_block(build, expected):
    found = tg.function(lambda: build(tg.constant(TEXTS))).sync()
    assert found.tolist() == expected


def test_edit_distances_are_those_of_the_recursion():
    random = np.random.default_rng(3)

    def distance(a, b):
        if not a or not b:
            return len(a) + len(b)
        return min(distance(a[1:], b) + 1, distance(a, b[1:]) + 1, distance(a[1:], b[1:]) + (a[0] != b[0]))

    words = [["".join(random.choice(list("abc"), random.integers(0, 5))) for _ in range(40)] for _ in range(2)]

    def sparse(texts):
        places = [[i, j] for i, text in enumerate(texts) for j in range(len(text))]
        letters = np.array([letter for text in texts for letter in text], np.dtypes.StringDType())
        order = random.permutation(len(places))  # they need not come in order
        return np.array(places, np.int64)[order], letters[order], [len(texts), 5]

    parts = [sparse(texts) for texts in words]
    found = tg.function(lambda: tg.edit_distance(*parts, normalize=False)).sync()
    assert found.tolist() == [distance(a, b) for a, b in zip(*words, strict=True)]


@pytest.mark.parametrize("place", [-1, 1])
def test_an_edit_distance_of_a_sequence_that_is_not_there(place):
    parts = ([[place, 0]], ["a"], [1, 1])
    with pytest.raises(tg.OpError, match=r"index of a sequence is not in \[0, 1\)"):
        tg.function(lambda: tg.edit_distance(parts, parts)).sync()


def test_distinct_rows_number_each_row():
    random = np.random.default_rng(5)
    for x in (random.integers(0, 50, 400).astype(np.int32), random.integers(-3, 3, (400, 3))):
        rows, numbers, count = tg.function(lambda x=x: list(distinct_rows(tg.constant(x)))).sync()
        expected, inverse = np.unique(x, axis=0, return_inverse=True)
        np.testing.assert_array_equal(rows, expected)
        np.testing.assert_array_equal(numbers, inverse.reshape(-1))
        assert count == len(expected)
        assert rows.dtype == numbers.dtype == x.dtype


def test_fed_strings_are_not_copied():
    from tagloom.base.array_like import as_fed_array
    from tagloom.base.dtypes import string

    x = np.array(TEXTS, np.dtypes.StringDType())
    assert as_fed_array(x, string) is x
