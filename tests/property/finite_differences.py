"""Gradients of random programs against finite differences, taken where no branch or trip count changes."""

from dataclasses import dataclass

import numpy as np
import tagloom as tg
from tagloom.kernels.scheduler.state import live_counts
from tagloom.testing.differences import FOURTH_ORDER, derivative

from tests.property.gradient_programs import build_gradients, weights
from tests.property.interpret import evaluate

H = 1e-4
STENCIL = FOURTH_ORDER
TOLERANCE = {"rtol": 1e-5, "atol": 1e-8}


@dataclass
class Tally:
    """How many differences were taken, and how many of them crossed a decision."""

    taken: int = 0
    rejected: int = 0

    def counts(self, program, start, direction):
        """Say whether the difference at `start` along `direction` counts."""
        self.taken += 1
        decisions = [evaluate(program, shifted(start, direction, k)).decisions for k in (0, *STENCIL)]
        same = all(d == decisions[0] for d in decisions)
        self.rejected += not same
        return same


def shifted(values, direction, k):
    """Return `values`, moved `k` steps along a direction."""
    return {name: np.asarray(value) + k * H * direction.get(name, 0.0) for name, value in values.items()}


def difference(function, start, direction):
    """Return the derivative of `function` along a direction."""
    return derivative(lambda distance: function(shifted(start, direction, distance / H)), H, STENCIL)


def axes(program):
    """Yield, for each element of each input, its name, its place and the direction of it alone."""
    for name, type in program.inputs:
        for place in np.ndindex(*type.shape):
            unit = np.zeros(type.shape)
            unit[place] = 1.0
            yield name, place, {name: unit}


def objective(program):
    """Return the plain function whose gradient was built."""

    def plain(values):
        results = evaluate(program, values).results
        return sum(np.sum(y * weights(i, y.shape)) for i, y in enumerate(results))

    return plain


async def check_differences(program, window, tally):
    """Hold gradients of both orders against the reference executor, and against differences."""
    built, first, second = build_gradients(program, window)
    async with tg.Session(built.graph) as session, tg.Session(built.graph, executor="reference") as reference:
        step = session.make_step([first, second], list(built.inputs.values()))

        async def gradients(values):
            return await step(*(np.asarray(values[name]) for name in built.inputs))

        found = await gradients(program.values)
        _compare(found, await reference.run([first, second], built.feeds(program.values)))
        _check_first(program, found[0], tally)
        await _check_second(program, gradients, found[1], tally)
    assert not any(live_counts()[key] for key in ("frames", "iterations", "values"))


def _compare(found, wanted):
    for result, expected in zip(found[0] + found[1], wanted[0] + wanted[1], strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-14)


def _check_first(program, found, tally):
    numbers = {name: g for (name, _), g in zip(program.inputs, found, strict=True)}
    for name, place, direction in axes(program):
        if tally.counts(program, program.values, direction):
            wanted = difference(objective(program), program.values, direction)
            np.testing.assert_allclose(numbers[name][place], wanted, err_msg=f"d/d{name}{list(place)}", **TOLERANCE)


async def _check_second(program, gradients, found, tally):
    direction = {name: weights(i, type.shape) for i, (name, type) in enumerate(program.inputs)}
    if not tally.counts(program, program.values, direction):
        return
    points = {k: (await gradients(shifted(program.values, direction, k)))[0] for k in STENCIL}
    for i, (name, _) in enumerate(program.inputs):
        wanted = sum(weight * points[k][i] for k, weight in STENCIL.items()) / H
        np.testing.assert_allclose(found[i], wanted, err_msg=f"second order, {name}", **TOLERANCE)
