"""Programs compiled as users' steps are, up to some row of the pipeline."""

from tagloom.base.settings import DEFAULTS
from tagloom.compile import Target, compile_step, compile_until

from tests.support.settings import MACHINE


def pruned(program):
    """Return the part of a program that is needed."""
    return compile_until("prune", program)


def optimized(program, settings=DEFAULTS):
    """Return a program behind the last pass that leaves its regions as they are."""
    return compile_until("release", program, Target(settings))


def lowered(program, settings=MACHINE):
    """Return a program as primitives, its loops too."""
    return compile_until("lower", program, Target(settings))


def plan_of(program, settings=DEFAULTS):
    """Return the Plan of a program, for one device with NumPy's arrays."""
    return compile_step(program, Target(settings)).plan
