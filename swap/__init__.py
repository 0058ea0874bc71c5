"""Swapping of saved values out of a device's memory until their next read: policy, states, tiers, copies, report."""

from .policy import SwapPolicy
from .report import SwapReport

__all__ = ["SwapPolicy", "SwapReport"]
