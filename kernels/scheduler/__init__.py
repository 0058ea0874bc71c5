"""The step machine: plans in C tables, and their execution."""

from .machine import Instance, StepMachine, live_counts
from .plan import CompiledPlan
from .series import Series

__all__ = ["CompiledPlan", "Instance", "Series", "StepMachine", "live_counts"]
