"""Rules of the executors, about kernels: see `engine/runtime/devices` and `engine/compile/plan`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Elements:
    """The kernel may compute a large result from small inputs; types that broadcast their inputs need no rule.

    Attributes
    ----------
    count : callable
        ``count(*arrays, **attrs)`` estimates how many elements the kernel visits in addition to its inputs. Evaluated
        before the kernel is called; a kernel which would take long runs off the event loop.
    """

    count: Callable[..., int]


@dataclass(frozen=True, slots=True)
class KeepsSize:
    """The result in the device's memory is not larger than the inputs there, although other inputs are on the host."""


@dataclass(frozen=True, slots=True)
class NoRetry:
    """An instance without memory for its result may have had effects already, so it does not run again."""


@dataclass(frozen=True, slots=True)
class PassesInputs:
    """The outputs are the inputs, unchanged."""


@dataclass(frozen=True, slots=True)
class ReadsValues:
    """The result, or failure, depends on values awaited by the kernel: the result's size, or an index out of range."""
