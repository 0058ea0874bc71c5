"""Beam search for the most probable labels of a reading with blanks (Graves and Jaitly, 2014), as TensorFlow does it.

A prefix has two probabilities: of its readings that end in a blank, and of its other readings. A prefix that has left
the beam has neither, although longer prefixes that begin with the same labels may still be in the beam.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from ..support.literals import Array

_NEVER = -np.inf


@dataclass(slots=True, eq=False)
class _Prefix:
    """Node in the tree of prefixes: its last label, and log probabilities now and in the time step before."""

    parent: _Prefix | None = None
    label: int = -1
    children: dict[int, _Prefix] = field(default_factory=dict)
    blank: float = _NEVER
    labelled: float = _NEVER
    total: float = _NEVER
    old_blank: float = _NEVER
    old_total: float = _NEVER

    def begin(self) -> None:
        self.old_blank, self.old_total = self.blank, self.total

    def leave(self) -> None:
        self.blank = self.labelled = self.total = _NEVER

    def go_on(self, step: Array) -> None:
        """Extend the readings by a time step: a blank, the last label again, or the last label after the parent."""
        if self.parent is not None:
            if self.parent.total > _NEVER:
                same = self.label == self.parent.label
                # Equal labels are two only with a blank between them.
                came = self.parent.old_blank if same else self.parent.old_total
                self.labelled = float(np.logaddexp(self.labelled, came))
            self.labelled += float(step[self.label])
        self.blank = self.old_total + float(step[-1])
        self.total = float(np.logaddexp(self.blank, self.labelled))

    def labels(self, merge_repeated: bool) -> list[int]:
        found: list[int] = []
        prefix, last = self, -1
        while prefix.parent is not None:
            # Repeated labels that a blank separated: TensorFlow merges these too if asked.
            if not merge_repeated or prefix.label != last:
                found.append(prefix.label)
            prefix, last = prefix.parent, prefix.label
        return found[::-1]


class _Beam:
    """Heap of the best prefixes, the worst of them first.

    Parameters
    ----------
    width : int
        Largest number of prefixes.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.number = 0
        self.heap: list[tuple[float, int, _Prefix]] = []

    def takes(self, total: float) -> bool:
        return total > self.least()

    def least(self) -> float:
        return self.heap[0][0] if len(self.heap) == self.width else _NEVER

    def add(self, prefix: _Prefix) -> None:
        self.number -= 1  # of equal totals, the prefix added last leaves first
        entry = (prefix.total, self.number, prefix)
        if len(self.heap) < self.width:
            heapq.heappush(self.heap, entry)
        else:
            heapq.heapreplace(self.heap, entry)[2].leave()

    def best(self) -> list[_Prefix]:
        return [prefix for _, _, prefix in sorted(self.heap, key=lambda entry: entry[:2], reverse=True)]


def _add_children(beam: _Beam, prefix: _Prefix, step: Array) -> None:
    """Add the children of a prefix to the beam, as far as they are good enough."""
    # No child is more probable than its prefix was.
    if not beam.takes(prefix.old_total):
        return
    totals = step[:-1] + prefix.old_total
    if prefix.label >= 0:
        # As in `go_on`: the same label again needs a blank in between.
        totals[prefix.label] = step[prefix.label] + prefix.old_blank
    for label in np.flatnonzero(totals > beam.least()).tolist():
        child, total = prefix.children.get(label), float(totals[label])
        # A child in the beam has counted its parent in `go_on`. The beam's least total rises: each child asks again.
        if (child is not None and child.total > _NEVER) or not beam.takes(total):
            continue
        if child is None:
            child = prefix.children[label] = _Prefix(prefix, label)
        child.blank, child.labelled, child.total = _NEVER, total, total
        beam.add(child)


def search_beams(logits: Array, beam_width: int, top_paths: int, merge_repeated: bool) -> list[tuple[list[int], float]]:
    """Return the most probable labels and their log probabilities, the best first.

    Parameters
    ----------
    logits : array of shape [time, classes]
        The blank is the last class.
    beam_width, top_paths : int
        Number of prefixes kept, and returned.
    merge_repeated : bool
        Leave repeated labels out of the results.
    """
    x = logits.astype(np.float64)
    steps = x - np.logaddexp.reduce(x, axis=1, keepdims=True)
    beam = _Beam(beam_width)
    beam.add(_Prefix(blank=0.0, total=0.0))
    for step in steps:
        # Best first, so that the least total of the new beam is high before children are tried.
        prefixes, beam = beam.best(), _Beam(beam_width)
        # All begin before any goes on, because `go_on` reads the values of the parent's previous step.
        for prefix in prefixes:
            prefix.begin()
        for prefix in prefixes:
            prefix.go_on(step)
            beam.add(prefix)
        for prefix in prefixes:
            _add_children(beam, prefix, step)
    found = beam.best()[:top_paths]
    if len(found) < top_paths:
        raise ValueError(f"ctc_beam_search_decoder: there are {len(found)} paths, and top_paths is {top_paths}")
    return [(prefix.labels(merge_repeated), prefix.total) for prefix in found]
