"""A run of a native program on a GPU, in one or more launches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...cuda.launching import Function
from ...scheduler.series import Series
from .elements import Shelf
from .inputs import Taken, count_trips
from .written import Saved, Written

if TYPE_CHECKING:
    from .kernel import NativeKernel

_LAUNCH = 2e7  # target limit for the estimated nanoseconds of a launch
_FIRST_ROOM = 256  # slots of a series of unknown length
_MOST_ROOM = 1 << 26  # most bytes allocated for a series ahead of need
Copied = np.ndarray[Any, Any]  # copy of an array in the device's memory
Call = Callable[..., Any]
SUSPENDED, ENDED, GAVE_UP, NO_ROOM = range(4)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel as written and compiled for inputs of certain shapes and dtypes.

    Attributes
    ----------
    written : Written
    function : callable
        Result of `find_function`.
    constants : list of array
    """

    written: Written
    function: Function
    constants: list[Any]


class Room:
    """Rows for a saved series of a program.

    Attributes
    ----------
    saved : Saved
    rows : array
    is_written : array or None
        Flags of written rows; None if all rows are written in order.
    """

    def __init__(self, xp: Any, saved: Saved, slots: int) -> None:
        self._xp, self.saved = xp, saved
        self.rows: Any = xp.empty((slots, *saved.shape), dtype=saved.dtype)
        self.is_written: Any = xp.zeros((slots,), dtype=np.uint8) if saved.count is None else None

    def grow(self) -> None:
        """Double the number of rows."""
        slots = len(self.rows)
        larger = Room(self._xp, self.saved, 2 * slots)
        larger.rows[:slots] = self.rows
        self.rows = larger.rows
        if self.is_written is not None:
            larger.is_written[:slots] = self.is_written
            self.is_written = larger.is_written

    def kernel_arguments(self) -> list[Any]:
        """Return the kernel arguments of this series."""
        return [self.rows, np.int64(len(self.rows)), *([] if self.is_written is None else [self.is_written])]

    @property
    def masks(self) -> list[Any]:
        """Arrays to copy to the host for `fill_series`."""
        written = [] if self.is_written is None else [self.is_written]
        return [*written, self.rows] if self.saved.is_for_host else written

    def fill_series(self, found: dict[int, Series], state: Copied, masks: list[Copied], call: Call) -> None:
        """Put the saved rows into the series of this register, among the run's series by register."""
        series = found[self.saved.register]
        count = len(self.rows) if self.saved.count is None else int(state[self.saved.count])
        is_written = None if self.saved.count is not None else masks[0]
        if self.saved.nested is None:
            copy = masks[-1] if self.saved.is_for_host else None
            series.keep_rows(self.rows, count, is_written, self.is_written, copy, call)
            return
        for i, (first, end) in enumerate(masks[-1][:count].tolist()):
            if is_written is None or is_written[i]:
                series.put(i, found[self.saved.nested].part(first, end - first))


class Run:
    """A run: its arguments, and its state between launches.

    Parameters
    ----------
    kernel : NativeKernel
    xp : module
    compiled : Compiled
    taken : list of Taken or Shelf
    inputs : sequence
        Inputs of the operation.

    Attributes
    ----------
    state : array
        Status, position, and variables of the program; to be copied to the host after each launch.
    """

    def __init__(
        self,
        kernel: NativeKernel,
        xp: Any,
        compiled: Compiled,
        taken: Sequence[Taken | Shelf],
        inputs: Sequence[Any],
    ) -> None:
        written = compiled.written
        self.kernel, self.written, self.inputs = kernel, written, inputs
        self.state = xp.zeros((written.words,), dtype=np.int64)
        self._function, self._constants, self._taken = compiled.function, compiled.constants, taken
        self._memory = xp.empty((max(1, written.nbytes),), dtype=np.uint8)
        self._made = {r: xp.empty(shape, dtype=dtype) for r, (shape, dtype) in written.results.items()}
        trips = count_trips(kernel.program, inputs)
        self._rooms = {each.register: Room(xp, each, _initial_slots(each, trips)) for each in written.saved}
        shelves = zip(kernel.program.inputs, taken, strict=True)
        self._growing: dict[int, Room | Shelf] = {
            **self._rooms,
            **{r: each for r, each in shelves if isinstance(each, Shelf)},
        }

    @property
    def masks(self) -> list[Any]:
        """Arrays to copy to the host at the end, for `results`."""
        return [mask for each in (*self._rooms.values(), *self._taken) for mask in each.masks]

    def launch(self) -> None:
        """Launch the kernel for about the target time."""
        budget = np.int64(max(1, _LAUNCH // max(100, self.written.cost)))
        given = [argument for each in (*self._taken, *self._rooms.values()) for argument in each.kernel_arguments()]
        kernel_arguments = self.state, budget, self._memory, *self._constants, *given, *self._made.values()
        self._function((1,), (self.written.threads, 1), kernel_arguments)

    def goes_on(self, state: Copied) -> bool:
        """Launch again unless the run is over; return True if launched."""
        if state[0] not in (SUSPENDED, NO_ROOM):
            return False
        if state[0] == NO_ROOM:
            # state[2] is the register of the series or TensorArray without room
            self._growing[int(state[2])].grow()
        self.launch()
        return True

    @staticmethod
    def is_done(state: Copied) -> bool:
        """Return True if the program has reached its end."""
        return bool(state[0] == ENDED)

    def results(self, state: Copied, masks: Sequence[Copied], call: Call) -> Any:
        """Return True and the results; or False, if the run gave up.

        Parameters
        ----------
        state, masks : numpy.ndarray
            Copies of the attributes; of `masks` only if the run is done.
        call : callable
            Calls a function in the device's context, in which this method is called, too.
        """
        if not self.is_done(state):
            return self._give_up("an operation wants to raise an error")
        if not all(each.is_as_found() for each in self._taken):
            return self._give_up("a TensorArray, or a sum, has changed meanwhile")
        self.kernel.reset_failures()
        left = iter(masks)
        series = {register: Series() for register in self._rooms}
        for room in self._rooms.values():
            room.fill_series(series, state, _next_masks(left, room), call)
        for each in self._taken:
            each.close(_next_masks(left, each))
        return [np.asarray(True), *(self._find_result(r, state, series) for r in self.kernel.program.outputs)]

    def _give_up(self, reason: str) -> Any:
        self.kernel.give_up(reason)
        return self.kernel.compute_otherwise(self.inputs)

    def counts(self, state: Copied) -> dict[str, tuple[int, int]]:
        """Return for each loop the number of exits, and of iterations begun."""
        words = self.written.loops.items()
        return {name: (int(state[end]), int(state[end]) + int(state[back])) for name, (end, back) in words}

    def _find_result(self, register: int, state: Copied, series: dict[int, Series]) -> Any:
        if register in self.written.elements:
            return self._read_element(register, state)
        if register in self._made:
            return self._made[register]
        if register in series:
            return series[register]
        return self.inputs[self.kernel.program.inputs.index(register)]

    def _read_element(self, register: int, state: Copied) -> np.ndarray[Any, Any]:
        dtype, word = self.kernel.program.registers[register][1], self.written.elements[register]
        assert dtype is not None
        return np.array(state[word : word + 1].view(dtype)[0])


def _next_masks(masks: Iterator[Copied], each: Room | Taken | Shelf) -> list[Copied]:
    return [next(masks) for _ in each.masks]


def _initial_slots(saved: Saved, trips: int | None) -> int:
    """Return the initial number of slots of a series."""
    nbytes = max(1, int(np.prod(saved.shape, dtype=np.int64)) * saved.dtype.itemsize)
    return max(1, min(_FIRST_ROOM if trips is None else trips, _MOST_ROOM // nbytes))
