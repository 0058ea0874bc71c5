"""Edit distances between sequences, computed without the interpreter lock."""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

import numpy as np


cdef int64_t _distance(
    const int64_t* hypothesis, Py_ssize_t length, const int64_t* truth, Py_ssize_t count, int64_t* row
) noexcept nogil:
    """Fill rows of the table of Wagner and Fischer (1974) one over the other; `row` has room for ``count + 1``."""
    cdef Py_ssize_t i, j
    cdef int64_t diagonal, least
    for j in range(count + 1):
        row[j] = j
    for i in range(length):
        diagonal, row[0] = row[0], i + 1
        for j in range(count):
            least = min(diagonal + (truth[j] != hypothesis[i]), min(row[j], row[j + 1]) + 1)
            diagonal, row[j + 1] = row[j + 1], least
    return row[count]


def edit_distances(
    const int64_t[::1] hypotheses, const int64_t[::1] ends, const int64_t[::1] truths, const int64_t[::1] truth_ends
):
    """Count the insertions, deletions and replacements between pairs of sequences (Levenshtein, 1966).

    Parameters
    ----------
    hypotheses, truths : int64 array
        The symbols, as numbers, of all sequences, concatenated.
    ends, truth_ends : int64 array of shape [n]
        Where each sequence ends.

    Returns
    -------
    int64 array of shape [n]
    """
    cdef Py_ssize_t count = ends.shape[0], pair
    cdef int64_t[::1] found = np.zeros(count, np.int64)
    cdef int64_t longest = 0, start = 0, truth_start = 0
    if truth_ends.shape[0] != count or (count and (
        ends[count - 1] != hypotheses.shape[0] or truth_ends[count - 1] != truths.shape[0]
    )):
        raise ValueError("each pair of sequences needs two ends, the last ones those of all symbols")
    for pair in range(count):
        if ends[pair] < start or truth_ends[pair] < truth_start:
            raise ValueError("sequences end in their order")
        longest = max(longest, truth_ends[pair] - truth_start)
        start, truth_start = ends[pair], truth_ends[pair]
    cdef int64_t* row = <int64_t*>malloc((longest + 1) * sizeof(int64_t))
    if row == NULL:
        raise MemoryError
    start = truth_start = 0
    with nogil:
        for pair in range(count):
            found[pair] = _distance(
                &hypotheses[0] + start if ends[pair] > start else NULL, ends[pair] - start,
                &truths[0] + truth_start if truth_ends[pair] > truth_start else NULL, truth_ends[pair] - truth_start,
                row,
            )
            start, truth_start = ends[pair], truth_ends[pair]
        free(row)
    return np.asarray(found)
