"""One run of a native program on a GPU, launch after launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...cpu.product_sum import ProductSum
from ...cuda.launching import Function
from ...scheduler.series import Series
from .written import Saved, Written

if TYPE_CHECKING:
    from .kernel import NativeKernel

_LAUNCH = 2e7  # nanoseconds that a launch should take at most, if they are estimated well
_FIRST_ROOM = 256  # slots of a series of which nobody knows how long it gets
_MOST_ROOM = 1 << 26  # bytes that are taken for one before it is known that they are needed
SUSPENDED, ENDED, GAVE_UP, NO_ROOM = range(4)


class Room:
    """Rows for what a program saves.

    Attributes
    ----------
    saved : Saved
    rows : array
    is_written : array or None
        For each row; None where all are up to the last.
    """

    def __init__(self, xp: Any, saved: Saved, slots: int) -> None:
        self._xp, self.saved = xp, saved
        self.rows = xp.empty((slots, *saved.shape), dtype=saved.dtype)
        self.is_written = xp.zeros((slots,), dtype=np.uint8) if saved.count is None else None

    def grow(self) -> None:
        """Make room for as many rows more."""
        slots = len(self.rows)
        larger = Room(self._xp, self.saved, 2 * slots)
        larger.rows[:slots] = self.rows
        self.rows = larger.rows
        if self.is_written is not None:
            larger.is_written[:slots] = self.is_written
            self.is_written = larger.is_written

    def arguments(self) -> list[Any]:
        """Return how a kernel is given it."""
        return [self.rows, np.int64(len(self.rows)), *([] if self.is_written is None else [self.is_written])]


class Run:
    """A run: what it computes with, and what it leaves in memory between two launches.

    Parameters
    ----------
    kernel : NativeKernel
    xp : module
    written : Written
    function : callable
        Of `find_function`.
    given : list
        Arguments for what it is given.
    inputs : sequence
        Of the operation.

    Attributes
    ----------
    state : array
        Where it is, and its elements of no dimensions; to be copied to the host after each launch.
    """

    def __init__(
        self,
        kernel: NativeKernel,
        xp: Any,
        written: Written,
        function: Function,
        given: list[Any],
        inputs: Sequence[Any],
    ) -> None:
        self.kernel, self.written, self.inputs = kernel, written, inputs
        self.state = xp.zeros((written.words,), dtype=np.int64)
        self._function, self._given = function, given
        self._memory = xp.empty((max(1, written.nbytes),), dtype=np.uint8)
        self._made = {r: xp.empty(shape, dtype=dtype) for r, (shape, dtype) in written.results.items()}
        trips = _trips(kernel.program, inputs)
        self._rooms = {each.register: Room(xp, each, _slots(each, trips)) for each in written.saved}

    @property
    def masks(self) -> list[Any]:
        """What is to be copied to the host when it is over: which rows were written."""
        return [room.is_written for room in self._rooms.values() if room.is_written is not None]

    def launch(self) -> None:
        """Run it for a while."""
        budget = np.int64(max(1, _LAUNCH // max(100, self.written.cost)))
        rooms = [argument for room in self._rooms.values() for argument in room.arguments()]
        arguments = self.state, budget, self._memory, *self._given, *rooms, *self._made.values()
        self._function((1,), (self.written.threads, 1), arguments)

    def goes_on(self, state: np.ndarray[Any, Any]) -> bool:
        """Launch it once more if it is not over; say whether."""
        if state[0] not in (SUSPENDED, NO_ROOM):
            return False
        if state[0] == NO_ROOM:
            self._rooms[int(state[2])].grow()
        self.launch()
        return True

    @staticmethod
    def is_done(state: np.ndarray[Any, Any]) -> bool:
        """Whether it came to its end."""
        return bool(state[0] == ENDED)

    def results(self, state: np.ndarray[Any, Any], masks: Sequence[np.ndarray[Any, Any]]) -> Any:
        """Return true and the results; or false, if it gave up."""
        if not self.is_done(state):
            self.kernel.give_up("an operation wants to raise an error")
            return self.kernel.refusal(self.inputs)
        self.kernel.succeed()
        series = self._series(state, iter(masks))
        self._close_sums()
        return [np.asarray(True), *(self._result(r, state, series) for r in self.kernel.program.outputs)]

    def counts(self, state: np.ndarray[Any, Any]) -> dict[str, tuple[int, int]]:
        """Return how often each loop ran, and the iterations that it began."""
        words = self.written.loops.items()
        return {name: (int(state[end]), int(state[end]) + int(state[back])) for name, (end, back) in words}

    def _result(self, register: int, state: np.ndarray[Any, Any], series: dict[int, Series]) -> Any:
        if register in self.written.elements:
            return self._element(register, state)
        if register in self._made:
            return self._made[register]
        return series[register] if register in series else self._input(register)

    def _element(self, register: int, state: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        dtype = self.kernel.program.registers[register][1]
        word = self.written.elements[register]
        return np.array(state[word : word + 1].view(dtype)[0])

    def _input(self, register: int) -> Any:
        return self.inputs[self.kernel.program.inputs.index(register)]

    def _series(self, state: np.ndarray[Any, Any], masks: Any) -> dict[int, Series]:
        """Return what was saved as series."""
        found = {}
        for register, room in self._rooms.items():
            found[register] = series = Series()
            if room.saved.count is not None:
                series.keep_rows(room.rows, int(state[room.saved.count]))
            else:
                mask = next(masks)
                series.keep_rows(room.rows, len(mask), mask, room.is_written)
        return found

    def _close_sums(self) -> None:
        """Give sums of products what was added up."""
        arrays = iter(self._given[len(self.written.constants) :])
        for register, count in self.written.arguments.items():
            taken = [next(arrays) for _ in range(count)]
            total = self._input(register)
            if isinstance(total, ProductSum):
                total.replace(taken[0])


def _trips(program: Any, inputs: Sequence[Any]) -> int | None:
    """Return how often the outermost loop runs, about, if that is known now."""
    if program.trips is None:
        return None
    begin, limit, change = program.trips
    values = {**dict(zip(program.inputs, inputs, strict=True)), **program.constants}
    found = [values.get(begin), values.get(limit)]
    if any(not isinstance(each, (np.generic, np.ndarray)) or each.ndim for each in found):
        return None
    return max(0, int((float(found[1]) - float(found[0])) / change)) + 2


def _slots(saved: Saved, trips: int | None) -> int:
    """Return for how many slots there is room at first."""
    nbytes = max(1, int(np.prod(saved.shape, dtype=np.int64)) * saved.dtype.itemsize)
    return max(1, min(_FIRST_ROOM if trips is None else trips, _MOST_ROOM // nbytes))
