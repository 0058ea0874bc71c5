"""The kernel of the operation ``Native`` on a GPU, written for the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...cuda.launching import Grid, find_function
from ...cuda.registry import register
from ..program import NativeProgram
from .inputs import count_trips, host_inputs, open_shelves, take_input
from .run import Compiled, Run
from .text import NAME
from .values import NotWritten
from .writer import write_kernel
from .written import Given

_MOST_SIGNATURES = 8  # most kinds of inputs with a kernel of their own
_MOST_PARAMETERS = 500  # of 8 bytes each, within the 4 KiB of parameters on all GPUs
_MOST_MISSES = 6  # after as many failures in a row, the number of skipped runs stays the same


class NativeKernel:
    """A kernel that runs a whole loop.

    Parameters
    ----------
    xp : module
        An array library that compiles CUDA C.
    program : NativeProgram
    otherwise : callable
        Returns the results of a program that did not run.

    Attributes
    ----------
    takes_scalars : bool
        True: scalars of the host are passed by value.
    on_host : frozenset of int
        Inputs that determine shapes, to be passed in the host's memory.
    reason : str or None
        The reason why the program did not run the last time.
    """

    takes_scalars = True

    def __init__(self, xp: Any, program: NativeProgram, otherwise: Callable[..., Any]) -> None:
        self.program = program
        self.on_host: frozenset[int] | None = host_inputs(program)
        self.reason: str | None = None
        self._xp, self._otherwise = xp, otherwise
        self._kernels: dict[Any, Compiled | NotWritten] = {}
        self._misses, self._skips = 0, 0

    def __call__(self, *inputs: Any) -> Any:
        """Return a launched Run; or the result of `otherwise` if the program cannot run.

        Parameters
        ----------
        *inputs : array of the library, NumPy scalar or array, Series, ProductSum, or another object
        """
        if self._skips:
            self._skips -= 1
            return self._otherwise(*inputs)
        try:
            return self._launch_run(inputs)
        except NotWritten as reason:
            self.give_up(str(reason))
            return self._otherwise(*inputs)

    def give_up(self, reason: str) -> None:
        """Leave a run to the step machine, and after repeated failures also the next 2, 6, 14, ... runs."""
        self.reason = reason
        self._misses = min(self._misses + 1, _MOST_MISSES)
        self._skips = (1 << self._misses) - 2

    def reset_failures(self) -> None:
        """Reset the count of failures after a completed run."""
        self.reason, self._misses = None, 0

    def compute_otherwise(self, inputs: Sequence[Any]) -> Any:
        """Return the results of a program that did not run."""
        return self._otherwise(*inputs)

    def _launch_run(self, inputs: Sequence[Any]) -> Run:
        """Return a run of the inputs, launched; NotWritten if there is no kernel for the inputs."""
        trips = count_trips(self.program, inputs)
        hosts = self.on_host or frozenset()
        taken = [take_input(self._xp, self.program, k, v, k in hosts, trips) for k, v in enumerate(inputs)]
        given = dict(zip(self.program.inputs, (each.given for each in taken), strict=True))
        compiled = self._find_kernel(given)
        open_shelves(dict(zip(self.program.inputs, taken, strict=True)), compiled.written.element_shapes)
        run = Run(self, self._xp, compiled, taken, inputs)
        run.launch()
        return run

    def _find_kernel(self, given: Mapping[int, Given]) -> Compiled:
        """Return the cached kernel for such inputs; raise the cached reason if there is none."""
        key = tuple(each.key for each in given.values())
        if key not in self._kernels:
            if len(self._kernels) >= _MOST_SIGNATURES:
                raise NotWritten(f"it was compiled for {_MOST_SIGNATURES} kinds of inputs already")
            self._kernels[key] = self._compile_kernel(given)
        found = self._kernels[key]
        if isinstance(found, NotWritten):
            raise found
        return found

    def _compile_kernel(self, given: Mapping[int, Given]) -> Compiled | NotWritten:
        """Write and compile a kernel; return the reason if the program cannot be written."""
        try:
            written = write_kernel(self.program, given)
        except NotWritten as reason:
            # cached like a kernel: writing would fail again for equal inputs
            return reason
        if written.parameters > _MOST_PARAMETERS:
            return NotWritten(f"it has {written.parameters} arrays")
        grid = Grid((1,), (written.threads, 1))
        code = _read_source() + written.code
        # 1 element: indices of 32 bits, since the arrays of a program are small
        function = find_function(self._xp, code, NAME, np.dtype(np.float32), 1, grid)
        return Compiled(written, function, [self._xp.asarray(each) for each in written.constants])


def _read_source() -> str:
    return Path(__file__).with_name("native.cu").read_text()


@register("Native", any_dtype=True)
def _find_native(
    xp: Any, type: str, attrs: Mapping[str, Any], dtype: np.dtype[Any], otherwise: Callable[..., Any]
) -> NativeKernel:
    """Return the kernel of a program."""
    return NativeKernel(xp, NativeProgram.from_attribute(attrs["program"]), otherwise)
