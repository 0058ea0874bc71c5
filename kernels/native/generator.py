"""Code generators: writers of kernels for whole programs and fused operations, one for each language.

A device has at most one (`Device.generator`). The compiler asks it which operations may be steps of a native program;
the backend of a device whose arrays are not NumPy's asks it for the kernels of single operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..cpu.registry import values_read

if TYPE_CHECKING:
    from ...base.settings import Switches
    from ..cuda.registry import Compiled
    from .program import Code, Computation

Dtypes = Sequence[np.dtype[Any]]


class CodeGenerator(Protocol):
    """A writer of kernels.

    Attributes
    ----------
    language : str
        Language of the kernels, for reasons of refusals: "CUDA C".
    adds_epilogues : bool
        True if there are kernels for convolutions with epilogues and for clusters, besides loops.
    calls_kernels : bool
        True if a program can call the Python kernels of operations.
    keeps_limits : bool
        True if a program waits where a device's memory has a limit.
    """

    @property
    def language(self) -> str: ...

    @property
    def adds_epilogues(self) -> bool: ...

    @property
    def calls_kernels(self) -> bool: ...

    @property
    def keeps_limits(self) -> bool: ...

    def values_read(self, type: str) -> tuple[int, ...] | None:
        """Return the inputs whose values a kernel of this type must know in advance.

        None if that depends on more, so that the kernel cannot be a step of a program.
        """
        ...

    def has_kernel(self, computation: Computation, given: Dtypes, made: Dtypes, switches: Switches) -> bool:
        """Return True if a step of a program can compute these dtypes."""
        ...

    def has_code(self, code: Code) -> bool:
        """Return True if programs can have instructions of a code."""
        ...

    def has_dtype(self, dtype: np.dtype[Any]) -> bool:
        """Return True if registers of a program may have a dtype."""
        ...

    def find_kernel(
        self, type: str, attrs: Mapping[str, Any], outputs: Dtypes, otherwise: Callable[..., Any]
    ) -> Compiled | None:
        """Return the kernel of a single operation, or None; `otherwise` is the kernel by its definition."""
        ...


class _C:
    """The C kernels of CPUs, and programs of them."""

    language = "C"
    adds_epilogues = True
    calls_kernels = True
    keeps_limits = True

    def values_read(self, type: str) -> tuple[int, ...] | None:
        return values_read(type)

    def has_kernel(self, computation: Computation, given: Dtypes, made: Dtypes, switches: Switches) -> bool:
        from .compiled import has_kernel  # loads the machine of native programs

        return has_kernel(computation, list(given), list(made), switches)

    def has_code(self, code: Code) -> bool:
        return True

    def has_dtype(self, dtype: np.dtype[Any]) -> bool:
        return not dtype.hasobject and dtype.kind in "biufc"

    def find_kernel(
        self, type: str, attrs: Mapping[str, Any], outputs: Dtypes, otherwise: Callable[..., Any]
    ) -> Compiled | None:
        """Return None: the tables of the step machine name the C kernels of single operations."""
        return None


C: CodeGenerator = _C()
