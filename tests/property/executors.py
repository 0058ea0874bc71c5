"""Random programs on every executor, and in sessions, against what they mean."""

import numpy as np
import tagloom as tg
from tagloom.compile import Target
from tagloom.kernels.scheduler.state import live_counts
from tagloom.ops.support.context import StepContext
from tagloom.runtime.reference.execution import ReferenceExecution
from tagloom.runtime.resources.manager import ResourceManager
from tagloom.runtime.steps.compiled_step import make_compiled_step
from tagloom.runtime.steps.environment import StepEnvironment
from tagloom.runtime.steps.execution import MachineExecution
from tagloom.runtime.steps.request import make_request

from tests.property.interpret import evaluate, initial_values
from tests.property.translate import build

WINDOWS = (1, 2, 7, 32)
SHUFFLES = {MachineExecution: (None, 1, 2, 3), ReferenceExecution: (None, 1)}


async def run_everywhere(built, feeds, initial, salt):
    """Yield where results are from, these, and what variables hold, for each executor and ready order."""
    step = make_compiled_step(built.graph, make_request(built.graph, built.fetches), tuple(feeds), Target())
    for executor, seeds in SHUFFLES.items():
        for seed in [seed and seed + salt for seed in seeds]:
            resources = ResourceManager()
            resources.restore({"variables": initial})
            context = StepContext(0, built.graph.seed, resources)
            values = step.convert(list(feeds.values()))
            fetched = await executor(step, context, values, StepEnvironment(tg.Settings(shuffle_seed=seed))).run()
            where = f"{executor.__name__} shuffled by {seed}"
            yield where, built.in_order(step.tensors, fetched), resources.snapshot().get("variables", {})


async def check_executors(program):
    """Hold what each executor gives, and a session, against what a program means."""
    expected = evaluate(program)
    for i, window in enumerate(WINDOWS):
        built = build(program, window)
        feeds = built.feeds(program.values)
        async for where, results, variables in run_everywhere(built, feeds, initial_values(program), 10 * i):
            compare(results, variables, expected, f"{where}, window {window}")
            assert not any(live_counts()[key] for key in ("frames", "iterations", "values")), where
    async with tg.Session(built.graph) as session:
        compare(*await run_session(session, built, feeds), expected, "session")
        assert session.statistics().steps_running == 0


async def run_session(session, built, feeds):
    """Return the results of a step from the initial values of the variables, and what these hold then."""
    await session.run([variable.initializer for variable in built.variables.values()])
    results = await session.run(built.fetches, feeds)
    return results[: len(built.results)], await session.read_variables()


async def run_from(session, built, feeds, initial):
    """Return the results of a step from these values of the variables, and what these hold then."""
    await session.write_variables(initial)
    results = await session.run(built.fetches, feeds)
    return results[: len(built.results)], await session.read_variables()


def compare(results, variables, expected, where):
    """Fail unless results and variables are those expected, to the last bit."""
    for result, wanted in zip(results, expected.results, strict=True):
        np.testing.assert_array_equal(result, wanted, err_msg=where, strict=True)
    assert variables.keys() == expected.variables.keys()
    for name, wanted in expected.variables.items():
        np.testing.assert_array_equal(variables[name], wanted, err_msg=f"{name}, {where}", strict=True)
