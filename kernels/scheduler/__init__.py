"""The step machine: plans in C tables, and their execution."""

from .instance import Instance
from .machine import StepMachine
from .plan import CompiledPlan
from .series import Series
from .state import live_counts
from .tracing import Recorder

__all__ = ["CompiledPlan", "Instance", "Recorder", "Series", "StepMachine", "live_counts"]
