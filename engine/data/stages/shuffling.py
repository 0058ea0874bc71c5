"""A stage that returns elements in random order, from a buffer."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from .elements import Failure, Item, first_of
from .saved_items import restored_items, saved_items
from .stage import Context, Opens, Stage, count_of

_DRAWN_AT_ONCE = 256
_ASKED_AT_ONCE = 64
_WORD, _SIGNIFICAND = 64, 53  # bits of PCG64's random words, and of a float64's significand, for exact numbers


class Draws:
    """Random numbers in [0, 1), whose state is the number of draws.

    They are made of PCG64's raw words, which are equal in all versions of NumPy; its Generator has no such guarantee.
    """

    __slots__ = ("_ahead", "_bits", "drawn")

    def __init__(self, seeds: np.random.SeedSequence, drawn: int = 0) -> None:
        self._bits = np.random.PCG64(seeds)
        self._bits.advance(drawn)  # in logarithmic time, instead of drawing again
        self._ahead: list[float] = []
        self.drawn = drawn

    def draw_below(self, count: int) -> int:
        """Return an integer from 0 to `count` - 1."""
        if not self._ahead:
            # reversed, since pop takes from the end
            words = self._bits.random_raw(_DRAWN_AT_ONCE)[::-1]
            self._ahead = ((words >> np.uint64(_WORD - _SIGNIFICAND)) * 2.0**-_SIGNIFICAND).tolist()
        self.drawn += 1
        return int(self._ahead.pop() * count)


class ShuffleStage(Stage):
    """Elements of a buffer in random order; the next element of the input takes the place of each.

    Parameters
    ----------
    size : int
        Elements in the buffer.
    seed : int
    reshuffle : bool
        True for another order in each iteration, and each epoch of a `repeat`.
    """

    def __init__(self, context: Context, source: Opens, size: int, seed: int, reshuffle: bool) -> None:
        super().__init__(context, source)
        self._size = size
        self._seed = [seed, *context.epochs] if reshuffle else [seed]
        self._reshuffle = reshuffle
        self._draws = Draws(self._seed_sequence())
        self._buffer: list[Item] = []
        self._failed: deque[Item] = deque()  # errors met while the buffer was filled

    async def pull(self, most: int) -> list[Item]:
        """Return elements; failures of earlier stages pass through unshuffled.

        The order depends on the elements alone, not on the sizes of requests.
        """
        source, buffer = self.inputs[0], self._buffer
        while self._failed or len(buffer) < self._size:
            if self._failed:
                return first_of(self._failed, most)
            chunk = await source.pull(min(self._size - len(buffer), _ASKED_AT_ONCE))
            if not chunk:
                return self._take_rest(most)
            self._failed.extend(item for item in chunk if type(item[0]) is Failure)
            buffer += [item for item in chunk if type(item[0]) is not Failure]
        chunk = await source.pull(most)
        return [self._exchange_element(item) for item in chunk] or self._take_rest(most)

    def _exchange_element(self, item: Item) -> Item:
        if type(item[0]) is Failure:
            return item
        place = self._draws.draw_below(self._size)
        found, self._buffer[place] = self._buffer[place], item
        return found

    def _take_rest(self, most: int) -> list[Item]:
        """Return elements of the buffer after the end of the input."""
        buffer = self._buffer
        found: list[Item] = []
        while buffer and len(found) < most:
            place = self._draws.draw_below(len(buffer))
            buffer[place], buffer[-1] = buffer[-1], buffer[place]
            found.append(buffer.pop())
        return found

    def _seed_sequence(self) -> np.random.SeedSequence:
        return self.context.seed_sequence(*self._seed) if self._reshuffle else np.random.SeedSequence(self._seed)

    def own_state(self) -> Any:
        """Return the buffer, failures met while filling, the seed, and the number of draws."""
        return {
            "seed": self._seed,
            "drawn": self._draws.drawn,
            "buffer": saved_items(self._buffer),
            "failed": saved_items(self._failed),
        }

    def load_own_state(self, own: Any) -> None:
        """Continue in the same order."""
        self._seed = [int(each) for each in own["seed"]]
        self._draws = Draws(self._seed_sequence(), count_of(own["drawn"]))
        self._buffer = restored_items(own["buffer"])
        self._failed.extend(restored_items(own["failed"]))
