"""Compiling: the list of passes, and what they make of a program."""

from .pipeline import PIPELINE, Pass, compile_step, compile_until
from .step_plan import DevicePlan, StepPlan, with_own_tables
from .target import DeviceTarget, Target

__all__ = [
    "PIPELINE",
    "DevicePlan",
    "DeviceTarget",
    "Pass",
    "StepPlan",
    "Target",
    "compile_step",
    "compile_until",
    "with_own_tables",
]
