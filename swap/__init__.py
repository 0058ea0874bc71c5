"""Saved values that leave a device's memory while nobody needs them: policy, states, tiers, transfers, report."""

from .policy import SwapPolicy
from .report import SwapReport

__all__ = ["SwapPolicy", "SwapReport"]
