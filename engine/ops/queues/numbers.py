"""Numbers of the elements in a ring, by which what comes back finds its place."""

from __future__ import annotations

from bisect import bisect_left


class Numbers:
    """Which elements are next to leave a ring: some that had left and came back, then those that never left.

    Kernels in C take elements out without a word, so all methods are told how many have left so far, less those that
    came back.
    """

    __slots__ = ("_back", "_fresh", "_left")

    def __init__(self) -> None:
        self._back: list[range] = []  # of those that came back, in order, with a gap between each two
        self._fresh: int = 0  # the first that never left
        self._left: int = 0  # how many had left when this was last told

    def take(self, count: int, left: int) -> list[range]:
        """Return the numbers of the next elements, which leave now."""
        if not self._back:  # almost always
            start = self._fresh + left - self._left
            self._fresh, self._left = start + count, left + count
            return [range(start, start + count)] if count else []
        self._catch_up(left)
        self._left += count
        return self._next(count)

    def give_back(self, numbers: range, left: int) -> int:
        """Note that elements come back; return how many there are in front of their place."""
        self._catch_up(left)
        self._left -= len(numbers)
        index = bisect_left(self._back, numbers.start, key=lambda each: each.start)
        in_front = sum(map(len, self._back[:index]))
        if index < len(self._back) and self._back[index].start == numbers.stop:
            numbers = range(numbers.start, self._back.pop(index).stop)
        if index and self._back[index - 1].stop == numbers.start:
            index -= 1
            numbers = range(self._back.pop(index).start, numbers.stop)
        if numbers.stop == self._fresh:
            self._fresh = numbers.start
        else:
            self._back.insert(index, numbers)
        return in_front

    def forget(self, left: int) -> None:
        """Start anew, with elements that never left."""
        self._back, self._left = [], left

    def _catch_up(self, left: int) -> None:
        self._next(left - self._left)
        self._left = left

    def _next(self, count: int) -> list[range]:
        found: list[range] = []
        while count and self._back:
            first = self._back[0]
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
