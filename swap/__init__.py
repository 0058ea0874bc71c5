"""Swapping of saved values out of a device's memory until their next read: policy, states, tiers, copies, report."""

from .policy import SwapPolicy
from .report import SwapReport

__all__ = ["SwapPolicy", "SwapReport"]

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "policy": "SwapPolicy",
    "report": "SwapReport",
}
