"""Solvers whose number of iterations depends on data: adaptive Runge-Kutta, Newton's method and bisection."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .program import Arrays, Program, Sizes, masked

# ---- adaptive Runge-Kutta (Heun-Euler), on predators and prey

END, TOLERANCE, FIRST_STEP = 4.0, 4e-3, 0.1
MOST_STEPS = 80  # iterations of the bounded loop: more than any case takes


def draw_runge_kutta(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw populations of shape (batch, 2) and four rates."""
    return {
        "start": random.uniform(0.8, 1.2, (sizes["batch"], 2)).astype(np.float32),
        "rates": np.float32([1.1, 0.8, 0.9, 1.0]),
    }


def stack_field(tg: Any, y: Any, rates: Any) -> Any:
    """Columns by indices, stacked."""
    prey, predators = y[:, 0], y[:, 1]
    return tg.stack(
        [prey * (rates[0] - rates[1] * predators), predators * (rates[2] * prey - rates[3])],
        axis=1,
    )


def concat_field(tg: Any, y: Any, rates: Any) -> Any:
    """Columns by slices, concatenated."""
    prey, predators = y[:, :1], y[:, 1:]
    return tg.concat([prey * (rates[0] - rates[1] * predators), predators * (rates[2] * prey - rates[3])], 1)


def gather_field(tg: Any, y: Any, rates: Any) -> Any:
    """Both columns at once, beside the same columns in the other order."""
    growth = tg.stack([rates[0], -rates[3]])
    meeting = tg.stack([-rates[1], rates[2]])
    return y * (growth + meeting * tg.gather(y, [1, 0], axis=1))


def where_accepted(tg: Any, accepted: Any, new: Any, old: Any) -> Any:
    """Choose by ``where``."""
    return tg.where(accepted, new, old)


def mask_accepted(tg: Any, accepted: Any, new: Any, old: Any) -> Any:
    """Choose by arithmetic."""
    return masked(tg.cast(accepted, "float32"), new, old)


def runge_kutta(field: Callable[..., Any], choose: Callable[..., Any], tg: Any, start: Any, rates: Any) -> list[Any]:
    """Integrate until `END`, with steps as long as the error allows."""

    def body(t: Any, h: Any, y: Any, tried: Any) -> tuple[Any, ...]:
        h = tg.minimum(h, END - t)
        slope = field(tg, y, rates)
        euler = y + h * slope
        heun = y + 0.5 * h * (slope + field(tg, euler, rates))
        error = tg.reduce_max(tg.abs(heun - euler)) / TOLERANCE
        accepted = error <= 1.0
        factor = tg.clip_by_value(0.9 * tg.rsqrt(error + 1e-6), 0.3, 2.0)
        return choose(tg, accepted, t + h, t), h * factor, choose(tg, accepted, heun, y), tried + 1

    _, _, y, tried = tg.while_loop(lambda t, *_: t < END - 1e-5, body, [0.0, FIRST_STEP, start, 0])
    return [tg.reduce_mean(tg.square(y)), y, tried]


def jax_loop(
    jax: Any, bounded: bool, going_on: Callable[..., Any], body: Callable[..., Any], start: Any, most: int
) -> Any:
    """Run a loop as users of JAX do: ``while_loop``, or a scan of `most` masked iterations, which has a gradient."""
    if not bounded:
        return jax.lax.while_loop(lambda state: going_on(*state), lambda state: body(*state), start)

    def iteration(state: Any, _: None) -> tuple[Any, None]:
        active = going_on(*state)
        return jax.tree.map(lambda new, old: jax.numpy.where(active, new, old), body(*state), state), None

    return jax.lax.scan(iteration, start, None, length=most)[0]


def jax_runge_kutta(jax: Any, bounded: bool, start: Any, rates: Any) -> list[Any]:
    """Integrate with JAX."""
    jnp = jax.numpy

    def field(y: Any) -> Any:
        prey, predators = y[:, 0], y[:, 1]
        return jnp.stack([prey * (rates[0] - rates[1] * predators), predators * (rates[2] * prey - rates[3])], 1)

    def body(t: Any, h: Any, y: Any, tried: Any) -> tuple[Any, ...]:
        h = jnp.minimum(h, END - t)
        slope = field(y)
        euler = y + h * slope
        heun = y + 0.5 * h * (slope + field(euler))
        error = jnp.max(jnp.abs(heun - euler)) / TOLERANCE
        accepted = error <= 1.0
        factor = jnp.clip(0.9 * jax.lax.rsqrt(error + 1e-6), 0.3, 2.0)
        return jnp.where(accepted, t + h, t), h * factor, jnp.where(accepted, heun, y), tried + 1

    state = (jnp.float32(0.0), jnp.float32(FIRST_STEP), start, jnp.int32(0))
    _, _, y, tried = jax_loop(jax, bounded, lambda t, *_: t < END - 1e-5, body, state, MOST_STEPS)
    return [jnp.mean(jnp.square(y)), y, tried]


# ---- Newton's method, on two coupled equations for each row

CLOSE = 1e-4
MOST_NEWTON = 8  # iterations of the bounded loop: more than any case takes


def draw_newton(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw the right sides of the equations, of shape (batch, 2), and the two factors that couple them."""
    return {
        "right": random.uniform(-2.0, 2.0, (sizes["batch"], 2)).astype(np.float32),
        "coupling": np.float32([0.8, 0.7]),
    }


def residuals(sin: Any, cos: Any, coupling: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Return both left sides of ``x - a sin(y) = p`` and ``y - b cos(x) = q``."""
    return x - coupling[0] * sin(y), y - coupling[1] * cos(x)


def newton_stack(tg: Any, right: Any, coupling: Any) -> list[Any]:
    """Columns by indices, stacked; converged rows stay by ``where``."""

    def body(z: Any, moved: Any, n: Any) -> tuple[Any, ...]:
        x, y = z[:, 0], z[:, 1]
        f, g = residuals(tg.sin, tg.cos, coupling, x, y)
        f, g = f - right[:, 0], g - right[:, 1]
        up, low = -coupling[0] * tg.cos(y), coupling[1] * tg.sin(x)  # outside of the Jacobian's diagonal of ones
        step = tg.stack([f - up * g, g - low * f], axis=1) / (1.0 - up * low)[:, None]
        step = tg.where((moved > CLOSE)[:, None], step, tg.zeros_like(step))
        return z - step, tg.reduce_max(tg.abs(step), axis=1), n + 1

    start = [right, tg.ones_like(right[:, 0]), 0]
    z, _, n = tg.while_loop(lambda z, moved, n: tg.reduce_any(moved > CLOSE), body, start)
    return [tg.reduce_mean(tg.square(z)), z, n]


def newton_concat(tg: Any, right: Any, coupling: Any) -> list[Any]:
    """Columns by slices, concatenated; converged rows stay by ``where``."""

    def body(z: Any, moved: Any, n: Any) -> tuple[Any, ...]:
        x, y = z[:, :1], z[:, 1:]
        f, g = residuals(tg.sin, tg.cos, coupling, x, y)
        f, g = f - right[:, :1], g - right[:, 1:]
        up, low = -coupling[0] * tg.cos(y), coupling[1] * tg.sin(x)
        step = tg.concat([f - up * g, g - low * f], 1) / (1.0 - up * low)
        step = tg.where(moved > CLOSE, step, tg.zeros_like(step))
        return z - step, tg.reduce_max(tg.abs(step), axis=1, keepdims=True), n + 1

    start = [right, tg.ones_like(right[:, :1]), 0]
    z, _, n = tg.while_loop(lambda z, moved, n: tg.reduce_max(moved) > CLOSE, body, start)
    return [tg.reduce_mean(tg.square(z)), z, n]


def newton_masks(tg: Any, right: Any, coupling: Any) -> list[Any]:
    """A loop variable for each unknown; masks by arithmetic."""
    p, q = tg.unstack(right, axis=1)

    def body(x: Any, y: Any, active: Any, n: Any) -> tuple[Any, ...]:
        f, g = residuals(tg.sin, tg.cos, coupling, x, y)
        f, g = f - p, g - q
        up, low = -coupling[0] * tg.cos(y), coupling[1] * tg.sin(x)
        scale = active / (1.0 - up * low)
        dx, dy = (f - up * g) * scale, (g - low * f) * scale
        moved = tg.maximum(tg.abs(dx), tg.abs(dy))
        return x - dx, y - dy, tg.cast(moved > CLOSE, "float32"), n + 1

    x, y, _, n = tg.while_loop(lambda x, y, active, n: tg.reduce_sum(active) > 0.0, body, [p, q, tg.ones_like(p), 0])
    z = tg.stack([x, y], axis=1)
    return [tg.reduce_mean(tg.square(z)), z, n]


def jax_newton(jax: Any, bounded: bool, right: Any, coupling: Any) -> list[Any]:
    """Solve with JAX."""
    jnp = jax.numpy

    def body(z: Any, moved: Any, n: Any) -> tuple[Any, ...]:
        x, y = z[:, 0], z[:, 1]
        f, g = residuals(jnp.sin, jnp.cos, coupling, x, y)
        f, g = f - right[:, 0], g - right[:, 1]
        up, low = -coupling[0] * jnp.cos(y), coupling[1] * jnp.sin(x)
        step = jnp.stack([f - up * g, g - low * f], 1) / (1.0 - up * low)[:, None]
        step = jnp.where((moved > CLOSE)[:, None], step, 0.0)
        return z - step, jnp.max(jnp.abs(step), axis=1), n + 1

    state = (right, jnp.ones_like(right[:, 0]), jnp.int32(0))
    z, _, n = jax_loop(jax, bounded, lambda z, moved, n: jnp.any(moved > CLOSE), body, state, MOST_NEWTON)
    return [jnp.mean(jnp.square(z)), z, n]


# ---- bisection, on a function that is linear between the points of a table

NARROW = 1e-4


def draw_bisection(random: np.random.Generator, sizes: Sizes) -> Arrays:
    """Draw a growing function on [0, 1], as value and slope of each piece, and a wanted value for each row."""
    pieces = sizes["pieces"]
    slopes = random.uniform(0.2, 2.0, pieces)
    values = np.concatenate([[0.0], np.cumsum(slopes)[:-1] / pieces])
    wanted = random.uniform(0.05, 0.95, sizes["batch"]) * slopes.mean()
    return {"table": np.float32(np.stack([values, slopes], 1)), "wanted": np.float32(wanted)}


def pieces_gather(tg: Any, table: Any, piece: Any) -> tuple[Any, Any]:
    """Gather rows, then take their columns."""
    rows = tg.gather(table, piece)
    return rows[:, 0], rows[:, 1]


def pieces_slices(tg: Any, table: Any, piece: Any) -> tuple[Any, Any]:
    """Take columns, then gather from each."""
    return tg.gather(table[:, 0], piece), tg.gather(table[:, 1], piece)


def pieces_stack(tg: Any, table: Any, piece: Any) -> tuple[Any, Any]:
    """Gather elements by pairs of indices."""
    zero = tg.zeros_like(piece)
    return (
        tg.gather_nd(table, tg.stack([piece, zero], axis=1)),
        tg.gather_nd(table, tg.stack([piece, zero + 1], axis=1)),
    )


def pieces_masks(tg: Any, table: Any, piece: Any) -> tuple[Any, Any]:
    """Multiply the table by a mask of its rows."""
    rows = tg.one_hot(piece, table.shape[0]) @ table
    return rows[:, 0], rows[:, 1]


def bisection(take: Callable[..., tuple[Any, Any]], tg: Any, table: Any, wanted: Any) -> list[Any]:
    """Halve the intervals of all rows until they are narrow."""
    pieces = table.shape[0]

    def body(low: Any, high: Any, n: Any) -> tuple[Any, ...]:
        middle = 0.5 * (low + high)
        piece = tg.minimum(tg.cast(middle * pieces, "int32"), pieces - 1)
        value, slope = take(tg, table, piece)
        below = value + slope * (middle - tg.cast(piece, "float32") / pieces) < wanted
        return tg.where(below, middle, low), tg.where(below, high, middle), n + 1

    start = [tg.zeros_like(wanted), tg.ones_like(wanted), 0]
    low, high, n = tg.while_loop(lambda low, high, n: tg.reduce_max(high - low) > NARROW, body, start)
    return [0.5 * (low + high), n]


def jax_bisection(jax: Any, bounded: bool, table: Any, wanted: Any) -> list[Any]:
    """Bisect with JAX."""
    jnp, pieces = jax.numpy, table.shape[0]

    def body(low: Any, high: Any, n: Any) -> tuple[Any, ...]:
        middle = 0.5 * (low + high)
        piece = jnp.minimum((middle * pieces).astype(jnp.int32), pieces - 1)
        value, slope = table[piece, 0], table[piece, 1]
        below = value + slope * (middle - piece.astype(jnp.float32) / pieces) < wanted
        return jnp.where(below, middle, low), jnp.where(below, high, middle), n + 1

    state = (jnp.zeros_like(wanted), jnp.ones_like(wanted), jnp.int32(0))
    low, high, n = jax.lax.while_loop(lambda s: jnp.max(s[1] - s[0]) > NARROW, lambda s: body(*s), state)
    return [0.5 * (low + high), n]


SOLVERS = {
    "runge_kutta": Program(
        draw=draw_runge_kutta,
        spellings={
            "stack": partial(runge_kutta, stack_field, where_accepted),
            "concat": partial(runge_kutta, concat_field, where_accepted),
            "gather_masks": partial(runge_kutta, gather_field, mask_accepted),
        },
        jax=jax_runge_kutta,
        sizes={"batch": 64},
        small={"batch": 8},
        batch={"start": 0},
        trained=("rates",),
    ),
    "newton": Program(
        draw=draw_newton,
        spellings={"stack": newton_stack, "concat": newton_concat, "masks": newton_masks},
        jax=jax_newton,
        sizes={"batch": 256},
        small={"batch": 8},
        batch={"right": 0},
        trained=("right", "coupling"),
    ),
    "bisection": Program(
        draw=draw_bisection,
        spellings={
            "gather": partial(bisection, pieces_gather),
            "slices": partial(bisection, pieces_slices),
            "stack": partial(bisection, pieces_stack),
            "masks": partial(bisection, pieces_masks),
        },
        jax=jax_bisection,
        sizes={"batch": 256, "pieces": 64},
        small={"batch": 8, "pieces": 16},
        batch={"wanted": 0},
    ),
}
