"""Numbers of the elements in a ring, by which returned elements find their places."""

from __future__ import annotations

from bisect import bisect_left


class Numbers:
    """The numbers of the elements which leave a ring next: first the returned elements, then those which never left.

    Kernels in C take elements out without a call here, so the methods receive `left`: the number of departures so far
    less the number of returns.
    """

    __slots__ = ("_back", "_fresh", "_left")

    def __init__(self) -> None:
        self._back: list[range] = []  # of returned elements, in order, with a gap between each two
        self._fresh: int = 0  # number of the first element which never left
        self._left: int = 0  # `left` as of the last call

    def take(self, count: int, left: int) -> list[range]:
        """Return the numbers of the next `count` elements, which leave now."""
        if not self._back:  # almost always
            # Kernels took `left - self._left` fresh elements since the last call.
            start = self._fresh + left - self._left
            self._fresh, self._left = start + count, left + count
            return [range(start, start + count)] if count else []
        self._catch_up(left)
        self._left += count
        return self._next_numbers(count)

    def give_back(self, numbers: range, left: int) -> int:
        """Register returned elements; return the number of elements that precede their place."""
        self._catch_up(left)
        self._left -= len(numbers)
        index = bisect_left(self._back, numbers.start, key=lambda each: each.start)
        in_front = sum(map(len, self._back[:index]))
        if index < len(self._back) and self._back[index].start == numbers.stop:
            numbers = range(numbers.start, self._back.pop(index).stop)
        if index and self._back[index - 1].stop == numbers.start:
            index -= 1
            numbers = range(self._back.pop(index).start, numbers.stop)
        # Neighbours were merged above; a range that precedes the fresh elements joins them.
        if numbers.stop == self._fresh:
            self._fresh = numbers.start
        else:
            self._back.insert(index, numbers)
        return in_front

    def forget(self, left: int) -> None:
        """Start anew, without returned elements."""
        # `_fresh` goes on, so that no number of an earlier departure is used again.
        self._back, self._left = [], left

    def _catch_up(self, left: int) -> None:
        """Drop the numbers of elements which kernels have taken since the last call."""
        self._next_numbers(left - self._left)
        self._left = left

    def _next_numbers(self, count: int) -> list[range]:
        """Remove and return the next `count` numbers: those of returned elements first, then fresh ones."""
        found: list[range] = []
        while count and self._back:
            first = self._back[0]
            # A slice of a range is a range: the whole one, or its beginning.
            found.append(first[:count])
            count -= len(found[-1])
            if len(found[-1]) == len(first):
                del self._back[0]
            else:
                self._back[0] = first[len(found[-1]) :]
        if count:
            found.append(range(self._fresh, self._fresh + count))
            self._fresh += count
        return found
