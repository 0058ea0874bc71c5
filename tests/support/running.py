"""Run fetches on the step machine, without a session."""

from tagloom.ir.program import Program
from tagloom.kernels.scheduler.machine import StepMachine
from tagloom.kernels.scheduler.plan import CompiledPlan
from tagloom.ops.support.context import StepContext
from tagloom.runtime.resources.manager import ResourceManager

from tests.support.compiling import plan_of
from tests.support.settings import ON


def machine_results(fetches, feeds, arrays, settings=ON):
    """Return what fetches are when arrays are fed, on one device; raises what failed first."""
    plan = CompiledPlan(plan_of(Program(fetches[0].graph, feeds, fetches), settings))
    machine = StepMachine(plan, StepContext(0, 0, ResourceManager()), arrays)
    machine.drain(10)
    if machine.failure is not None:
        raise machine.failure[2]
    return machine.fetches


def result_pairs(fetches, feeds, arrays, off, on=ON):
    """Yield, for each fetch, what it is with a fast path on and with it off."""
    found = (machine_results(fetches, feeds, arrays, settings) for settings in (on, off))
    yield from zip(*found, strict=True)
