"""The step machine: plans in C tables, and their execution."""

from .machine import DEAD, Instance, StepMachine, live_counts
from .plan import CompiledPlan
from .series import Series

__all__ = ["DEAD", "CompiledPlan", "Instance", "Series", "StepMachine", "live_counts"]
