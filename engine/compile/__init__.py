"""Compilation: the list of passes, from a program to a StepPlan."""

from .passes import Pass
from .pipeline import PIPELINE, compile_step, compile_until
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

# Names of the package `tagloom`, by module: see docs/design/0051-rooms-and-names.md.
PUBLIC = {
    "liveness": "liveness",
}
