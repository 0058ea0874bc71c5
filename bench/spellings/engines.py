"""Engines that run a spelling: sessions of tagloom, and ``jax.jit``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from ..experiment import Case, Observed
from .catalogue import PROGRAMS
from .program import VARIANTS, Arrays, Program, Variant

NOT_NATIVE, CALLED = "not_native", "called"


def drawn(case: Case) -> tuple[Program, Arrays]:
    """Return the program of a case, and its numbers."""
    program = PROGRAMS[case["program"]]
    sizes = program.small if case["size"] == "small" else program.sizes
    return program, program.draw(np.random.default_rng(0), sizes)


def spelling(case: Case) -> tuple[str, Variant]:
    """Return the name of a case's spelling, and the conditions under which the spelling runs."""
    name, _, variant = case["spelling"].partition(" ")
    return name, VARIANTS[variant]


def build(tg: Any, case: Case) -> tuple[Any, list[Any], list[Any]]:
    """Build the graph of a case; return the graph, its placeholders and its fetches."""
    program, numbers = drawn(case)
    name, variant = spelling(case)
    with tg.Graph().as_default() as graph:
        fed = {}
        for key, value in numbers.items():
            shape: list[int | None] = list(value.shape)
            if variant.unknown_batch and key in program.batch:
                shape[program.batch[key]] = None
            fed[key] = tg.placeholder(value.dtype.name, shape)
        results = program.spellings[name](tg, **fed)
        if case["gradient"]:
            results = [*results, *tg.gradients(results[0], [fed[key] for key in program.trained])]
    return graph, list(fed.values()), results


async def tagloom(case: Case, stack: AsyncExitStack) -> Observed:
    """Run a spelling with tagloom."""
    import tagloom as tg

    graph, feeds, fetches = build(tg, case)
    _, variant = spelling(case)
    session = await stack.enter_async_context(tg.Session(graph, **variant.session))
    step = session.make_step(fetches, feeds)
    values = list(drawn(case)[1].values())
    if variant.unknown_batch:
        await step(*values)  # when these shapes come for the second time, the step is compiled for them
    return Observed(lambda: step(*values), notes=lambda: describe_loops(session.report()))


def describe_loops(report: Any) -> dict[str, str]:
    """Return why loops of a step did not run natively, and the operations whose Python kernels native loops call."""
    reasons = [f"{loop.name}: {loop.not_native}" for loop in report.loops if loop.limited_by != "native"]
    called = {name for loop in report.loops for name in loop.called}
    return {NOT_NATIVE: "; ".join(dict.fromkeys(reasons)), CALLED: ", ".join(sorted(called))}


def jax(case: Case, stack: AsyncExitStack) -> Observed:
    """Run a program with ``jax.jit``, in the spelling of users of JAX."""
    import jax

    program, numbers = drawn(case)
    trained = {key: numbers[key] for key in program.trained}
    rest = {key: value for key, value in numbers.items() if key not in trained}

    def results(trained: Any, rest: Any) -> tuple[Any, Any]:
        found = program.jax(jax, case["gradient"], **trained, **rest)
        return found[0], found

    compiled = jax.jit(jax.value_and_grad(results, has_aux=True) if case["gradient"] else results)

    def step() -> list[np.ndarray]:
        (_, found), *gradients = compiled(trained, rest) if case["gradient"] else [compiled(trained, rest)]
        return [np.asarray(v) for v in (*found, *(each[key] for each in gradients for key in program.trained))]

    return Observed(step)


def sides(medians: Sequence[tuple[Case, float]]) -> Iterator[tuple[Case, str, float]]:
    """Yield each spelling beside the fastest spelling of its program."""
    fastest = max(rate for _, rate in medians)
    for case, rate in medians:
        yield case, "fastest_spelling", rate / fastest
